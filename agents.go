package remit

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/base/commitment"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/approval"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/agents"
)

// Agents keeps agents and carries out their sessions. It is safe for concurrent
// use. Other processes, as remit serve and remit chat, see the same agents and
// sessions.
type Agents struct {
	app     *app.App
	reg     *capability.Registry
	service *agent.Service
	by      agent.Caller
}

// Agents opens the agents that Home keeps. own are capabilities that this program has besides the
// built-in ones and those of files. Sessions are under the runtime's Grant, or else its policy. The
// returned Agents must be closed before the runtime is.
//
// Where a policy asks, Options.Ask is called; without it such calls are denied.
func (rt *Runtime) Agents(ctx context.Context, own ...Capability) (*Agents, error) {
	if o := rt.opts; o.Changeset || o.Frozen != "" || o.Planning || o.GrantKey != "" {
		return nil, fault.New(fault.Usage, "sessions of agents are neither held back, nor frozen, nor plans, nor under a grant that is bound to a key").
			WithHint("open another runtime for them, without Changeset, Frozen, Planning and GrantKey")
	}
	made := groupCapabilities(rt.opts.Tools)
	for _, c := range own {
		m, err := c.made()
		if err != nil {
			return nil, err
		}
		made = append(made, m)
	}
	reg, err := rt.app.Agents.Capabilities(made...)
	if err != nil {
		return nil, err
	}
	q := agents.Request{Root: rt.root, Workspace: rt.workspace, Capabilities: reg, Here: refuseApproval, Hooks: rt.hooks()}
	if rt.opts.Ask != nil {
		q.Here = askFunction(rt.opts.Ask, rt.person())
	}
	if watch := rt.opts.Observe; watch != nil {
		q.Observe = func(n runner.Notice) { watch(noticeOf(n)) }
	}
	s, err := rt.app.Agents.Start(ctx, q)
	if err != nil {
		return nil, err
	}
	return &Agents{rt.app, reg, s, agent.Caller{Name: "user:" + rt.app.Home.User, Token: rt.opts.Grant}}, nil
}

// refuseApproval answers every question with a refusal, for programs without
// [Options.Ask].
func refuseApproval(context.Context, approval.Case) (store.Vote, error) {
	return store.Vote{By: "program", Where: "program", Reason: "the program does not ask for approvals"}, nil
}

// Close ends the turns that are under way, so that [AgentSession.Resume] can go on
// with them, and records the end of what ran.
func (a *Agents) Close(ctx context.Context) error { return a.service.Close(ctx) }

// Capabilities lists the capabilities that agents can have at present.
func (a *Agents) Capabilities() []CapabilityInfo {
	list, _ := a.reg.List()
	out := make([]CapabilityInfo, len(list))
	for i, c := range list {
		out[i] = infoOf(c.Info())
	}
	return out
}

// Create keeps a new agent and gives it with its ID. All that is wrong with it is told at once. ID
// and Version of x are ignored.
func (a *Agents) Create(ctx context.Context, x Agent) (Agent, error) {
	in, err := x.inner()
	if err != nil {
		return Agent{}, err
	}
	out, err := a.service.CreateAgent(ctx, a.by, in)
	return agentOf(out), err
}

// Get finds an agent by its ID, or by its name where it is the only one of that
// name; [AgentUnknown].
func (a *Agents) Get(ctx context.Context, id string) (Agent, error) {
	out, err := a.service.Agent(ctx, id)
	return agentOf(out), err
}

// List gives the agents, newest first, at most limit.
func (a *Agents) List(ctx context.Context, limit int) ([]Agent, error) {
	list, err := a.service.Agents(ctx, uuid.Nil, limit)
	out := make([]Agent, len(list))
	for i, x := range list {
		out[i] = agentOf(x)
	}
	return out, err
}

