package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/authority/policy/profile"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/service/clients"
	"github.com/remitrun/remit/internal/service/grants"
	"github.com/remitrun/remit/internal/service/policies"
	"github.com/remitrun/remit/internal/service/runs"
)

// execHelp is the help of remit exec.
var execHelp = `The command can use only the files and the network that the policy allows.
Running it here counts as your approval of exactly this command, and is
recorded; commands.deny still applies. Refused connections are shown with the
policy entry that would allow them: at once, or on a terminal after the command
has ended. They are also recorded, and written to security.log.

--learn writes the smallest policy that the command needs. The command may then
use the whole workspace, its writes are held, and what the policy denies stays
denied. Refused actions become comments in the new policy. Review the policy
before you use it: a command may behave differently while it is observed.

Agents of other makers (` + strings.Join(profile.AgentNames(), ", ") + `)
have a ready policy, which is used where the workspace has no remit.yaml and no
policy is named: the workspace, the hosts of its model, your settings, and a
home folder of its own that keeps its state. Your login stays outside: the proxy
adds it to requests to the model. --agent asks for the policy. Where the agent
has Remit's hook, its tool calls are decided and recorded too.

The exit status is the command's own, or 128 plus the number of the signal that
ended it.
`

func (s *session) execCmd() *cobra.Command {
	var policyFile, dir, out, agent string
	var publish []string
	var ask, showProfile, held, learn bool
	var presented func() (grants.Presented, error)
	c := &cobra.Command{
		Use:   "exec [flags] -- COMMAND...",
		Short: "Run a command in the sandbox",
		Long:  execHelp,
		Example: `  remit exec -p policy.yaml -- bash
  remit exec -w ~/project -- npm test
  remit exec -- claude
  remit exec -p policy.yaml --changeset -- make
  remit exec --learn -o build.yaml -- make
  remit exec -p policy.yaml --profile -- node server.js`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fault.New(fault.Usage, "COMMAND is missing").WithHint("usage: remit exec [-p POLICY] -- COMMAND...; see remit exec --help")
			}
			a, ws, err := s.openIn(dir)
			if err != nil {
				return err
			}
			granted, err := presented()
			if err != nil {
				return err
			}
			q := runs.ExecRequest{Argv: args, Policy: policyFile, Workspace: ws, Changeset: held, Grant: granted}
			if q.Publish, err = publishedPorts(publish); err != nil {
				return err
			}
			if err := learning(&q, learn, showProfile, out); err != nil {
				return err
			}
			v := execView{ask: ask, out: out}
			if err := s.confineAgent(a, &q, &v, agent); err != nil {
				return err
			}
			if showProfile {
				return s.printProfile(cmd.Context(), a, q)
			}
			return s.exec(cmd.Context(), a, q, v)
		},
	}
	presented = s.presented(c)
	fl := c.Flags()
	fl.SetInterspersed(false)
	fl.StringVarP(&policyFile, "policy", "p", "", "policy `FILE` to run under")
	fl.StringVarP(&dir, "workspace", "w", "", "workspace `DIR`, where the command starts (default: the current folder)")
	fl.StringVar(&agent, "agent", "", "run the agent `NAME` as a whole, with a home of its own: "+strings.Join(profile.AgentNames(), ", "))
	fl.BoolVar(&ask, "ask", false, "ask about connections that need approval; with --learn, about every new one")
	fl.BoolVar(&learn, "learn", false, "write the smallest policy that the command needs")
	fl.StringVarP(&out, "output", "o", "-", "with --learn, new `FILE` for the policy; - is standard output")
	fl.StringArrayVar(&publish, "publish", nil, "make the command's server on `PORT` reachable at 127.0.0.1 while it runs; HOSTPORT:PORT for another port")
	fl.BoolVar(&held, "changeset", false, "hold writes until remit changes apply")
	fl.BoolVar(&showProfile, "profile", false, "print the sandbox profile of the command and do not run it")
	return c
}

// publishedPorts reads the values of --publish.
func publishedPorts(list []string) (out []sandbox.Port, err error) {
	for _, text := range list {
		host, inside, two := strings.Cut(text, ":")
		if !two {
			inside = host
		}
		h, err := strconv.ParseUint(host, 10, 16)
		i, also := strconv.ParseUint(inside, 10, 16)
		if err != nil || also != nil || h == 0 || i == 0 {
			return nil, fault.New(fault.Usage, "--publish %q is not a port; expected PORT or HOSTPORT:PORT, with numbers from 1 to 65535", text).
				WithHint("--publish 3000")
		}
		out = append(out, sandbox.Port{Host: uint16(h), Inside: uint16(i)})
	}
	return out, nil
}

func (s *session) printProfile(ctx context.Context, a *app.App, q runs.ExecRequest) error {
	p, err := a.Runs.Profile(ctx, q)
	if err != nil {
		return err
	}
	if s.json {
		return s.printJSON(p)
	}
	s.printf("%s", p)
	return nil
}

