package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/provenance"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/tools/model"
)

// turn is a turn under way: from a message, or from where it was interrupted, until
// the model is done or something ends it. It has a goroutine of its own. A reservation
// is a turn that does nothing but keep others from starting.
type turn struct {
	session *session
	by      Caller
	starts  change                                   // messageSent, turnResumed or turnRecovered
	queued  *Queued                                  // of a queued message; nil: it was not queued
	text    string                                   // of the message
	command func(context.Context, *activation) error // a slash command in place of a turn; nil: none
	cancel  context.CancelCauseFunc
	started chan started  // gets one value once the message is recorded, or the turn cannot start
	done    chan struct{} // closed when the turn is over
	err     error         // why it ended, after done; nil: the model was done
}

// started is how the start of a turn went.
type started struct {
	first Message // of the user; zero if the turn was resumed
	err   error
}

// MaxMessage is the longest message of a user, in bytes.
const MaxMessage = 1 << 20

// Send adds a message to a session, carries out the turn, and returns when it is over.
// on gets the events of the turn and may be nil. If ctx ends, the turn is cancelled.
func (s *Service) Send(ctx context.Context, by Caller, id, text string, on func(Event)) (Turn, error) {
	return s.send(ctx, by, id, text, nil, on)
}

// SendQueued is Send for a message that was queued. The turn has a run of its own.
func (s *Service) SendQueued(ctx context.Context, by Caller, id, text string, q Queued) (Turn, error) {
	return s.send(ctx, by, id, text, &q, nil)
}

func (s *Service) send(ctx context.Context, by Caller, id, text string, q *Queued, on func(Event)) (Turn, error) {
	r, _, err := s.session(ctx, id)
	if err != nil {
		return Turn{}, err
	}
	l := s.acquire(r.ID)
	defer s.release(l)
	w := &watcher{svc: s, session: l, position: l.hubEnd(), told: r.Last, on: func(e Event) error {
		if on != nil {
			on(e)
		}
		return nil
	}}
	t, first, err := s.startMessage(ctx, by, l, text, q)
	if err != nil {
		return Turn{}, err
	}
	stop := context.AfterFunc(ctx, func() { s.stopTurn(t, whyEnded(ctx)) })
	defer stop()
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

// whyEnded is why a turn ends with its caller's context: the caller's limit, or else it is cancelled.
func whyEnded(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, fault.LimitReached) {
		return cause
	}
	return fault.Wrap(fault.ToolCancelled, ctx.Err(), "the turn was cancelled")
}

// stopTurn tells a turn to end, unless another one has the session by now.
func (s *Service) stopTurn(t *turn, why error) {
	l := s.acquireKnown(t.session.id)
	if l == nil {
		return
	}
	defer s.release(l)
	l.do(func(o *owner) {
		if o.turn == t {
			_ = o.advance(stepStop) // possible wherever there is a turn
			t.cancel(why)
		}
	})
}

// Start is Send that returns once the message is recorded. The turn goes on.
func (s *Service) Start(ctx context.Context, by Caller, id, text string) (Message, error) {
	r, _, err := s.session(ctx, id)
	if err != nil {
		return Message{}, err
	}
	l := s.acquire(r.ID)
	defer s.release(l)
	_, first, err := s.startMessage(ctx, by, l, text, nil)
	return first, err
}

// startMessage starts a turn with a message of the user.
func (s *Service) startMessage(ctx context.Context, by Caller, l *session, text string, q *Queued) (*turn, Message, error) {
	if err := s.CheckMessage(text); err != nil {
		return nil, Message{}, err
	}
	return s.start(ctx, &turn{session: l, by: by, starts: messageSent, text: text, queued: q})
}

// CheckMessage reports why a text cannot be sent to an agent.
func (s *Service) CheckMessage(text string) error {
	if strings.TrimSpace(text) == "" || len(text) > MaxMessage || !utf8.ValidString(text) {
		return fault.New(fault.AgentInvalid, "a message must be UTF-8 text of 1 to %d bytes", MaxMessage).In("content")
	}
	return s.checkSecrets("content", text)
}