// Update replaces the agent with x's ID by x. Version must be the stored version, or 0 to overwrite
// any version.
func (a *Agents) Update(ctx context.Context, x Agent) (Agent, error) {
	in, err := x.inner()
	if err != nil {
		return Agent{}, err
	}
	out, err := a.service.UpdateAgent(ctx, a.by, x.ID, x.Version, func(was *agent.Agent) error {
		was.Name, was.SystemPrompt, was.Model, was.Capabilities, was.Policy, was.Limits, was.Commitments = in.Name, in.SystemPrompt, in.Model, in.Capabilities, in.Policy, in.Limits, in.Commitments
		was.Quarantine, was.Answer = in.Quarantine, in.Answer
		return nil
	})
	return agentOf(out), err
}

// Delete deletes an agent. Its sessions stay in the record and take no more
// messages.
func (a *Agents) Delete(ctx context.Context, id string) error {
	return a.service.DeleteAgent(ctx, a.by, id)
}

// StartSession begins a conversation with an agent, named by its ID or name.
func (a *Agents) StartSession(ctx context.Context, agentID, title string) (*AgentSession, error) {
	s, err := a.service.CreateSession(ctx, a.by, agentID, title, agent.Mode{})
	if err != nil {
		return nil, err
	}
	return &AgentSession{a, s.ID.String()}, nil
}

// Session finds a session by its ID, also one that another process began;
// [SessionUnknown].
func (a *Agents) Session(ctx context.Context, id string) (*AgentSession, error) {
	s, err := a.service.Session(ctx, id)
	if err != nil {
		return nil, err
	}
	return &AgentSession{a, s.ID.String()}, nil
}

// AgentSession is a conversation with an agent. It has a grant, files of its own
// and one turn at a time. It is safe for concurrent use.
type AgentSession struct {
	a  *Agents
	id string
}

// ID is the session's.
func (s *AgentSession) ID() string { return s.id }

// Info tells how the session is now.
func (s *AgentSession) Info(ctx context.Context) (SessionInfo, error) {
	x, err := s.a.service.Session(ctx, s.id)
	return sessionOf(x), err
}

// Send says something to the agent and waits for the turn that it leads to: models
// and tools are called until the agent is done. on, if not nil, is told of what
// happens meanwhile, from the calling goroutine. Ending ctx cancels the turn.
//
// A denied or failed tool call is not an error: the agent is told, and continues. An error is the
// reason why the turn ended early, as [BudgetSpent] or [ModelFailed]; the Turn has the messages
// until then. A session that is at work is [SessionBusy].
func (s *AgentSession) Send(ctx context.Context, text string, on func(AgentEvent)) (Turn, error) {
	var tell func(agent.Event)
	if on != nil {
		tell = func(e agent.Event) {
			if out, ok := eventOf(e); ok {
				on(out)
			}
		}
	}
	t, err := s.a.service.Send(ctx, s.a.by, s.id, text, tell)
	return Turn{Reply: t.Reply, Messages: messagesOf(t.Messages), Session: sessionOf(t.Session)}, err
}

// Resume goes on with a turn that was paused, or that ended with its process, and waits for it. No
// call whose outcome is recorded is made again, and none that may have had its effect: the agent is
// told that such calls were interrupted.
func (s *AgentSession) Resume(ctx context.Context) (SessionInfo, error) {
	if _, err := s.a.service.Resume(ctx, s.a.by, s.id); err != nil {
		return SessionInfo{}, err
	}
	err := s.a.service.Wait(ctx, s.id)
	now, ierr := s.Info(context.WithoutCancel(ctx))
	return now, errors.Join(err, ierr)
}

// Cancel ends the turn that is under way. The session takes the next message.
func (s *AgentSession) Cancel(ctx context.Context) error {
	_, err := s.a.service.Cancel(ctx, s.a.by, s.id)
	return err
}

