package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/tools/model"
)

// turn is a turn under way: from a message, or from where it was left, until the
// model is done or something ends it.
type turn struct {
	by     Caller
	may    func(State) bool // whether it goes on from a state; nil: it begins with a message, from any
	still  bool             // it does nothing but keep others from beginning
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when it is over

	mu     sync.Mutex
	paused chan struct{} // closed to go on; nil: it is not paused
	err    error         // why it ended, once done; nil: the model was done
}

// MaxMessage bounds a message of a user, in bytes.
const MaxMessage = 1 << 20

// Send implements [API].
func (s *Service) Send(ctx context.Context, by Caller, id, text string, on func(Event)) (Turn, error) {
	r, _, err := s.session(ctx, id)
	if err != nil {
		return Turn{}, err
	}
	l := s.hold(r.ID)
	defer s.let(l)
	at := l.hub.end()
	t, first, err := s.start(ctx, by, l, &text, nil)
	if err != nil {
		return Turn{}, err
	}
	stop := context.AfterFunc(ctx, func() { t.cancel(fault.Wrap(fault.ToolCancelled, ctx.Err(), "the turn was cancelled")) })
	defer stop()
	w := &watcher{s: s, l: l, at: at, told: r.Last, on: func(e Event) error {
		if on != nil {
			on(e)
		}
		return nil
	}}
	after := context.WithoutCancel(ctx)
	if err := w.follow(after, t); err != nil {
		return Turn{}, err
	}
	out := Turn{}
	if out.Session, err = s.Session(after, id); err == nil {
		out.Messages, err = s.Messages(after, id, first.Number, 0)
	}
	for _, m := range out.Messages {
		if m.Role == model.Assistant && m.Text != "" {
			out.Reply = m.Text
		}
	}
	return out, errors.Join(t.err, err)
}

// Start implements [API].
func (s *Service) Start(ctx context.Context, by Caller, id, text string) (Message, error) {
	r, _, err := s.session(ctx, id)
	if err != nil {
		return Message{}, err
	}
	l := s.hold(r.ID)
	defer s.let(l)
	_, first, err := s.start(ctx, by, l, &text, nil)
	return first, err
}

// errNotLeft: the session is in no state that a turn goes on from.
var errNotLeft = errors.New("no turn was left")

// start begins a turn with a message, or without one where the last turn is to go
// on; then it may only from some states, see errNotLeft. It returns once that is
// kept.
func (s *Service) start(ctx context.Context, by Caller, l *live, text *string, may func(State) bool) (*turn, Message, error) {
	if text != nil && (strings.TrimSpace(*text) == "" || len(*text) > MaxMessage || !utf8.ValidString(*text)) {
		return nil, Message{}, fault.New(fault.AgentInvalid, "a message is a text of 1 to %d bytes", MaxMessage).In("content")
	}
	if text != nil {
		if err := s.told("content", *text); err != nil {
			return nil, Message{}, err
		}
	}
	turning, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	t := &turn{by: by, may: may, cancel: cancel, done: make(chan struct{})}
	if err := s.claim(l, t); err != nil {
		cancel(nil)
		return nil, Message{}, err
	}
	first, err := s.enter(turning, l, t, text)
	if err != nil {
		if why := context.Cause(turning); why != nil {
			err = errors.Join(why, err) // first: it is what the caller is told
		}
		s.free(l, t)
		s.work.Done()
		return nil, Message{}, err
	}
	go s.carry(turning, l, t)
	return t, first, nil
}

// claim makes a turn the session's; another one under way is fault.SessionBusy. It
// counts the turn in the same moment, so that Close either stops it or refuses it.
func (s *Service) claim(l *live, t *turn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosing
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.turn != nil {
		return busy("the session is at work")
	}
	s.work.Add(1)
	l.turn = t
	return nil
}

// still claims a session for a turn that does nothing, so that no other begins
// until release.
func (s *Service) still(l *live, by Caller) (*turn, error) {
	t := &turn{by: by, still: true, cancel: func(error) {}, done: make(chan struct{})}
	return t, s.claim(l, t)
}

func (s *Service) release(l *live, t *turn) {
	s.free(l, t)
	l.restLater() // the run could not end meanwhile
	s.work.Done()
}

func busy(why string) error {
	return fault.New(fault.SessionBusy, "%s", why).WithHint("wait until it has ended, or cancel the turn")
}

// enter prepares the session's run and adds the message, if there is one.
func (s *Service) enter(ctx context.Context, l *live, t *turn, text *string) (Message, error) {
	act, err := s.activate(ctx, l, t)
	if err != nil {
		return Message{}, err
	}
	l.hub.from(act.loop.conv.last)
	if text == nil {
		return Message{}, nil
	}
	if err = act.loop.hear(ctx, *text); err != nil {
		return Message{}, errors.Join(err, s.settle(l, act, t, err))
	}
	return act.loop.conv.view[len(act.loop.conv.view)-1].Message, nil
}