// continueTurn continues the turn that a session was interrupted in. It does nothing
// where there is none to continue.
func (s *Service) continueTurn(ctx context.Context, by Caller, l *session, how change) error {
	_, _, err := s.start(ctx, &turn{session: l, by: by, starts: how})
	if errors.Is(err, errNothingToContinue) {
		return nil
	}
	return err
}

// errNothingToContinue: the session was not interrupted in a turn.
var errNothingToContinue = errors.New("no turn is left to continue")

// start claims the session for a turn, starts it, and returns once its message is
// recorded.
func (s *Service) start(ctx context.Context, t *turn) (*turn, Message, error) {
	ctx, t.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	t.started, t.done = make(chan started, 1), make(chan struct{})
	if err := t.session.claim(t, stepClaim); err != nil {
		t.cancel(nil)
		return nil, Message{}, err
	}
	go t.run(ctx)
	begun := <-t.started
	return t, begun.first, begun.err
}

// run is the turn's goroutine, from the claim of the session until it is free again.
func (t *turn) run(ctx context.Context) {
	l := t.session
	var act *activation
	var first Message
	err := guarded(func() (err error) {
		act, first, err = t.prepare(ctx)
		return err
	})
	if err != nil {
		if why := context.Cause(ctx); why != nil {
			err = errors.Join(why, err) // first, so that its code is the error's
		}
		l.free(t, stepFinish, err, false)
		t.started <- started{err: err}
		return
	}
	l.do(func(o *owner) { _ = o.advance(stepStart) }) // possible in the phases of a turn that starts
	t.started <- started{first: first}
	go t.watchLease(act.run.Lost())
	err = guarded(func() error {
		if t.command != nil {
			return t.command(ctx, act)
		}
		return act.loop.carryOut(ctx)
	})
	why := context.Cause(ctx)
	switch {
	case err == nil:
	case errors.Is(why, errClosing):
		err = errClosing // Resume continues it
	case errors.Is(why, errLeaseLost):
		err = errLeaseLost // any node continues it
	case ctx.Err() != nil:
		err = errors.Join(why, act.loop.abandonCalls(ctx))
	}
	if !errors.Is(err, errClosing) && !t.leave(err) {
		err = errors.Join(err, t.settle(act, err))
	}
	// A run whose record failed can record nothing more; that of a queued turn ends with it.
	l.free(t, stepFinish, err, isStoreError(err) || t.queued != nil)
}

// watchLease ends the turn once this node may not carry it out any more.
func (t *turn) watchLease(lost <-chan struct{}) {
	select {
	case <-lost:
		t.cancel(errLeaseLost)
	case <-t.done:
	}
}

// isStoreError reports whether the ledger failed.
func isStoreError(err error) bool { return fault.CodeOf(err)/1000 == fault.StoreFailed/1000 }

// guarded turns a crash into an error, which ends this turn alone.
func guarded(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fault.Wrap(fault.Internal, fmt.Errorf("%v\n%s", p, debug.Stack()), "the turn crashed")
		}
	}()
	return do()
}

// prepare gives the session its run and records the user's message.
func (t *turn) prepare(ctx context.Context) (*activation, Message, error) {
	if err := t.session.take(ctx, t.by); err != nil {
		return nil, Message{}, err
	}
	act, err := t.activate(ctx)
	if err != nil {
		return nil, Message{}, err
	}
	conv := act.loop.conv
	t.session.do(func(o *owner) { o.hub.countFrom(conv.last) })
	if t.starts != messageSent || t.command != nil {
		return act, Message{}, nil
	}
	if err = act.loop.addUserMessage(ctx, t.text); err != nil {
		return act, Message{}, errors.Join(err, t.settle(act, err))
	}
	if !act.child { // a sub-agent's messages come from a model
		act.run.Said(provenance.Person, t.text)
	}
	return act, conv.view[len(conv.view)-1].Message, nil
}