// Fork begins a session with the conversation up to a message's number; 0: all of
// it.
func (s *AgentSession) Fork(ctx context.Context, upTo int) (*AgentSession, error) {
	x, err := s.a.service.Fork(ctx, s.a.by, s.id, upTo, nil)
	if err != nil {
		return nil, err
	}
	return &AgentSession{s.a, x.ID.String()}, nil
}

// Messages gives the conversation.
func (s *AgentSession) Messages(ctx context.Context) ([]Message, error) {
	list, err := s.a.service.Messages(ctx, s.id, 1, 0)
	return messagesOf(list), err
}

// ReadFile reads one of the session's own files; path is absolute, as "/notes.md".
func (s *AgentSession) ReadFile(ctx context.Context, path string) ([]byte, error) {
	b, _, err := s.a.service.ReadFile(ctx, s.id, path)
	return b, err
}

// WriteFile writes one of the session's own files, and the folders above it.
func (s *AgentSession) WriteFile(ctx context.Context, path string, content []byte) error {
	_, err := s.a.service.WriteFile(ctx, s.a.by, s.id, path, content, 0)
	return err
}

// Children gives the sessions of the sub-agents that the session has, newest
// first.
func (s *AgentSession) Children(ctx context.Context) ([]SessionInfo, error) {
	var out []SessionInfo
	id, err := uuid.Parse(s.id)
	if err != nil {
		return nil, err // it is the ID of a session
	}
	for before := uuid.Nil; ; {
		const page = 200
		list, err := s.a.service.Sessions(ctx, agent.SessionFilter{Parent: id}, before, page)
		if err != nil {
			return nil, err
		}
		for _, x := range list {
			before = x.ID
			out = append(out, sessionOf(x))
		}
		if len(list) < page {
			return out, nil
		}
	}
}

// Close ends the session for good, with what it spawned, and revokes its grant. Its
// record stays.
func (s *AgentSession) Close(ctx context.Context) error {
	return s.a.service.DeleteSession(ctx, s.a.by, s.id)
}

// Replay carries the loop of a whole session out again from its record: without a model, a tool or
// a network, every message must come out to the byte. A difference is an error of the code
// [ReplayMismatch]. The session's work must have ended: Replay is also for Agents that were closed.
// remit replay does the same for agents without capabilities of a program's own.
func (a *Agents) Replay(ctx context.Context, session string) (SessionReplay, error) {
	res, err := a.app.Replays.Session(ctx, session, a.reg)
	out := SessionReplay{Session: res.Session.String(), Messages: res.Messages}
	for _, r := range res.Runs {
		out.Runs = append(out.Runs, r.ID.String())
		out.Calls += r.Calls
	}
	switch d, m := res.Difference, res.Mismatch(); {
	case d != nil:
		err = errors.Join(err, fault.Wrap(fault.ReplayMismatch, d, "the conversation differs: %s", d.Error()))
	case m != nil:
		out.Mismatch = &Mismatch{Index: m.Index, What: m.What, Recorded: m.Was, Now: m.Is}
		err = errors.Join(err, m.Err())
	}
	return out, err
}

// inner is an agent as the engine takes it.
func (x Agent) inner() (agent.Agent, error) {
	out := agent.Agent{Name: x.Name, SystemPrompt: x.SystemPrompt, Model: x.Model, Policy: x.Policy, Limits: agent.Limits(x.Limits), Quarantine: x.Answer != nil, Answer: x.Answer}
	for _, c := range x.Capabilities {
		ref := agent.CapabilityRef{Ref: c.ID}
		if c.Config != nil {
			b, err := json.Marshal(c.Config)
			if err != nil {
				return out, fault.Wrap(fault.AgentInvalid, err, "the configuration of %q cannot be written as JSON: %v", c.ID, err).In("capabilities")
			}
			ref.Config = b
		}
		out.Capabilities = append(out.Capabilities, ref)
	}
	for _, c := range x.Commitments {
		in, err := c.inner()
		if err != nil {
			return out, err
		}
		out.Commitments = append(out.Commitments, in)
	}
	return out, nil
}

