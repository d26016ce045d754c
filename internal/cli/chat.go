package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/grants"
)

func (s *session) chatCmd() *cobra.Command {
	var c chatFlags
	var presented func() (grants.Presented, error)
	cmd := &cobra.Command{
		Use:   "chat [--agent AGENT | --model MODEL | --session SESSION]",
		Short: "Talk to an agent in the terminal",
		Long: `Each line is a message to the agent. Its answers and tool calls are shown as
they arrive. A line that begins with / is a slash command, which runs without a
model; /help lists them.

--model creates a plain agent that works on the workspace. Without --agent,
--model and a default model in config.yaml, only slash commands are available.
If the policy asks for approval, you are asked here. Ctrl-C stops the turn;
Ctrl-D or /exit leaves. --session continues an earlier session. If that session
began under a grant, present the same grant.

--planning starts sessions whose calls have no side effects; remit plan collect
then writes a plan of the calls that it planned. --frozen starts a session
that can make the calls of a frozen plan only.

Lines can also be piped in. The exit status is that of the first line that
failed.
`,
		Example: `  remit chat --model anthropic/claude-sonnet-4-5 -p policy.yaml
  remit chat --agent helper
  remit chat -p policy.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if c.grant, err = presented(); err != nil {
				return err
			}
			return s.chat(cmd.Context(), c)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&c.policy, "policy", "p", "", "policy `FILE` to run under")
	f.StringVarP(&c.dir, "workspace", "w", "", "workspace `DIR` (default: the current folder)")
	f.StringVar(&c.agent, "agent", "", "ID or name of the `AGENT`")
	f.StringVar(&c.model, "model", "", "`MODEL` as provider/model or scripted:FILE")
	f.StringVar(&c.session, "session", "", "continue this `SESSION`")
	modeFlags(f, &c.planning, &c.frozen)
	cmd.MarkFlagsMutuallyExclusive("session", "planning")
	cmd.MarkFlagsMutuallyExclusive("session", "frozen")
	cmd.MarkFlagsMutuallyExclusive("agent", "model", "session")
	presented = s.presented(cmd)
	completeFlag(cmd, "agent", s.completeAgents)
	completeFlag(cmd, "session", s.completeSessions)
	return cmd
}

type chatFlags struct {
	policy, dir, agent, model, session string
	frozen                             string
	planning                           bool
	grant                              grants.Presented
}

// dialog is one conversation at the terminal.
type dialog struct {
	s       *session
	lines   *lines
	show    *screen
	agents  *agent.Service // nil: there are only slash commands
	by      agent.Caller
	id      string     // of the session; "" before the first message
	mode    agent.Mode // of new sessions
	failed  int        // the exit status of the first line that failed
	slash   slashRunner
	answer  func(ctx context.Context, id string) error // asks the person, and answers
	begin   func(ctx context.Context) (string, error)  // makes the session, with the first message
	close   func(ctx context.Context) error            // undoes connect
	signals chan os.Signal
}

// slashRunner carries out slash commands.
type slashRunner interface {
	Complete(line string) []string
	Run(ctx context.Context, line string) error
}

// builtin are the commands of the chat itself.
var builtin = []struct{ name, does string }{
	{"/exit", "leave"},
	{"/session", "show the ID of this session"},
	{"/new", "start a new session with the same agent"},
}

func (s *session) chat(ctx context.Context, f chatFlags) error {
	a, err := s.open()
	if err != nil {
		return err
	}
	h := openHistory(a.Home.Dir)
	c := &dialog{s: s, show: &screen{s: s}, signals: make(chan os.Signal, 4)}
	c.lines = s.newLines(h, c.complete)
	// The first interrupt ends ctx for good; here it ends a turn.
	ctx = context.WithoutCancel(ctx)
	signal.Notify(c.signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(c.signals)
	if err := c.connect(ctx, a, f); err != nil {
		return err
	}
	err = c.talk(ctx)
	if cerr := c.close(ctx); err == nil {
		err = cerr
	}
	if serr := h.save(); err == nil && serr != nil {
		s.errorf("the history was not saved: %s\n", show(serr.Error()))
	}
	return err
}

// talk reads and carries out lines until the input ends.
func (c *dialog) talk(ctx context.Context) error {
	for {
		line, err := c.lines.read("› ", true)
		switch {
		case errors.Is(err, errInterrupt):
			c.s.errorf("%s\n", c.s.paintErr(dim, "Ctrl-D or /exit leaves"))
			continue
		case errors.Is(err, io.EOF):
			return c.endChat()
		case err != nil:
			return err
		}
		line = strings.TrimSpace(line)
		if line == "/exit" || line == "/quit" {
			return c.endChat()
		}
		if err := c.one(ctx, line); errors.Is(err, errTerminated) {
			return fault.New(fault.ToolCancelled, "the chat was ended by a signal")
		} else if err != nil {
			c.fail(c.s.status(ctx, err))
		}
	}
}

// endChat ends a chat. The exit status of piped lines is that of the first failure.
func (c *dialog) endChat() error {
	if c.id != "" && c.lines.plain == nil {
		c.s.printf("%s\n", c.s.paint(dim, "continue with: remit chat --session "+c.id))
	}
	if c.failed != 0 && c.lines.plain != nil {
		return exit(c.failed)
	}
	return nil
}

func (c *dialog) fail(status int) {
	if c.failed == 0 {
		c.failed = status
	}
}

// errTerminated ends the program after a signal.
var errTerminated = errors.New("terminated")

// one carries out one line of input.
func (c *dialog) one(ctx context.Context, line string) error {
	switch {
	case line == "":
		return nil
	case line == "/session":
		c.s.printf("%s\n", show(orNone(c.id)))
		return nil
	case line == "/new":
		c.id = ""
		return nil
	case strings.HasPrefix(line, "/"):
		return c.interruptible(ctx, func(ctx context.Context) error { return c.slash.Run(ctx, line) })
	case c.agents == nil:
		return errNoAgent
	}
	return c.turn(ctx, line)
}

// interruptible runs a function that Ctrl-C cancels.
func (c *dialog) interruptible(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- do(ctx) }()
	terminated := false
	for {
		select {
		case err := <-done:
			if terminated {
				return errTerminated
			}
			return err
		case sig := <-c.signals:
			terminated = terminated || sig != os.Interrupt
			cancel()
		}
	}
}

// turn sends a message and shows the agent's turn.
func (c *dialog) turn(ctx context.Context, text string) error {
	if c.id == "" {
		id, err := c.begin(ctx)
		if err != nil {
			return err
		}
		c.id = id
	}
	return c.watch(ctx, func(ctx context.Context, on func(agent.Event)) error {
		_, err := c.agents.Send(ctx, c.by, c.id, text, on)
		return err
	})
}

// watch shows the events of a turn while do runs. Ctrl-C cancels do.
func (c *dialog) watch(ctx context.Context, do func(context.Context, func(agent.Event)) error) error {
	turn, cancel := context.WithCancel(ctx)
	defer cancel()
	events := make(chan agent.Event)
	done := make(chan error, 1)
	go func() {
		done <- do(turn, func(e agent.Event) {
			select {
			case events <- e:
			case <-turn.Done():
			}
		})
	}()
	defer c.show.printRest()
	told, terminated := false, false
	for {
		select {
		case e := <-events:
			c.show.event(e)
			told = told || e.Type == agent.StateChanged && e.Error != nil
			if e.Type == agent.ApprovalDue {
				c.show.printRest()
				if err := c.answer(turn, e.Question); errors.Is(err, errInterrupt) {
					cancel()
				} else if err != nil {
					c.s.status(ctx, err)
				}
			}
		case sig := <-c.signals:
			terminated = terminated || sig != os.Interrupt
			c.show.line("%s", c.s.paint(yellow, "stopping the turn"))
			cancel()
		case err := <-done:
			switch {
			case terminated:
				return errTerminated
			case told:
				if err != nil {
					c.fail(fault.CodeOf(err).Exit())
				}
				return nil
			case turn.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, fault.ToolCancelled)):
				return nil // the person stopped the turn
			}
			return err
		}
	}
}

// complete returns the completions of a line.
func (c *dialog) complete(line string) []string {
	if !strings.HasPrefix(line, "/") {
		return nil
	}
	list := c.slash.Complete(line)
	for _, o := range builtin {
		if strings.HasPrefix(o.name, line) {
			list = append(list, o.name)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func orNone(id string) string {
	if id == "" {
		return "no session yet"
	}
	return id
}
