// Package cli is Remit's command line: one file per command, each thin. It
// parses arguments, calls package app, and prints the result. Start at [Main].
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/garbage"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/home"
)

// Streams are the standard streams of a command.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// session is one run of the program.
type session struct {
	Streams
	version string
	environ []string
	lookup  func(string) (string, bool)
	dir     string // of relative paths; "": the process's current folder
	json    bool
	own     app.Own
	app     *app.App // built when first needed

	unwritten error // the first error of standard output
}

// exit is an error that only carries an exit status: its message has already been
// printed.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// Main runs the command line and returns the exit status.
func Main(ctx context.Context, args []string, s Streams, environ []string, version string) int {
	garbage.Later()
	ss := &session{Streams: s, version: version, environ: environ, lookup: home.Lookup(environ)}
	return ss.run(ctx, args)
}

// run carries out one command.
func (s *session) run(ctx context.Context, args []string) int {
	root := s.root(args...)
	root.SetArgs(args)
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	status := s.status(ctx, root.ExecuteContext(ctx))
	if status == 0 && s.unwritten != nil {
		status = s.status(ctx, fault.Wrap(fault.Internal, s.unwritten, "not all of the output could be written"))
	}
	if s.app != nil {
		// A service ends by a signal: an error of its end is told all the same.
		if closing := s.status(context.WithoutCancel(ctx), s.app.Close()); status == 0 {
			status = closing
		}
	}
	return status
}

// abs makes a path of the command line, or the current folder "", absolute where the process's
// current folder is not the command's.
func (s *session) abs(path string) string {
	if s.dir == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(s.dir, path)
}

// status prints an error and returns its exit status.
func (s *session) status(ctx context.Context, err error) int {
	var e exit
	switch {
	case err == nil, errors.Is(err, syscall.EPIPE): // the reader of the output has gone: not a failure
		return 0
	case errors.As(err, &e):
		return int(e)
	case ctx.Err() != nil && (!isCoded(err) || errors.Is(err, context.Canceled)):
		s.errorf("interrupted\n")
		return 130
	}
	var list fault.List
	if errors.As(err, &list) {
		for _, one := range list {
			s.complain(one)
		}
	} else {
		s.complain(err)
	}
	return fault.CodeOf(err).Exit()
}

// complain prints one error with its code and, for the operator, its cause.
func (s *session) complain(err error) { s.complainAs(s.paintErr(red, "error:"), err) }

// complainAs prints an error behind a label.
func (s *session) complainAs(label string, err error) {
	var coded *fault.Error
	if !errors.As(err, &coded) {
		s.errorf("%s %s\n", label, show(err.Error()))
		return
	}
	bare := *coded
	bare.Hint = ""
	s.errorf("%s %s\n", label, show(bare.Error()))
	if coded.Hint != "" {
		s.errorf("  %s\n", show(coded.Hint))
	}
	if cause := causeOf(coded); cause != "" {
		s.errorf("  cause: %s\n", show(cause))
	}
}

// causeOf returns the cause of an error, or "" if its message has it already.
func causeOf(e *fault.Error) string {
	if e.Err == nil || fault.CodeOf(e.Err) != fault.Internal {
		return ""
	}
	inner := e.Err
	for errors.Unwrap(inner) != nil {
		inner = errors.Unwrap(inner)
	}
	if strings.Contains(e.Msg, inner.Error()) {
		return ""
	}
	return firstLine(e.Err.Error())
}

func isCoded(err error) bool {
	var coded *fault.Error
	return errors.As(err, &coded)
}

// Commands returns the tree of all commands, for manual pages and completions.
func Commands() *cobra.Command {
	s := &session{lookup: func(string) (string, bool) { return "", false }}
	return s.root()
}

// root builds the tree of all commands. If args begin with the name of one, it builds only
// that one: all take a tenth of the time of a short command.
func (s *session) root(args ...string) *cobra.Command {
	root := &cobra.Command{
		Use:   "remit",
		Short: "Run AI agents' tool calls within their remit",
		Long: `Remit executes the tool calls of AI agents. A policy decides every call. The
call is recorded before it runs, confined while it runs, and can be verified
and replayed afterwards.
`,
		Example: `  remit init                             set up a project and its agents
  remit run plan.yaml -p policy.yaml     execute a plan
  remit report last                      see what it did`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
	}
	root.PersistentFlags().BoolVar(&s.json, "json", false, "print JSON")
	version := root.Flags().Bool("version", false, "print the version")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if *version {
			return s.printVersion()
		}
		return cmd.Help()
	}
	root.SetFlagErrorFunc(badFlag)
	groups := s.groups()
	wanted := named(groups, args)
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.name, Title: g.name + ":"})
		for _, c := range slices.Concat(g.common, g.rare) {
			if wanted == "" || wanted == c.name {
				built := c.build()
				built.GroupID = g.name
				root.AddCommand(built)
			}
		}
	}
	root.SetCompletionCommandGroupID(setup)
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "FlagUsages", "FlagUsagesWrapped 80"))
	full := root.HelpFunc()
	root.SetHelpCommand(s.helpCmd(full))
	root.SetHelpCommandGroupID(setup)
	if wanted == "" {
		root.InitDefaultHelpCmd()
		completion(root)
	}
	prepare(root)
	s.takeRuns(root)
	root.SetHelpFunc(func(cmd *cobra.Command, words []string) {
		if cmd.HasParent() {
			full(cmd, words)
			return
		}
		printOverview(cmd, groups)
	})
	return root
}

