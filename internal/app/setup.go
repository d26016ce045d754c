package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/profile"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/clients"
	"github.com/remitrun/remit/internal/service/servers"
)

// clientsOf wires the agents of this machine.
func (a *App) clientsOf() *clients.Clients {
	exe, err := os.Executable()
	if err != nil {
		exe = "" // an installation says so
	}
	return &clients.Clients{Home: a.Home, Root: "/", Exe: exe, Run: runLine}
}

// SetupRequest says how to set up a workspace.
type SetupRequest struct {
	Workspace string
	Profile   string // "": the trusted remit.yaml, or else the default profile
	// Registries: the person's package registries may be read, by approval.
	Registries bool
}

// Setup is how a workspace is set up, or will be.
type Setup struct {
	Policy  string // the file
	Profile profile.Profile
	New     bool // the policy is written from the profile; else it is there and trusted
	Agents  []clients.Found
	// Registries are the package registries that were found, and Source is the policy with
	// them; both are empty if they were not asked for.
	Registries []servers.OwnRegistries
	Source     string
}

// AgentSetup is the result for one agent.
type AgentSetup struct {
	clients.State
	Err error // why the hook was not installed
}

// PlanSetup tells what [App.SetUp] would do. It refuses a remit.yaml that nobody trusted: a
// repository can bring one.
func (a *App) PlanSetup(ctx context.Context, q SetupRequest) (Setup, error) {
	out := Setup{Policy: filepath.Join(q.Workspace, "remit.yaml"), Agents: a.Clients.Found()}
	name := q.Profile
	if name == "" {
		name = profile.Default
	}
	var err error
	if out.Profile, err = profile.Find(name); err != nil {
		return out, err
	}
	if q.Workspace == "/" || q.Workspace == a.Home.Env("").Home {
		return out, fault.New(fault.Usage, "%s is not a project: an agent would work on all of it", q.Workspace).
			WithHint("run remit init in the folder of a project, or name one with -w")
	}
	if out.Source = out.Profile.Source; q.Registries {
		out.Registries = a.Servers.OwnRegistries(ctx)
		if out.Source, err = withRegistries(out.Profile, out.Registries); err != nil {
			return out, err
		}
	}
	src, trusted, err := a.Policies.Own(q.Workspace)
	switch {
	case err != nil:
		return out, err
	case src == nil:
		out.New = true
	case !trusted:
		return out, fault.New(fault.Conflict, "%s is there already, and you have not trusted it as it is now", out.Policy).
			WithHint("read it, then run remit policy trust; or remove it. Then run remit init again")
	case q.Profile != "" && string(src) != out.Source:
		return out, fault.New(fault.Conflict, "%s is there already, and is not the profile %s", out.Policy, q.Profile).
			WithHint("leave --profile out to keep the policy, or remove the file")
	}
	return out, nil
}

// withRegistries adds entries of network.ask to a profile: a person is asked before a command
// may read from a package registry.
func withRegistries(p profile.Profile, list []servers.OwnRegistries) (string, error) {
	if strings.Contains(p.Source, "\nnetwork:") {
		return "", fault.New(fault.Usage, "the profile %s has a network section of its own", p.Name).
			WithHint("leave --registries out, and add the entries that it would show to remit.yaml: remit init --registries --profile coding")
	}
	var out strings.Builder
	seen := map[string]bool{}
	for _, r := range list {
		for _, e := range r.Entries {
			if !seen[e] {
				fmt.Fprintf(&out, "    - %s # %s\n", e, r.Manager)
				seen[e] = true
			}
		}
	}
	if out.Len() == 0 {
		return p.Source, nil
	}
	src := strings.TrimRight(p.Source, "\n") + "\n\n# Package registries of your own settings: you are asked before a command reads from one.\nnetwork:\n  ask:\n" + out.String()
	_, err := policy.Parse(p.Name, []byte(src))
	return src, err
}

// SetUp writes and trusts the policy, installs the hooks of all agents that were found, and
// proves each. An agent that fails does not keep the others from being set up.
func (a *App) SetUp(ctx context.Context, q SetupRequest, plan Setup) ([]AgentSetup, error) {
	if plan.New {
		if err := a.Policies.Create(q.Workspace, plan.Source); err != nil {
			return nil, err
		}
	}
	var out []AgentSetup
	for _, found := range plan.Agents {
		st, err := a.InstallHook(ctx, clients.Request{Agent: found.Name, Scope: clients.Project, Folder: q.Workspace})
		if st.Title == "" {
			st.Agent, st.Title = found.Name, found.Title
		}
		out = append(out, AgentSetup{st, err})
	}
	return out, nil
}

// InstallHook installs the hook of one agent, proves it, and tells how it stands.
func (a *App) InstallHook(ctx context.Context, q clients.Request) (clients.State, error) {
	one, _, err := a.Clients.Install(q)
	if err != nil {
		return clients.State{}, err
	}
	if _, err := a.Clients.Prove(ctx, one); err != nil {
		return clients.State{}, err
	}
	return a.Clients.Find(one.Key())
}
