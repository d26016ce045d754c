package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/garbage"
	"github.com/remitrun/remit/internal/doors/hookrelay"
	"github.com/remitrun/remit/internal/doors/hookwire"
	"github.com/remitrun/remit/internal/doors/keeper"
	"github.com/remitrun/remit/internal/service/database"
	"github.com/remitrun/remit/internal/service/doctor"
	"github.com/remitrun/remit/internal/service/home"
)

// keeperLook is how often a keeper looks for a newer program and another ledger. It looks at each
// call, too.
const keeperLook = time.Second

func (s *session) keeperCmd() *cobra.Command {
	var homeDir string
	var idle time.Duration
	var lock uint
	c := &cobra.Command{
		Use:   "keeper",
		Short: "Answer the hooks and shells of agents from one process that stays",
		Long: `Answers the hooks of your agents for one $REMIT_HOME, and runs their confined
shell commands. remit-hook, a small program that is installed beside remit,
sends it the events and commands. That is much faster than a new process. Each
call is decided like one of remit hook or remit sh, with the settings, policies
and grants of that moment.

remit-hook starts the keeper, which ends after ten minutes without a call, or
when this program or the ledger is replaced. Without a keeper, or with
REMIT_NO_KEEPER=1 or --no-keeper, remit-hook becomes remit hook or remit sh.
`,
		Example: `  remit keeper status
  remit keeper stop`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.useHome(homeDir)
			return s.keep(cmd.Context(), idle, lock)
		},
	}
	c.Flags().StringVar(&homeDir, "home", "", "use this `DIR` as REMIT_HOME, whatever the environment says")
	c.Flags().DurationVar(&idle, "idle", 10*time.Minute, "end after this `TIME` without a call")
	c.Flags().UintVar(&lock, "lock", 0, "descriptor of the locked lock file")
	if err := c.Flags().MarkHidden("lock"); err != nil {
		panic(err) // there is no such flag
	}
	c.AddCommand(s.keeperStatusCmd(), s.keeperStopCmd())
	return c
}

// keep is the keeper.
func (s *session) keep(ctx context.Context, idle time.Duration, lock uint) error {
	if hookrelay.Present() {
		return fault.New(fault.Usage, "a sandbox has no keeper of its own")
	}
	cfg, err := home.FromEnv(s.environ)
	if err != nil {
		return err
	}
	defer garbage.Less()()
	own := app.Shared(&database.Shared{})
	ledger, boxes := own.Ledger, own.Sandboxes
	k := &keeper.Keeper{
		Home: cfg.Dir, Version: s.version, Idle: idle, Look: keeperLook, Env: s.lookup, Stale: ledger.Stale, Kept: boxes.Kept,
		Open: boxes.Open, Sockets: boxes.Sockets,
		Answer: func(ctx context.Context, r hookwire.Request) hookwire.Answer { return s.keptHook(ctx, r, own) },
		Shell: func(ctx context.Context, r hookwire.Request, in io.Reader, out, errs io.Writer) byte {
			return s.keptShell(ctx, r, Streams{In: in, Out: out, Err: errs}, own)
		},
	}
	if lock > 0 {
		k.Lock = os.NewFile(uintptr(lock), hookwire.LockFile)
	}
	return cmp.Or(k.Serve(ctx), boxes.Close(), ledger.Close())
}

// keptHook decides one call as remit hook. It declines instead of an error, so that a process of the
// client's own has the last word.
func (s *session) keptHook(ctx context.Context, r hookwire.Request, own app.Own) hookwire.Answer {
	began := time.Now()
	var out, errs bytes.Buffer
	inner := s.kept(r, Streams{In: bytes.NewReader(r.Event), Out: &out, Err: &errs}, own)
	status := inner.run(ctx, append([]string{"hook"}, r.Args...))
	if status != 0 && time.Since(began) < hookwire.RetryTime {
		return hookwire.Answer{Decline: true}
	}
	return hookwire.Answer{Status: byte(status), Out: out.Bytes(), Err: errs.Bytes()} //nolint:gosec // exit statuses are below 256
}

// keptShell runs one script as remit sh.
func (s *session) keptShell(ctx context.Context, r hookwire.Request, streams Streams, own app.Own) byte {
	inner := s.kept(r, streams, own)
	ended := false
	defer func() {
		if !ended && inner.app != nil {
			_ = inner.app.Close() // a panic ends this command with all of its processes
		}
	}()
	status := inner.run(ctx, append([]string{"sh"}, r.Args...))
	ended = true
	return byte(status) //nolint:gosec // exit statuses are below 256
}

// kept is a session for one client.
func (s *session) kept(r hookwire.Request, streams Streams, own app.Own) *session {
	return &session{Streams: streams, version: s.version, environ: r.Env, lookup: home.Lookup(r.Env), dir: r.Dir, own: own}
}

func (s *session) keeperStatusCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show whether a keeper is running",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.withKeeper(cmd.Context(), keeper.Ask, "is running")
		},
	}
}

func (s *session) keeperStopCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "stop",
		Short: "End the keeper and its commands, after the hooks that it has read",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.withKeeper(cmd.Context(), keeper.Stop, "was stopped")
		},
	}
}

// withKeeper asks or ends the keeper, and shows its status.
func (s *session) withKeeper(ctx context.Context, do func(ctx context.Context, dir string) (keeper.Status, error), done string) error {
	cfg, err := home.FromEnv(s.environ)
	if err != nil {
		return err
	}
	ctx, stop := hookDeadline(ctx)
	defer stop()
	st, err := do(ctx, cfg.Dir)
	if err != nil {
		return err
	}
	if s.json {
		return s.printJSON(st)
	}
	s.printf("the keeper %s: process %d\n  version %s\n  since %s, %d calls, sandboxes of agents' sessions: %d\n", done, st.PID, show(st.Version), st.Since.Local().Format(time.DateTime), st.Calls, st.Sandboxes)
	return nil
}

// keeperCheck describes the keeper for remit doctor. A missing keeper is no fault.
func keeperCheck(ctx context.Context, dir string) doctor.Check {
	ctx, stop := hookDeadline(ctx)
	defer stop()
	st, err := keeper.Ask(ctx, dir)
	switch {
	case errors.Is(err, fault.NotFound):
		return doctor.Check{Name: "keeper", OK: true, Detail: "none is running"}
	case err != nil:
		return doctor.Check{Name: "keeper", Detail: fault.Message(err)}
	}
	return doctor.Check{Name: "keeper", OK: true, Detail: fmt.Sprintf("process %d, version %s, %d calls", st.PID, st.Version, st.Calls)}
}
