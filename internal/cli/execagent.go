package cli

import (
	"strings"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/authority/policy/profile"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/runs"
)

// confineAgent prepares a command line that starts an agent of another maker: the named one, or
// the program's where no other policy holds.
func (s *session) confineAgent(a *app.App, q *runs.ExecRequest, v *execView, named string) error {
	name := named
	switch {
	case named != "" && q.Learn != "":
		return fault.New(fault.Usage, "--agent and --learn cannot be combined").WithHint("--agent NAME has a ready policy")
	case named != "" && q.Grant.Token != "":
		return fault.New(fault.Usage, "--agent and --grant cannot be combined").WithHint("an agent's ready policy is for the person who types the command")
	case named == "" && (q.Policy != "" || q.Learn != "" || q.Grant.Token != ""):
		return nil
	case named == "":
		name = profile.AgentOf(q.Argv[0])
	}
	if name == "" {
		return nil
	}
	if src, _, err := a.Policies.Own(q.Workspace); err != nil || src != nil && named == "" {
		v.note = "the policy is this project's remit.yaml; with the ready policy: remit exec --agent " + name + " -- ..."
		return err
	}
	c, err := a.Clients.Confine(name, q.Argv[0], q.Workspace, q.Policy == "")
	if err != nil {
		return err
	}
	if q.Policy == "" {
		q.Root = c.Policy
		v.note = "ready policy for " + c.Agent.Title + "; its home is " + c.Home
		if len(c.Exposed) > 0 {
			v.note += "; the sandbox holds " + strings.Join(c.Exposed, " and ") + ", because the host is remote and has no TLS"
		}
	} else if len(c.Exposed) > 0 {
		v.note = "the sandbox holds " + strings.Join(c.Exposed, " and ") + ": only the ready policy keeps logins outside"
	}
	q.Home, q.Env, v.agent = c.Home, c.Env, &c
	v.hooks = &confinedHooks{session: s, app: a, open: map[clientSession]bool{}, fixed: runs.ClientRequest{
		Policy: q.Policy, Root: q.Root, Workspace: q.Workspace, Advice: adviseHook,
	}}
	q.Services = append(q.Services, v.hooks.service())
	return nil
}
