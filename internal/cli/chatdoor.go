package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/approval"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/agents"
	"github.com/remitrun/remit/internal/service/approvals"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/slash"
)

// plainAgent is the agent of remit chat --model.
var plainAgent = agent.Agent{
	SystemPrompt: "You help the person at this terminal with the files of their workspace. What the policy does not allow is refused: say so, and go on with what is allowed.",
	Capabilities: []agent.CapabilityRef{{Ref: "workspace"}, {Ref: "current_time"}, {Ref: "stateless_todo_list"}, {Ref: "web_fetch"}, {Ref: "authority_requests"}},
}

// connect finds or creates the agent and the session.
func (c *dialog) connect(ctx context.Context, a *app.App, f chatFlags) error {
	dir, err := home.Workspace(f.dir)
	if err != nil {
		return err
	}
	if err := c.governed(a, f, dir); err != nil {
		return err
	}
	c.close = func(context.Context) error { return nil }
	c.answer = func(ctx context.Context, id string) error { return c.ask(ctx, a, id) }
	if c.mode.Frozen, err = c.s.frozenFlag(a, f.frozen); err != nil {
		return err
	}
	c.mode.Planning = f.planning
	c.slash = &slashDoor{c: c, a: a, q: slash.Request{Policy: f.policy, Workspace: dir, Model: f.model, Grant: f.grant, Planning: f.planning, Frozen: c.mode.Frozen}}
	if f.model == "" {
		f.model = a.Models.Registry.Default
	}
	if f.agent == "" && f.session == "" && f.model == "" {
		c.greet("slash commands")
		return nil
	}
	if f.grant.KeyFile != "" && f.grant.Token != "" {
		return fault.New(fault.GrantHolder, "an agent's session cannot use a grant that is bound to a key").WithHint("use a grant without a holder key")
	}
	service, err := a.Agents.Start(ctx, agents.Request{Policy: f.policy, Workspace: dir})
	if err != nil {
		return err
	}
	c.agents, c.by, c.close = service, agent.Caller{Name: home.Person(), Token: f.grant.Token}, service.Close
	if err = c.choose(ctx, f); err != nil {
		return errors.Join(err, service.Close(ctx))
	}
	return nil
}

// governed checks the policy before anything is typed, and warns if there is none. A
// continued session has a policy of its own.
func (c *dialog) governed(a *app.App, f chatFlags, dir string) error {
	if f.policy == "" && (f.session != "" || f.grant.Token != "") {
		return nil
	}
	_, hint, err := a.Policies.Chain(f.policy, dir)
	if err == nil {
		c.s.warn(hint)
	}
	return err
}

// choose finds the session, or the agent of a new one.
func (c *dialog) choose(ctx context.Context, f chatFlags) error {
	if f.session != "" {
		s, err := c.agents.Session(ctx, f.session)
		if err != nil {
			return err
		}
		a, err := c.agents.Agent(ctx, s.Agent.String())
		if err != nil {
			return err
		}
		c.id = s.ID.String()
		c.begin = c.beginner(a)
		return c.goOn(ctx, s, a)
	}
	var a agent.Agent
	var err error
	if f.agent != "" {
		a, err = c.agents.Agent(ctx, f.agent)
	} else {
		a, err = c.plainAgent(ctx, f.model)
	}
	if err != nil {
		return err
	}
	c.begin = c.beginner(a)
	c.greet(a.Name)
	return nil
}

func (c *dialog) beginner(a agent.Agent) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		s, err := c.agents.CreateSession(ctx, c.by, a.ID.String(), "chat", c.mode)
		return s.ID.String(), err
	}
}

// goOn shows the last messages of a session, and resumes a turn that was cut off.
func (c *dialog) goOn(ctx context.Context, s agent.Session, a agent.Agent) error {
	c.greet(fmt.Sprintf("%s  ·  session %s, %d messages", a.Name, shortRunID(c.id), s.Last))
	const last = 4
	list, err := c.agents.Messages(ctx, c.id, max(1, s.Last-last+1), last)
	if err != nil {
		return err
	}
	for _, m := range list {
		if m.Role == "user" && m.Kind == agent.Spoken {
			c.show.line("%s %s", c.s.paint(dim, "›"), showLines(m.Text))
		} else {
			c.show.message(&m)
		}
	}
	if s.State == agent.Working || s.State == agent.Paused || s.State == agent.Waiting {
		c.show.line("%s", c.s.paint(dim, "the last turn was interrupted and continues"))
		return c.follow(ctx)
	}
	return nil
}

// follow resumes a turn and shows it until it ends.
func (c *dialog) follow(ctx context.Context) error {
	return c.watch(ctx, func(ctx context.Context, on func(agent.Event)) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if _, err := c.agents.Resume(ctx, c.by, c.id); err != nil {
			return err
		}
		err := c.agents.Events(ctx, c.id, "", func(e agent.Event) error {
			on(e)
			if e.Type == agent.StateChanged && e.State != agent.Working && e.State != agent.Waiting {
				return io.EOF
			}
			return nil
		})
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	})
}