// activate gives the session its run: the one that it has, if it still fits, or a
// new one under a grant that is made anew.
func (s *Service) activate(ctx context.Context, l *live, t *turn) (*activation, error) {
	r, d, err := s.session(ctx, l.id.String())
	if err != nil {
		return nil, err
	}
	by := t.by
	switch {
	case t.may != nil && !t.may(d.State): // as it is now that no other turn can begin
		return nil, errNotLeft
	case d.State == Ended:
		return nil, fault.New(fault.SessionEnded, "the session has ended").WithHint("begin another, or fork it")
	case d.Child != nil && d.Child.Pending:
		return nil, fault.New(fault.NotDelegable, "the sub-agent %q has no authority yet", d.Child.Name).WithHint("its parent has to delegate some to it")
	}
	a, err := s.agentOf(ctx, r.Agent)
	if err != nil {
		return nil, err
	}
	l.ending.Lock() // until a run that is just being ended has ended; none is from here on
	l.mu.Lock()
	act := l.act
	if l.idle != nil {
		l.idle.Stop()
		l.idle = nil
	}
	l.mu.Unlock()
	l.ending.Unlock()
	if act != nil && act.by.Token == by.Token && act.agent == a.Version && !act.run.Timed() {
		act.by = by
		_, err = l.state(ctx, by.Name, Working, nil, nil)
		return act, err
	}
	if act != nil {
		l.mu.Lock()
		l.act = nil
		l.mu.Unlock()
		if err := act.run.End(context.WithoutCancel(ctx)); err != nil {
			return nil, err
		}
	}
	return s.wake(ctx, l, r, d, a, by)
}

// wake begins a new run of a session.
func (s *Service) wake(ctx context.Context, l *live, r store.SessionRecord, d sessionDoc, a Agent, by Caller) (*activation, error) {
	conv, err := load(ctx, s.o.Record, l.id, 0)
	if err != nil {
		return nil, err
	}
	before, err := s.earlierRuns(ctx, l.id, conv.lastRun)
	if err != nil {
		return nil, err
	}
	set, err := s.prepare(l.id, a, &children{s: s, parent: l.id})
	if err != nil {
		return nil, err
	}
	granted, err := s.grant(ctx, r, d, a, by)
	if err != nil {
		return nil, err
	}
	inputs, err := inputsOf(set, conv)
	if err != nil {
		return nil, err
	}
	run, err := s.o.House.Begin(ctx, RunRequest{
		Session: l.id, Name: nameOf(a, d), Granted: granted, Tools: set.own, Inputs: inputs,
		Waits: func(q string, c runner.Call) func() { return l.waits(q, c) },
	})
	if err != nil {
		return nil, err
	}
	d.State, d.Error, d.Run, d.Granted = Working, nil, run.ID().String(), true
	if d.Workspace == "" {
		d.Workspace = granted.Workspace
	}
	if _, err := s.put(context.WithoutCancel(ctx), r, d, by.Name); err != nil {
		if errors.Is(err, fault.Stale) {
			err = busy("the session was just taken up by another process")
		}
		return nil, errors.Join(err, run.End(context.WithoutCancel(ctx)))
	}
	act := &activation{run: run, by: by, granted: granted, agent: a.Version}
	act.loop = &loop{set: set, conv: conv, run: run, tell: l.hub.tell, gate: l.gate, earlier: before.step, output: before.outcome}
	conv.write = s.writer(l.id, run.Seq())
	l.mu.Lock()
	l.act = act
	l.mu.Unlock()
	l.hub.tell(Event{Type: StateChanged, State: Working})
	return act, nil
}

// grant makes a session's grant, as everything it derives from is today.
func (s *Service) grant(ctx context.Context, r store.SessionRecord, d sessionDoc, a Agent, by Caller) (Granted, error) {
	q := GrantRequest{ID: d.Grant, New: !d.Granted, Session: r.ID, Agent: a, By: by, Under: d.Under, Workspace: d.Workspace}
	if r.Parent != uuid.Nil {
		g, err := s.grantOf(ctx, r.Parent, by)
		if err != nil {
			return Granted{}, err
		}
		q.Parent, q.Policy = &g, d.Child.Policy
	}
	return s.o.House.Grant(ctx, q)
}