// execView holds the person's choices of questions and output.
type execView struct {
	ask   bool              // about connections
	out   string            // the file for a learned policy
	agent *clients.Confined // an agent that is confined as a whole; nil: none
	hooks *confinedHooks    // of agent
	note  string            // about the choice of the policy; "": nothing
}

// exec runs the command with the streams of this process.
func (s *session) exec(ctx context.Context, a *app.App, q runs.ExecRequest, v execView) error {
	if v.agent != nil {
		if err := a.Clients.GuardFolders(*v.agent, q.Workspace); err != nil {
			return err
		}
	}
	con, stdio, err := s.newConsole()
	if err != nil {
		return err
	}
	q.Stdio, q.Outputs = stdio, outputFiles(q.Workspace, s.Out, s.Err)
	var kept refusals
	q.Notice = func(c sandbox.Connection) {
		switch {
		case c.Failed() && !con.raws && kept.first(c):
			con.say("%s %s: %s\n", s.paintErr(yellow, "!"), show(c.Target()), show(c.Reason))
		case !c.Refused():
		case con.raws:
			kept.add(c)
		case kept.first(c):
			con.say("%s %s\n", s.paintErr(red, "✗ refused"), refusal(c))
		}
	}
	if v.ask {
		q.Ask = con.ask
	}
	q.Started = func(_ *runner.Run, h policies.Hint) {
		for _, line := range []string{v.note, string(h)} {
			if line != "" {
				con.say("%s %s\n", s.paintErr(yellow, "!"), show(line))
			}
		}
	}
	con.start()
	res, err := a.Runs.Exec(ctx, q)
	stdio.Close() // a command that was refused has not closed them, and stop would wait for more output
	con.stop()
	s.printRefusals(&kept, res.Command)
	if v.hooks != nil {
		err = errors.Join(err, v.hooks.end(context.WithoutCancel(ctx)))
	}
	if err != nil {
		return err
	}
	s.execSummary(res)
	if err := s.printLearned(res, v.out); err != nil {
		return err
	}
	return execExit(ctx.Err() != nil, res)
}

// refusal names the refused connection, and the entry that would allow it.
func refusal(c sandbox.Connection) string {
	text := fmt.Sprintf("%s (%s)", show(c.Target()), show(refusalText(c.Rule, c.Reason)))
	if c.Hint != "" {
		text += "\n  " + show(c.Hint)
	}
	return text
}

// printHints prints possible reasons why a command failed.
func (s *session) printHints(o sandbox.Outcome) {
	for _, hint := range o.Hints {
		s.errorf("%s %s\n", s.paintErr(yellow, "remit:"), show(hint))
	}
}

// execSummary tells on standard error how it went; standard output is the command's.
func (s *session) execSummary(res runs.ExecResult) {
	o, refused := res.Command, res.Counts.Refused
	connections := refused - o.RefusedPaths
	tried := connections
	for _, c := range o.Connections {
		if !c.Refused() {
			tried += max(1, c.Count)
		}
	}
	parts := []string{res.Status.String() + " in " + ms(res.Duration)}
	if o.Duration > 0 {
		parts = append(parts, "cpu "+ms(o.CPU), fmt.Sprintf("memory %d MiB", (o.PeakMemory+1<<20-1)>>20))
	}
	if o.Isolation != "" && o.Isolation != "full" {
		parts = append(parts, s.paintErr(yellow, "isolation "+o.Isolation+" only"))
	}
	if tried > 0 {
		parts = append(parts, fmt.Sprintf("%s, %d refused", counted(tried, "connection"), connections))
	}
	if o.RefusedPaths > 0 {
		parts = append(parts, counted(o.RefusedPaths, "file operation")+" refused")
	}
	s.printHints(o)
	sign, col := icon(res.Status.String())
	s.errorf("%s %s  %s\n", s.paintErr(col, sign), strings.Join(parts, " · "), s.paintErr(dim, "remit show "+res.ID.String()))
	if res.Held != nil {
		s.errorf("%s held  %s\n", counted(len(res.Held), "change"), s.paintErr(dim, "remit changes "+res.ID.String()+" --diff"))
	}
	if res.Err != nil && (o.Duration == 0 || o.Limit != "" || o.Signal != "") {
		s.complain(res.Err)
	}
}

// execExit passes the command's own exit status on.
func execExit(interrupted bool, res runs.ExecResult) error {
	o := res.Command
	switch {
	case interrupted:
		return exit(130)
	case res.Err != nil && (o.Duration == 0 || errors.Is(res.Err, fault.HandleRefused)): // it did not run, or was ended
		return exit(fault.CodeOf(res.Err).Exit())
	case o.ExitCode > 0:
		return exit(o.ExitCode)
	case o.Signal != "":
		return exit(128 + int(unix.SignalNum(o.Signal)))
	}
	return runExit(false, res.Status)
}
