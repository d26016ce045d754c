// Package approval asks people for approval and waits for their answers. A question is filed in the
// ledger, so that every approver can answer it from anywhere, and so that it survives the process
// that asked. An approval covers exactly the call that asked for it (its tool, arguments, holder
// and policies), once; or, if the person chose so and the policy allows it, a narrow pattern of
// calls of the same session. It never allows what a policy denies. Start at [Desk].
package approval

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/redact"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/store"
)

// Desk is a runner.Asker over a store of questions. It is safe for concurrent
// use.
type Desk struct {
	Store store.Approvals
	// Here asks the person at this place, such as a terminal, until ctx ends. Nil means
	// that no person is present. It may be called from several goroutines, and returns
	// [ErrNotHere] if the person cannot be asked this question.
	Here func(ctx context.Context, c Case) (store.Vote, error)
	// Advice returns the hint for a question that was filed for others to answer; nil
	// means the hint of the command line.
	Advice func(filed store.Approval) string
	// Wait makes a call wait for its answer if no person is present. Otherwise the
	// question is filed and the call refused; after the answer, the same call can be
	// made again.
	Wait bool
	// Ending ends when this process is about to end: no call waits for an answer then. Its cause
	// does not matter. Nil: it never ends.
	Ending context.Context
	// Continues says that an interrupted call is made again, as that of a session's turn. Its
	// question stays open then.
	Continues bool
	// Before is called before a question is filed; nil: nothing is called.
	Before func(ctx context.Context)
	// Within gives the run that the questions belong to, and whose approvals for the session hold for
	// them. Nil, also as a result: the call's own run. The commands of an agent's session are runs of their own.
	Within func(ctx context.Context) *runner.Run
	// Open is how long a question waits for its answer; 0: as the policies say (approvals.timeout).
	Open time.Duration
	// Filed is called after a new question was filed, before its answer is awaited; nil: nothing
	// is called.
	Filed func(store.Approval)
	// Edits returns the changes of policy files that would allow what a question's policies
	// deny; nil: none can be proposed.
	Edits func(q runner.Question) ([]Edit, error)
	// Asker returns the person that holds a root grant, with the role, if an identity provider
	// knows the person; "" otherwise. Nil: none does.
	Asker func(ctx context.Context, root uuid.UUID) (person, role string, err error)
	// Redact masks the values of secrets; nil masks none. Nothing else is hidden: an
	// approval covers what the person could see.
	Redact *redact.Redactor
	// Past returns the session's earlier calls, to show which ones a pattern matches.
	Past func(ctx context.Context, run *runner.Run) ([]Past, error)
	// History gives the person at the terminal the record's evidence about earlier questions; nil:
	// none is shown.
	History func(ctx context.Context, q store.Approval, b Body) (History, error)

	Now   func() time.Time // nil: time.Now
	Every time.Duration    // how often answers from elsewhere are looked for; 0: 200 ms
}

// ErrNotHere is returned by [Desk.Here] if the person cannot be asked this question.
// The question stays open for others.
var ErrNotHere = errors.New("the person cannot be asked here")

const defaultEvery = 200 * time.Millisecond

func (d *Desk) now() time.Time {
	if d.Now != nil {
		return d.Now()
	}
	return time.Now()
}

// File files a question that is put to people outside of Remit, or finds the one that was filed before. People are not
// notified. If an approval for the session covers the question, it is not filed, and ok is false.
func (d *Desk) File(ctx context.Context, q runner.Question) (filed store.Approval, ok bool, err error) {
	q = d.within(ctx, q)
	if _, covered, err := d.session(ctx, q); covered || err != nil {
		return filed, false, err
	}
	binding, err := Binding(q)
	if err != nil {
		return filed, false, err
	}
	quiet := *d
	quiet.Filed = nil
	filed, err = quiet.file(ctx, q, binding, d.until(q))
	return filed, err == nil, err
}

// within gives the question as one of the run of [Desk.Within].
func (d *Desk) within(ctx context.Context, q runner.Question) runner.Question {
	if d.Within != nil {
		if run := d.Within(ctx); run != nil {
			q.Run, q.Call.Index = run, 0
		}
	}
	return q
}

// until is when a question lapses that is filed now.
func (d *Desk) until(q runner.Question) time.Time {
	return d.now().Add(cmp.Or(d.Open, q.Run.Grant.Chain().Terms().ApprovalTimeout))
}