// grantOf is the grant of a session, at work or not.
func (s *Service) grantOf(ctx context.Context, id uuid.UUID, by Caller) (Granted, error) {
	if act := s.active(id); act != nil && act.by.Token == by.Token {
		return act.granted, nil
	}
	r, d, err := s.session(ctx, id.String())
	if err != nil {
		return Granted{}, err
	}
	a, err := s.agentOf(ctx, r.Agent)
	if err != nil {
		return Granted{}, err
	}
	return s.grant(ctx, r, d, a, by)
}

func nameOf(a Agent, d sessionDoc) string {
	if d.Child != nil {
		return fmt.Sprintf("%s (%s)", d.Child.Name, a.Name)
	}
	return a.Name
}

// writer adds messages to the record.
func (s *Service) writer(session uuid.UUID, run ledger.Seq) func(context.Context, int, [][]byte) ([]store.MessageRecord, error) {
	return func(ctx context.Context, after int, docs [][]byte) ([]store.MessageRecord, error) {
		recs := make([]store.MessageRecord, len(docs))
		now := s.o.Now().UTC()
		for i, d := range docs {
			recs[i] = store.MessageRecord{Number: after + 1 + i, Run: run, Doc: json.RawMessage(d), At: now}
		}
		_, err := s.o.Record.AddMessages(ctx, session, after, recs...)
		if errors.Is(err, fault.Stale) {
			err = busy("another process has added to the session")
		}
		return recs, err
	}
}

// carry carries a turn out and keeps how it ended.
func (s *Service) carry(ctx context.Context, l *live, t *turn) {
	defer s.work.Done()
	act := s.active(l.id)
	err := guarded(ctx, act.loop)
	why := context.Cause(ctx)
	switch {
	case err == nil:
	case errors.Is(why, errClosing):
		err = errClosing // it goes on when it is resumed
	case ctx.Err() != nil:
		err = errors.Join(why, act.loop.abandon(ctx))
	}
	t.cancel(nil)
	if !errors.Is(err, errClosing) {
		err = errors.Join(err, s.settle(l, act, t, err))
	}
	t.err = err
	if s.free(l, t); ofStore(err) {
		_ = l.rest(ctx) // its run can record nothing more: the next turn begins another
		return
	}
	l.restLater()
}

// ofStore reports whether the ledger failed.
func ofStore(err error) bool { return fault.CodeOf(err)/1000 == fault.StoreFailed/1000 }

// guarded carries a turn out; what crashes in it ends it alone.
func guarded(ctx context.Context, l *loop) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fault.Wrap(fault.Internal, fmt.Errorf("%v\n%s", p, debug.Stack()), "the turn crashed")
		}
	}()
	return l.carry(ctx)
}

// free lets the session have another turn.
func (s *Service) free(l *live, t *turn) {
	l.mu.Lock()
	l.turn = nil
	l.mu.Unlock()
	t.cancel(nil)
	close(t.done)
}

// settle keeps how a turn ended.
func (s *Service) settle(l *live, act *activation, t *turn, err error) error {
	to := Idle
	switch {
	case errors.Is(err, fault.ToolCancelled):
		to = Cancelled
	case err != nil:
		to = Failed
	}
	used := act.loop.used
	act.loop.used = model.Usage{}
	why := err
	if to == Cancelled {
		why = nil
	}
	_, serr := l.state(context.Background(), t.by.Name, to, why, func(d *sessionDoc) { d.Usage = d.Usage.Add(used) })
	return serr
}

// gate is passed before each step of a turn. It holds a turn that is paused.
func (l *live) gate(ctx context.Context, _ string) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	t := l.under()
	if t == nil {
		return nil
	}
	t.mu.Lock()
	held := t.paused
	t.mu.Unlock()
	if held == nil {
		return nil
	}
	if _, err := l.state(ctx, t.by.Name, Paused, nil, nil); err != nil {
		return err
	}
	select {
	case <-held:
		_, err := l.state(ctx, t.by.Name, Working, nil, nil)
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// waits notes that a call waits for a person, and gives what notes that it does
// no more.
func (l *live) waits(question string, c runner.Call) func() {
	_, call, _ := strings.Cut(c.Step, ":")
	e := Event{Type: ApprovalDue, Question: question, Call: &CallEvent{ID: call, Name: string(c.Tool), Tool: string(c.Tool), Args: json.RawMessage(toJSON(map[string]any(c.Args)))}}
	ctx := context.Background()
	l.mu.Lock()
	l.waiting++
	first := l.waiting == 1
	l.mu.Unlock()
	if first {
		_, _ = l.state(ctx, "", Waiting, nil, nil) // the question itself is kept; this only shows it
	}
	l.hub.tell(e)
	l.s.tellParents(ctx, l.id, e)
	return func() {
		l.mu.Lock()
		l.waiting--
		last := l.waiting == 0
		l.mu.Unlock()
		if last {
			_, _ = l.state(ctx, "", Working, nil, nil) // as above
		}
	}
}