// activate gives the session a run: the open one if it still fits, or a new one under
// a grant that is made again.
func (t *turn) activate(ctx context.Context) (*activation, error) {
	l, s, by := t.session, t.session.svc, t.by
	r, d, err := s.session(ctx, l.id.String())
	if err != nil {
		return nil, err
	}
	to, err := sessionTable.nextState(d.State, t.starts) // as it is now that no other turn can start
	switch {
	case err != nil:
		return nil, err
	case to != Working:
		return nil, errNothingToContinue
	case d.Child != nil && d.Child.Pending:
		return nil, fault.New(fault.NotDelegable, "the sub-agent %q has no authority yet", d.Child.Name).WithHint("its parent has to delegate authority to it")
	}
	a, err := s.agentOf(ctx, r.Agent)
	if err != nil {
		return nil, err
	}
	act := l.openRun()
	if act == nil {
		return t.wake(ctx, r, d, a)
	}
	if t.queued == nil && act.by.Token == by.Token && act.agent == a.Version && !act.run.Timed() {
		if act.loop.set.quarantined() { // its parent may have seen more by now
			if _, err := s.o.Runs.Labels(ctx, l.id, act.run.Chain()); err != nil {
				return nil, err
			}
		}
		next := *act
		next.by = by
		l.setRun(&next)
		_, err = l.record(ctx, by.Name, fixed(t.starts), nil)
		return &next, err
	}
	l.setRun(nil)
	if err := act.run.End(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	return t.wake(ctx, r, d, a)
}

// wake starts a new run of the session, which takes the lease on it.
func (t *turn) wake(ctx context.Context, r store.SessionRecord, d sessionDoc, a Agent) (*activation, error) {
	l, s := t.session, t.session.svc
	conv, err := load(ctx, s.o.Record, l.id, 0)
	if err != nil {
		return nil, err
	}
	before, err := s.earlierRuns(ctx, l.id, conv.lastRun)
	if err != nil {
		return nil, err
	}
	set, err := s.prepare(l.id, a, d, &children{svc: s, parent: l.id})
	if err != nil {
		return nil, err
	}
	granted, err := s.grant(ctx, r, d, a, t.by)
	if err != nil {
		return nil, err
	}
	inputs, err := inputsOf(set, conv)
	if err != nil {
		return nil, err
	}
	mode, err := d.Mode.begin()
	if err != nil {
		return nil, err
	}
	var observe func(runner.Notice)
	if d.Child != nil {
		observe = s.watchChild(r.Parent, *d.Child)
	}
	run, err := s.o.Runs.Begin(ctx, RunRequest{
		Observe: observe, Session: l.id, Mode: mode, Name: runName(a, d), Granted: granted, Tools: set.own, Hooks: set.hooks, Inputs: inputs, Outputs: outputs{s.o.Record, l.id}, Asking: l.asking, Keep: l.keep, Queued: t.queued,
	})
	if err != nil {
		return nil, err
	}
	d.State, d.Error = Working, nil
	if d.Workspace == "" {
		d.Workspace = granted.Workspace
	}
	held, err := s.takeLease(ctx, r, d, run.ID(), t.by.Name)
	if err != nil {
		return nil, errors.Join(err, run.End(context.WithoutCancel(ctx)))
	}
	conv.write = s.messageWriter(l.id, run.Seq())
	act := &activation{lease: held, run: run, by: t.by, granted: granted, agent: a.Version, child: d.Child != nil}
	if !act.child {
		run.Said(provenance.Policy, a.SystemPrompt)
	}
	act.loop = &loop{set: set, conv: conv, run: run, publish: l.publish, gate: l.gate, ending: s.o.Ending, told: l.takeTold, earlier: before.step, output: before.outcome}
	l.setRun(act)
	l.showState(held.epoch, d)
	return act, nil
}

// runName names a run after the session's agent.
func runName(a Agent, d sessionDoc) string {
	if d.Child != nil {
		return fmt.Sprintf("%s (%s)", d.Child.Name, a.Name)
	}
	return a.Name
}

// messageWriter gives a function that adds messages to the record.
func (s *Service) messageWriter(session uuid.UUID, run ledger.Seq) func(context.Context, int, [][]byte) ([]store.MessageRecord, error) {
	return func(ctx context.Context, after int, docs [][]byte) ([]store.MessageRecord, error) {
		recs := make([]store.MessageRecord, len(docs))
		now := s.o.Now().UTC()
		for i, d := range docs {
			recs[i] = store.MessageRecord{Number: after + 1 + i, Run: run, Doc: json.RawMessage(d), At: now}
		}
		_, err := s.o.Record.AddMessages(ctx, session, after, recs...)
		if errors.Is(err, fault.Stale) {
			err = errBusy("another process has added messages to the session")
		}
		return recs, err
	}
}

// settle records how a turn ended, unless another node carries it on.
func (t *turn) settle(act *activation, err error) error {
	how, problem := turnFinished, problemOf(err)
	switch {
	case errors.Is(err, fault.ToolCancelled):
		how, problem = turnCancelled, nil
	case err != nil:
		how = turnFailed
	}
	used := act.loop.used
	act.loop.used = model.Usage{}
	_, rerr := t.session.record(context.Background(), t.by.Name, fixed(how), func(_ *store.SessionRecord, d *sessionDoc, _ State) error {
		if d.Run != act.run.ID().String() { // another node has taken the turn over, and records its end
			return errUnchanged
		}
		d.Error, d.Usage = problem, d.Usage.Add(used)
		return nil
	})
	return rerr
}

// gate is passed before each step of a turn. It holds a turn that is to be paused.
func (l *session) gate(ctx context.Context, _ string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var by string
	var pause chan struct{}
	l.do(func(o *owner) {
		if o.pause != nil && o.advance(stepHold) == nil { // a turn that is being stopped is not held
			pause, by = o.pause, o.turn.by.Name
		}
	})
	if pause == nil {
		return context.Cause(ctx)
	}
	if _, err := l.record(ctx, by, fixed(turnHeld), nil); err != nil {
		return err
	}
	select {
	case <-pause:
		l.do(func(o *owner) { _ = o.advance(stepContinue) }) // possible in a turn that is held
		_, err := l.record(ctx, by, fixed(turnContinued), nil)
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// asking shows that a call waits for a person's approval, until answered is called.
func (l *session) asking(question string, c runner.Call) (answered func()) {
	_, call, _ := strings.Cut(c.Step, ":")
	e := Event{Type: ApprovalDue, Question: question, Call: &CallEvent{ID: call, Name: string(c.Tool), Tool: string(c.Tool), Args: json.RawMessage(toJSON(map[string]any(c.Args)))}}
	t := l.currentTurn()
	l.countQuestions(t, +1)
	l.publish(e)
	l.svc.publishToParents(context.Background(), l.id, e)
	return func() { l.countQuestions(t, -1) }
}

// countQuestions counts the questions that a turn waits for, and records whether there
// are any. A record that cannot be written does not end the turn: the
// question itself is recorded, and this only shows it.
func (l *session) countQuestions(t *turn, n int) {
	l.do(func(o *owner) {
		if t == nil || o.turn != t {
			return // that turn is over
		}
		o.questions += n
		s := stepAsk
		if o.questions == 0 {
			s = stepAnswer
		}
		_ = o.advance(s) // a call asks only while a turn is under way
	})
	_, _ = l.record(context.Background(), "", func() (c change) {
		l.do(func(o *owner) {
			if c = approvalAnswered; o.questions > 0 {
				c = approvalAsked
			}
		})
		return c
	}, onlyIfChanged)
}