// setup is the group of commands that concern the installation.
const setup = "Setup"

// group is a heading in the root's help with its commands.
type group struct {
	name         string
	common, rare []command // the short help describes the common ones and names the rare ones
}

// command is a command that can be built.
type command struct {
	name  string
	build func() *cobra.Command
}

// named returns the command that args begin with; "" if they begin with something else.
func named(groups []group, args []string) string {
	for _, g := range groups {
		for _, c := range slices.Concat(g.common, g.rare) {
			if len(args) > 0 && args[0] == c.name {
				return c.name
			}
		}
	}
	return ""
}

// groups returns all commands, as the root's help groups them.
func (s *session) groups() []group {
	return []group{
		{"Run", []command{{"run", s.runCmd}, {"exec", s.execCmd}}, []command{{"hook", s.hookCmd}, {"plan", s.planCmd}, {"queue", s.queueCmd}, {"schedule", s.scheduleCmd}, {"sh", s.shCmd}, {"slash", s.slashCmd}, {"worker", s.workerCmd}, {"workers", s.workersCmd}}},
		{"Record", []command{{"runs", s.runsCmd}, {"show", s.showCmd}, {"verify", s.verifyCmd}}, []command{{"audit", s.auditCmd}, {"changes", s.changesCmd}, {"erase", s.eraseCmd}, {"replay", s.replayCmd}, {"report", s.reportCmd}, {"settle", s.settleCmd}, {"status", s.statusCmd}, {"top", s.topCmd}, {"undo", s.undoCmd}}},
		{"Authority", []command{{"policy", s.policyCmd}, {"grant", s.grantCmd}, {"approvals", s.approvalsCmd}}, []command{{"authority", s.authorityCmd}, {"labels", s.labelsCmd}, {"secret", s.secretCmd}}},
		{"Tools", []command{{"tools", s.toolsCmd}, {"mcp", s.mcpCmd}}, []command{{"api", s.apiCmd}, {"ext", s.extCmd}, {"image", s.imageCmd}, {"tool", s.toolCmd}, {"wasm", s.wasmCmd}}},
		{"Agents", []command{{"chat", s.chatCmd}}, []command{{"agents", s.agentsCmd}, {"capabilities", s.capabilitiesCmd}, {"models", s.modelsCmd}, {"sessions", s.sessionsCmd}}},
		{"Service", []command{{"serve", s.serveCmd}}, []command{{"keeper", s.keeperCmd}, {"login", s.loginCmd}, {"port", s.portCmd}, {"ui", s.uiCmd}}},
		{setup, []command{{"init", s.initCmd}, {"doctor", s.doctorCmd}}, []command{{"backup", s.backupCmd}, {"db", s.dbCmd}, {"keys", s.keysCmd}, {"notify", s.notifyCmd}, {"restore", s.restoreCmd}, {"version", s.versionCmd}, {"witness", s.witnessCmd}}},
	}
}

// open builds the App on first use. A missing ledger whose keys exist is an error
// for every command, because records were lost.
func (s *session) open() (*app.App, error) {
	a, err := s.openAnyway()
	if err != nil {
		return nil, err
	}
	return a, a.LedgerPresent()
}

// reader is open with the ledger, to be read.
func (s *session) reader(ctx context.Context) (*app.App, store.Backend, error) {
	a, err := s.open()
	if err != nil {
		return nil, nil, err
	}
	st, err := a.Reader(ctx)
	return a, st, err
}

// useHome pins $REMIT_HOME, and with it the ledger's file. The environment of a command that
// an agent starts may come from files of the workspace.
func (s *session) useHome(dir string) {
	if dir != "" {
		s.environ = append(slices.Clip(s.environ), "REMIT_HOME="+dir, "REMIT_DB=")
	}
}

// openIn is open for commands with a workspace: dir, or the current folder.
func (s *session) openIn(dir string) (*app.App, string, error) {
	a, err := s.open()
	if err != nil {
		return nil, "", err
	}
	ws, err := home.Workspace(dir)
	return a, ws, err
}

// openAnyway is open for commands that handle a missing ledger themselves.
func (s *session) openAnyway() (*app.App, error) {
	if s.app != nil {
		return s.app, nil
	}
	cfg, err := home.FromEnv(s.environ)
	if err != nil {
		return nil, err
	}
	cfg.Version = s.version
	if s.app, err = app.New(cfg, s.own); err != nil {
		return nil, err
	}
	return s.app, nil
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}