// inner is a commitment as the engine takes it.
func (c Commitment) inner() (commitment.Commitment, error) {
	out := commitment.Commitment{Run: c.Run, Exit: c.Exit, Cwd: c.Cwd, File: c.File, JSON: c.JSON}
	for pointer, v := range c.Equals {
		b, err := json.Marshal(v)
		if err != nil {
			return out, fault.Wrap(fault.AgentInvalid, err, "the value for %q cannot be written as JSON: %v", pointer, err).In("commitments")
		}
		if out.Equals == nil {
			out.Equals = map[string]json.RawMessage{}
		}
		out.Equals[pointer] = b
	}
	return out, nil
}

func commitmentOf(c commitment.Commitment) Commitment {
	out := Commitment{Run: c.Run, Exit: c.Exit, Cwd: c.Cwd, File: c.File, JSON: c.JSON}
	for pointer, v := range c.Equals {
		if out.Equals == nil {
			out.Equals = map[string]any{}
		}
		out.Equals[pointer] = v
	}
	return out
}

func agentOf(a agent.Agent) Agent {
	if a.ID == uuid.Nil {
		return Agent{}
	}
	out := Agent{
		ID: a.ID.String(), Name: a.Name, SystemPrompt: a.SystemPrompt, Model: a.Model, Policy: a.Policy, Limits: AgentLimits(a.Limits), Answer: a.Answer, Version: a.Version,
	}
	for _, c := range a.Capabilities {
		u := Use{ID: c.Ref}
		if c.Config != nil {
			u.Config = c.Config
		}
		out.Capabilities = append(out.Capabilities, u)
	}
	for _, c := range a.Commitments {
		out.Commitments = append(out.Commitments, commitmentOf(c))
	}
	return out
}

func sessionOf(s agent.Session) SessionInfo {
	if s.ID == uuid.Nil {
		return SessionInfo{}
	}
	out := SessionInfo{
		ID: s.ID.String(), Agent: s.Agent.String(), Title: s.Title, State: SessionState(s.State), Grant: s.Grant, Run: s.Run, Messages: s.Last,
		Tokens: s.Usage.Input + s.Usage.Output + s.Usage.CacheRead + s.Usage.CacheWrite, Money: s.Usage.Money, Created: s.Created,
	}
	if s.Parent != nil {
		out.Parent = s.Parent.String()
	}
	if s.Error != nil {
		out.Error = s.Error.Code + " " + s.Error.Message
	}
	return out
}

func messagesOf(list []agent.Message) []Message {
	out := make([]Message, len(list))
	for i, m := range list {
		out[i] = messageOf(m)
	}
	return out
}

func messageOf(m agent.Message) Message {
	out := Message{Number: m.Number, Role: string(m.Role), Kind: string(m.Kind), Text: m.Text, CallID: m.CallID, Failed: m.Failed, Cut: m.Cut, Created: m.Created}
	for _, c := range m.Calls {
		out.Calls = append(out.Calls, ToolCall{ID: c.ID, Name: c.Name, Args: c.Args})
	}
	return out
}

// eventOf is an event as programs see it; false: it says nothing to them.
func eventOf(e agent.Event) (AgentEvent, bool) {
	out := AgentEvent{Kind: EventKind(e.Type), Text: e.Text, Question: e.Question, State: SessionState(e.State)}
	if e.Message != nil {
		m := messageOf(*e.Message)
		out.Message = &m
	}
	if c := e.Call; c != nil {
		out.Call = &ToolCall{ID: c.ID, Name: c.Name, Tool: c.Tool, Args: c.Args, Status: Status(c.Status), Duration: time.Duration(c.DurationMS * float64(time.Millisecond))}
		if c.Error != nil {
			out.Call.Error = c.Error.Code + " " + c.Error.Message
		}
	}
	if e.Error != nil {
		out.Error = e.Error.Code + " " + e.Error.Message
	}
	return out, e.Type != ""
}
