package cli

import (
	"context"
	"io"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/redact"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/clients"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/runs"
)

func (s *session) shCmd() *cobra.Command {
	var policyFile, dir, homeDir string
	var q runs.ShellRequest
	c := &cobra.Command{
		Use:   "sh -c SCRIPT",
		Short: "Run a script of an agent in the sandbox, as the agent's shell",
		Long: `Decides the script as a call of shell.run, and runs it in the sandbox with the
streams of this command. Starting it approves nothing, unlike remit exec: the
policy must allow every command of the script. A command that needs approval is
refused with the remit approvals command that answers it.

Without -p the policy is the trusted remit.yaml of the nearest folder at or
above the current one. That folder, or -w, is the workspace. In a linked Git
worktree, the remit.yaml of the main worktree holds. The script starts
in the current folder, or in the workspace if that is elsewhere.

Connections that were refused are listed on standard error when it has ended.
The exit status is the script's own, or 128 plus the number of the signal that
ended it. A script that is refused does not start: the exit status is 3.
`,
		Example: `  remit sh -c 'go test ./...'
  remit sh -p policy.yaml -w ~/project -c 'git status'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if q.Script == "" {
				return fault.New(fault.Usage, "the script is missing").WithHint("usage: remit sh [-p POLICY] [-w DIR] -c SCRIPT")
			}
			if len(q.Session) > maxAgentSession || len(q.Agent) > maxAgentSession {
				return fault.New(fault.Usage, "--session or --agent has more than %d bytes", maxAgentSession)
			}
			if homeDir != "" {
				s.useHome(s.abs(homeDir))
			}
			a, err := s.open()
			if err != nil {
				return err
			}
			if policyFile != "" {
				q.Policy = s.abs(policyFile)
			}
			if q.Agent != "" {
				q.Advice = adviseHook
			}
			if err := s.shellFolders(a, dir, &q); err != nil {
				return err
			}
			return s.shell(cmd.Context(), a, q)
		},
	}
	fl := c.Flags()
	fl.StringVarP(&q.Script, "command", "c", "", "`SCRIPT` to run")
	fl.StringVarP(&policyFile, "policy", "p", "", "policy `FILE` to run under")
	fl.StringVarP(&dir, "workspace", "w", "", "workspace `DIR` (default: see above; with -p the current folder)")
	fl.StringVar(&homeDir, "home", "", "use this `DIR` as REMIT_HOME, instead of the environment's")
	fl.StringVar(&q.Session, "session", "", "`ID` of the agent's session")
	fl.StringVar(&q.Agent, "agent", "", "`NAME` of the agent, as of its hook")
	fl.StringVar(&q.Scratch, "scratch", "", "`DIR` for scratch files of the agent's session")
	fl.StringArrayVar(&q.Approved, "approved", nil, "`ID` of a question that the agent's user answered with yes")
	return c
}

// maxAgentSession bounds the ID of an agent's session, in bytes.
const maxAgentSession = 200

// shellFolders chooses the workspace, the folder where the script starts, and the one for scratch files.
func (s *session) shellFolders(a *app.App, dir string, q *runs.ShellRequest) (err error) {
	if q.Scratch != "" {
		if q.Scratch, err = clients.MakeScratch(q.Scratch, q.Session); err != nil {
			return err
		}
	}
	at, err := home.Workspace(s.abs(""))
	if err != nil {
		return err
	}
	switch {
	case dir != "":
		q.Workspace, err = home.Workspace(s.abs(dir))
	case q.Policy != "":
		q.Workspace = at
	default:
		q.Workspace, err = a.Policies.Project(at)
	}
	q.Dir = startIn(q.Workspace, at)
	return err
}

// startIn is the folder where a script starts: dir, or the workspace if dir is elsewhere.
func startIn(workspace, dir string) string {
	if in, err := filepath.Rel(workspace, dir); err != nil || !filepath.IsLocal(in) {
		return workspace
	}
	return dir
}

// shell runs the script with the streams of this process.
func (s *session) shell(ctx context.Context, a *app.App, q runs.ShellRequest) error {
	out, errs := newRecorded(s.Out), newRecorded(s.Err)
	piped := *s // not a terminal: agents read the streams
	piped.Streams = Streams{In: struct{ io.Reader }{s.In}, Out: out, Err: errs}
	con, stdio, err := piped.newConsole()
	if err != nil {
		return err
	}
	q.Stdio = stdio
	q.ShowKeys = func() { out.shows.Store(true); errs.shows.Store(true) }
	q.Written = func() (stdout, stderr sandbox.Stream) {
		con.limitCopies()
		con.copies.Wait()
		_, _ = out.keys.Flush(), errs.keys.Flush() // a reader that has gone needs no more
		return out.Stream, errs.Stream
	}
	con.start()
	res, err := a.Runs.Shell(ctx, q)
	stdio.Close() // of a script that did not start
	con.stop()
	if err != nil {
		return err
	}
	var refused refusals
	for _, c := range res.Command.Connections {
		if c.Hint = ""; c.Refused() { // the hint is for the policy's author
			refused.add(c)
		}
	}
	if note := redact.KeyNote(append(out.keys.Rules, errs.keys.Rules...), ""); note != "" {
		s.errorf("%s\n", note)
	}
	s.printRefusals(&refused, res.Command)
	s.printOpen(q.Agent, res.Open)
	s.printHints(res.Command)
	if o := res.Command; res.Err != nil && (o.Duration == 0 || o.Limit != "" || o.Signal != "" || o.TimedOut) {
		s.complain(res.Err)
		if res.Hint != "" {
			s.errorf("  %s\n", show(string(res.Hint)))
		}
	}
	return execExit(ctx.Err() != nil, res)
}

// printOpen tells an agent how its command's open questions are answered.
func (s *session) printOpen(agent string, open []store.Approval) {
	if slices.ContainsFunc(open, runs.Alone) {
		s.errorf("  run exactly this command again: your user is then asked, by %s or with remit approvals\n", show(agent))
	}
	open = slices.DeleteFunc(open, runs.Alone)
	for _, q := range open[:min(len(open), maxRefusals)] {
		s.errorf("  %s\n", show(adviseHook(q)))
	}
}

// maxRecorded is how much of a stream is kept for the record, in bytes. Policies set less.
const maxRecorded = 16 << 20

// recorded passes a stream on and keeps its beginning as it was.
type recorded struct {
	sandbox.Stream
	to    io.Writer
	shows atomic.Bool // keys
	keys  redact.KeyWriter
}

// newRecorded masks keys, unless a person reads them at a terminal.
func newRecorded(to io.Writer) *recorded {
	r := &recorded{to: to, keys: redact.KeyWriter{To: to}}
	r.shows.Store(isTerminal(to))
	return r
}

func (r *recorded) Write(b []byte) (int, error) {
	r.Total += int64(len(b))
	r.Data = append(r.Data, b[:min(len(b), maxRecorded-len(r.Data))]...)
	if r.shows.Load() {
		return r.to.Write(b)
	}
	return r.keys.Write(b)
}