// Ask implements runner.Asker.
func (d *Desk) Ask(ctx context.Context, q runner.Question) (runner.Answer, error) {
	q = d.within(ctx, q)
	terms := q.Run.Grant.Chain().Terms()
	if terms.Roles != nil && len(terms.Roles) == 0 {
		return runner.Answer{}, fault.New(fault.NeedsApproval, "approval is needed, and the policies leave no role that may give it: %s", q.Decision.Reason)
	}
	if !terms.AnswersHere() && d.Here != nil {
		others := *d
		others.Here = nil
		d = &others
	}
	if a, ok, err := d.session(ctx, q); err != nil || ok {
		return a, err
	}
	binding, err := Binding(q)
	if err != nil {
		return runner.Answer{}, err
	}
	deadline := d.until(q)
	for {
		if !q.Ahead { // an approval that is requested ahead is left for the call itself
			if a, ok, err := d.claim(ctx, q, binding); err != nil || ok {
				return a, err
			}
		}
		filed, err := d.file(ctx, q, binding, deadline)
		if err != nil {
			return runner.Answer{}, err
		}
		if filed.State == store.Waiting && d.Here == nil && !d.waits(q) && ctx.Err() == nil {
			return runner.Answer{}, d.unanswered(q, filed)
		}
		done, blind, err := filed, time.Duration(0), error(nil)
		if filed.State == store.Waiting {
			done, blind, err = d.wait(ctx, q, filed, d.offersSession(q))
		}
		if errors.Is(err, ErrNotHere) {
			return runner.Answer{}, d.unanswered(q, filed)
		}
		if err != nil {
			return runner.Answer{}, err
		}
		deadline = deadline.Add(blind) // the time without a readable ledger does not count
		if done.State == store.Lapsed && !d.now().Before(deadline) {
			return runner.Answer{}, fault.New(fault.NeedsApproval, "approval was not given in time: %s", q.Decision.Reason).
				ForOperator("run it again and have somebody answer with remit approvals")
		}
		if a, ok := settled(q, done); ok {
			return a, nil
		}
		// Approved for one call: the next round claims it, unless the same call at the same time has. Then the question is
		// put again. So it is when an equal call had put it, which was given up.
	}
}

// settled returns the answer that a question has, unless a call must still claim it.
func settled(q runner.Question, done store.Approval) (runner.Answer, bool) {
	switch {
	case done.State == store.Refused:
		return refusal(done), true
	case done.State == store.Approved && done.Session != nil && (done.Admin || !q.Decision.Admin):
		return forSession(done), true // also where another run had asked: it is the same call
	case done.State == store.Approved && q.Ahead:
		return answer(done, true), true
	}
	return runner.Answer{}, false
}

// offersSession reports whether a question may be answered for the session. A flow's question about
// values may be, if the call waits for the answer: the answer then endorses these values.
func (d *Desk) offersSession(q runner.Question) bool {
	if !q.Run.Grant.Chain().Terms().Session {
		return false
	}
	return !q.Decision.ByFlow() || q.Decision.Endorses() && !q.Ahead && (d.waits(q) || d.Here != nil)
}

// waits reports whether a call waits for an answer from elsewhere.
func (d *Desk) waits(q runner.Question) bool {
	return d.Wait || time.Until(q.Call.AnswerBy) > 0
}

// filedError says which question was filed about a refused call.
type filedError struct{ id uuid.UUID }

// Error implements error.
func (e filedError) Error() string { return "question " + e.id.String() }

// Filed returns the ID of the pending question behind a refusal, or "".
func Filed(refused error) string {
	var f filedError
	if errors.As(refused, &f) {
		return f.id.String()
	}
	return ""
}

// unanswered returns the refusal of a call whose question is still open.
func (d *Desk) unanswered(q runner.Question, filed store.Approval) error {
	state := "not approved yet"
	if !q.Call.AnswerBy.IsZero() {
		state = "nobody answered while the call waited"
	}
	e := fault.Wrap(fault.NeedsApproval, filedError{filed.ID}, "%s: %s", state, q.Decision.Reason)
	if d.Advice != nil {
		return e.WithHint("%s", d.Advice(filed))
	}
	return e.ForOperator("run it in a terminal to be asked; or have it approved with remit approvals, and run the same again before %s", filed.Until.UTC().Format(time.RFC3339))
}

// claim uses an approval that was given before.
func (d *Desk) claim(ctx context.Context, q runner.Question, binding [32]byte) (a runner.Answer, ok bool, err error) {
	err = d.patiently(ctx, q, func() error {
		var got store.Approval
		if got, ok, err = d.Store.Claim(ctx, binding, d.now()); err == nil && ok {
			a = answer(got, true)
		}
		return err
	})
	if err != nil || ok {
		return a, ok, err
	}
	return d.sessionBefore(ctx, q, binding)
}