// plainAgent finds or creates the plain agent of a model.
func (c *dialog) plainAgent(ctx context.Context, model string) (agent.Agent, error) {
	want := plainAgent
	want.Name, want.Model = "chat "+model, model
	for before, more := uuid.Nil, true; more; {
		const page = 100
		list, err := c.agents.Agents(ctx, before, page)
		if err != nil {
			return want, err
		}
		i := slices.IndexFunc(list, func(a agent.Agent) bool {
			return a.Name == want.Name && a.Model == want.Model && a.SystemPrompt == want.SystemPrompt && a.Policy == ""
		})
		if i >= 0 {
			return list[i], nil
		}
		if more = len(list) == page; more {
			before = list[page-1].ID
		}
	}
	return c.agents.CreateAgent(ctx, c.by, want)
}

// ask asks the person to approve a call of the turn, and records the answer.
func (c *dialog) ask(ctx context.Context, a *app.App, id string) error {
	if c.lines.plain != nil || c.s.delegated() {
		c.show.line("%s", "waiting for approval: remit approvals approve "+show(id))
		return nil
	}
	q, body, err := a.Approvals.Find(ctx, id)
	if err != nil {
		return err
	}
	c.s.ring()
	c.s.printf("%s %s needs approval (risk %s)\n", c.s.paint(yellow, "?"), c.s.paint(bold, show(string(body.Tool))), show(body.Risk))
	c.s.printToAsk(body)
	v, err := c.vote(ctx, body)
	if err != nil {
		return err
	}
	_, err = a.Approvals.Answer(ctx, q.ID.String(), approvals.Here(v.Yes, len(v.Session) > 0, v.Reason))
	return err
}

// vote reads the person's answer.
func (c *dialog) vote(ctx context.Context, b approval.Body) (store.Vote, error) {
	in, ok := c.s.In.(*os.File)
	if !ok { // cannot be: it is a terminal
		return store.Vote{}, approval.ErrNotHere
	}
	return c.s.vote(b,
		func() error { return discardTyped(ctx, in, false) },
		func(prompt string) (string, error) { return c.lines.read(prompt, false) })
}

// slashDoor carries out the slash commands of a chat.
type slashDoor struct {
	c *dialog
	a *app.App
	q slash.Request
}

// Complete implements slashRunner.
func (d *slashDoor) Complete(line string) []string {
	router, err := d.a.Extensions.Router()
	if err != nil {
		return nil // Run reports the error
	}
	from, list := router.Complete(line)
	out := make([]string, len(list))
	for i, c := range list {
		out[i] = line[:from] + c.Text
	}
	return out
}

// Run implements slashRunner.
func (d *slashDoor) Run(ctx context.Context, line string) error {
	s, q := d.c.s, d.q
	q.Line, q.Session = line, d.c.id
	live := s.newProgress(d.a.Home.Redactor(), 1)
	if d.c.lines.plain == nil && !s.delegated() {
		q.Here = func(ctx context.Context, c approval.Case) (v store.Vote, err error) {
			live.hold(func() {
				s.ring()
				s.printCase(c)
				v, err = d.c.vote(ctx, c.Body)
			})
			return v, err
		}
	}
	if d.c.agents != nil {
		q.History = d.history
	}
	res, err := d.a.Slash.Run(ctx, q)
	live.stop()
	switch {
	case err != nil:
		return err
	case res.Route.Help:
		s.printf("%s", showLines(res.Help))
		if res.Route.Topic == "" {
			d.c.help()
		}
		return nil
	}
	s.printSlash(res)
	if err := res.Outcome.Err; err != nil {
		d.c.fail(fault.CodeOf(err).Exit())
	}
	return res.Run.Stopped
}

// history adds the result of a command to the session, which it starts if there is none.
func (d *slashDoor) history(ctx context.Context, do agent.Carry) (err error) {
	if d.c.id == "" {
		if d.c.id, err = d.c.begin(ctx); err != nil {
			return err
		}
	}
	return d.c.agents.Command(ctx, d.c.by, d.c.id, do)
}

// help lists the chat's own commands.
func (c *dialog) help() {
	c.s.printf("\nin this chat:\n")
	for _, o := range builtin {
		c.s.printf("  %-10s %s\n", o.name, o.does)
	}
}

// greet shows the agent's name and how to get help.
func (c *dialog) greet(who string) {
	if c.lines.plain != nil {
		return // lines are piped in
	}
	c.s.printf("%s\n", c.s.paint(dim, show(who)+"  ·  /help lists commands, Ctrl-C stops a turn, Ctrl-D leaves"))
}

var errNoAgent = fault.New(fault.ModelUnknown, "this chat has no agent to answer").
	WithHint("start it with remit chat --agent AGENT or --model MODEL; /help lists the slash commands")