// sessionBefore looks for an approval for the session that was given to this very call of the
// session, in a run that was interrupted before the call used it.
func (d *Desk) sessionBefore(ctx context.Context, q runner.Question, binding [32]byte) (a runner.Answer, ok bool, err error) {
	if !d.Continues || q.Run.Session == uuid.Nil || !q.Run.Grant.Kept() || !q.Run.Grant.Chain().Terms().Session {
		return a, false, nil
	}
	var list []store.Approval
	err = d.patiently(ctx, q, func() error {
		list, err = d.Store.Questions(ctx, store.QuestionFilter{State: store.Approved, Binding: binding, Sealed: true, Limit: maxSession})
		return err
	})
	for _, s := range list {
		if err == nil && s.Session != nil && s.Holder == q.Run.Grant.Holder() && s.Until.After(d.now()) && (s.Admin || !q.Decision.Admin) {
			return forSession(s), true, nil
		}
	}
	return a, false, err
}

// session looks for an approval of the session that matches the call.
func (d *Desk) session(ctx context.Context, q runner.Question) (runner.Answer, bool, error) {
	if !q.Run.Grant.Chain().Terms().Session || q.Decision.ByFlow() {
		return runner.Answer{}, false, nil
	}
	var list []store.Approval
	err := d.patiently(ctx, q, func() (err error) {
		list, err = d.Store.Questions(ctx, store.QuestionFilter{State: store.Approved, Run: q.Run.Seq, Sealed: true, Limit: maxSession})
		return err
	})
	if err != nil {
		return runner.Answer{}, false, err
	}
	for _, s := range list {
		if s.Session == nil || !s.Until.After(d.now()) || q.Decision.Admin && !s.Admin {
			continue
		}
		p, err := ParsePattern(s.Session)
		if err != nil {
			return runner.Answer{}, false, err
		}
		if p.covers(q) {
			return forSession(s), true, nil
		}
	}
	return runner.Answer{}, false, nil
}

// maxSession bounds how many approvals of one session are looked at.
const maxSession = 500

func (d *Desk) file(ctx context.Context, q runner.Question, binding [32]byte, until time.Time) (store.Approval, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return store.Approval{}, fault.Wrap(fault.Internal, err, "no random numbers")
	}
	terms := q.Run.Grant.Chain().Terms()
	s := store.Approval{
		ID: id, Binding: binding, Run: q.Run.Seq, RunID: q.Run.ID, Call: uint32(q.Call.Index), Holder: q.Run.Grant.Holder(),
		Needs: terms.Approvers, Admin: q.Decision.Admin, Asked: d.now(), Until: until, GoodFor: terms.ApprovalExpires, Roles: terms.Roles,
	}
	if nodes := q.Run.Grant.Nodes(); d.Asker != nil && len(nodes) > 0 && nodes[0].Kept {
		err = d.patiently(ctx, q, func() (err error) { s.Person, s.AskedAs, err = d.Asker(ctx, nodes[0].ID); return err })
		if err != nil {
			return store.Approval{}, err
		}
	}
	if q.Run.Grant.Kept() {
		s.Grant = q.Run.Grant.ID()
	}
	if s.Body, err = json.Marshal(d.body(q, d.offersSession(q))); err != nil {
		return store.Approval{}, fault.Wrap(fault.Internal, err, "the approval question cannot be encoded")
	}
	if d.Before != nil {
		d.Before(ctx)
	}
	var filed store.Approval
	err = d.patiently(ctx, q, func() (err error) {
		filed, err = d.Store.Request(context.WithoutCancel(ctx), s) // wait takes it back where the call is given up
		return err
	})
	if err == nil && filed.ID == s.ID && d.Filed != nil {
		d.Filed(filed)
	}
	return filed, err
}

// answerHere puts a question to the person at this place.
func (d *Desk) answerHere(ctx context.Context, c Case) error {
	v, err := d.Here(ctx, c)
	if ctx.Err() != nil {
		return nil //nolint:nilerr // answered elsewhere, or given up
	}
	if err != nil {
		return err
	}
	if v.By == "" {
		return fault.New(fault.NeedsApproval, "the answer names no approver")
	}
	v.At = d.now()
	err = d.patiently(ctx, c.Asked, func() error {
		_, err := d.Store.Vote(ctx, c.Question.ID, v)
		return err
	})
	if errors.Is(err, fault.ApprovalGone) || ctx.Err() != nil {
		return nil //nolint:nilerr // somebody else was faster: the question says who
	}
	return err
}

func forSession(q store.Approval) runner.Answer {
	a := answer(q, true)
	a.Where += ", for the session"
	a.Session = true
	return a
}

func refusal(q store.Approval) runner.Answer { return answer(q, false) }

// answer tells who decided.
func answer(q store.Approval, yes bool) runner.Answer {
	a := runner.Answer{Yes: yes}
	var by []string
	for _, v := range q.Votes {
		if v.Yes != yes {
			continue
		}
		by = append(by, v.By)
		a.Where, a.Reason, a.At = v.Where, v.Reason, v.At
	}
	a.By = strings.Join(by, ", ")
	return a
}
