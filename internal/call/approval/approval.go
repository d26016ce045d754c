// Package approval asks people for approval and waits for their answers. A question is filed in the
// ledger, so that every approver can answer it from anywhere, and so that it survives the process
// that asked. An approval covers exactly the call that asked for it (its tool, arguments, holder
// and policies), once; or, if the person chose so and the policy allows it, a narrow pattern of
// calls of the same session. It never allows what a policy denies. Start at [Desk].
package approval

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/redact"
	"github.com/remitrun/remit/internal/base/tool"
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
var ErrNotHere = errors.New("no approver is available")

// Case is a question as shown to the person at the terminal.
type Case struct {
	Question store.Approval
	Asked    runner.Question
	Body     Body
	Matches  []Past // the session's calls that the pattern matches
	Others   []Past // its calls of the same tool that the pattern does not match
	History  *History
}

// Body is what a question tells people. Texts that come from a caller are whole but for
// known values of secrets, and must be shown as untrusted. The pattern is as it is.
type Body struct {
	Tool      tool.ID         `json:"tool"`
	Step      string          `json:"step,omitempty"`
	Args      json.RawMessage `json:"args,omitempty"`
	Reason    string          `json:"reason"`
	Rule      string          `json:"rule,omitempty"`
	Where     string          `json:"where,omitempty"` // of the rule: its policy, file and line
	Risk      string          `json:"risk"`
	Effects   []string        `json:"effects,omitempty"`
	Touches   []string        `json:"touches,omitempty"`
	Holder    string          `json:"holder"`
	Workspace string          `json:"workspace"`
	Pattern   *Pattern        `json:"pattern,omitempty"`   // the calls that an approval for the session would cover; nil: it cannot be given
	Within    bool            `json:"within,omitempty"`    // the call was running, and needed one more action
	Requested bool            `json:"requested,omitempty"` // ahead of the call, which is not made yet
	Wanted    string          `json:"wanted,omitempty"`    // the caller's reason for the request: untrusted
	Edits     []Edit          `json:"edits,omitempty"`     // proposed changes of policies, which deny the call; approving it means to apply them
}

// Past is a call that was made.
type Past struct {
	Index   int
	Spec    *tool.Spec
	Digest  tool.Digest
	Args    tool.Args
	Actions []tool.Action
}

const defaultEvery = 200 * time.Millisecond

func (d *Desk) now() time.Time {
	if d.Now != nil {
		return d.Now()
	}
	return time.Now()
}

// Binding identifies everything that an approval of one call covers: the holder, every policy of
// the chain with its environment, the grant where the ledger keeps it, a client's session, the tool as it is now, the
// arguments, and the effects of the call: the same words are another call once a link leads
// elsewhere, or a file that they name has other content. If approvals may cover a session, the question about a running
// command's connection is bound to its [connection] pattern instead of the call.
func Binding(q runner.Question) ([32]byte, error) {
	args, err := canon.Marshal(map[string]any(q.Call.Args))
	if err != nil {
		return [32]byte{}, fault.Wrap(fault.ArgsInvalid, err, "the arguments cannot be written as JSON")
	}
	h := sha256.New()
	add := func(b []byte) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(b)))
		h.Write(n[:])
		h.Write(b)
	}
	add([]byte("remit approval 3"))
	add([]byte(q.Run.Grant.Holder()))
	add([]byte(q.Run.Env.Workspace))
	for _, n := range q.Run.Grant.Nodes() {
		if n.Kept {
			add(n.ID[:])
		}
	}
	add(nil)
	for _, r := range q.Run.Grant.Chain() {
		digest := r.Policy().Digest()
		add(digest[:])
	}
	add(nil)
	add(q.Digest[:])
	add([]byte(q.Spec.ID))
	if q.Run.Client != "" {
		add([]byte("session"))
		add(q.Run.ID[:])
	}
	if c, ok := connection(q); ok && q.Terms.Session {
		text, err := json.Marshal(c)
		add([]byte("connection"))
		add(text)
		return [32]byte(h.Sum(nil)), err
	}
	add(args)
	add([]byte(strconv.FormatBool(q.Within)))
	for _, a := range q.Actions {
		add([]byte(a.String()))
		add([]byte(a.Real))
		add([]byte(a.Exe))
		for _, c := range a.Contents {
			add([]byte(c.Path))
			add([]byte(c.State))
		}
		add(nil)
	}
	return [32]byte(h.Sum(nil)), nil
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
		if filed.State == store.Waiting && d.Here == nil && !d.Wait && ctx.Err() == nil {
			return runner.Answer{}, d.noApprover(q, filed)
		}
		done, blind, err := filed, time.Duration(0), error(nil)
		if filed.State == store.Waiting {
			done, blind, err = d.wait(ctx, q, filed, d.offersSession(q))
		}
		if errors.Is(err, ErrNotHere) {
			return runner.Answer{}, d.noApprover(q, filed)
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
	return !q.Decision.ByFlow() || q.Decision.Endorses() && !q.Ahead && (d.Wait || d.Here != nil)
}

// noApprover is the refusal of a call whose question was filed for others to answer.
func (d *Desk) noApprover(q runner.Question, filed store.Approval) error {
	e := fault.New(fault.NeedsApproval, "no approver is available: %s", q.Decision.Reason)
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

func (d *Desk) caseOf(ctx context.Context, q runner.Question, filed store.Approval, session bool) (Case, error) {
	c := Case{Question: filed, Asked: q, Body: d.body(q, session)}
	if d.History != nil {
		h, err := d.History(ctx, filed, c.Body)
		if err != nil {
			return c, err
		}
		c.History = &h
	}
	p := c.Body.Pattern
	if p == nil || d.Past == nil {
		return c, nil
	}
	past, err := d.Past(ctx, q.Run)
	for _, call := range past {
		switch {
		case p.Matches(call.Spec.ID, call.Digest, call.Args, call.Actions):
			c.Matches = append(c.Matches, call)
		case call.Spec.ID == q.Spec.ID:
			c.Others = append(c.Others, call)
		}
	}
	return c, err
}

// body describes a question.
func (d *Desk) body(q runner.Question, session bool) Body {
	red := d.Redact.Known()
	b := Body{
		Tool: q.Spec.ID, Step: q.Call.Step, Reason: red.Text(q.Decision.Reason), Rule: q.Decision.Rule.String(), Where: placeOf(q.Decision.Rule), Risk: q.Spec.Risk.String(),
		Holder: q.Run.Grant.Holder(), Workspace: q.Run.Env.Workspace, Within: q.Within,
	}
	if args, err := canon.Marshal(map[string]any(q.Call.Args)); err == nil {
		b.Args = red.JSON(args)
	}
	if b.Requested = q.Ahead; q.Ahead {
		b.Wanted = red.Text(q.Reason)
	}
	for _, e := range q.Spec.Effects.List() {
		b.Effects = append(b.Effects, e.String())
	}
	for _, a := range q.Actions {
		text := a.String()
		if a.Real != "" && a.Real != a.Path {
			text += " (through a link: " + a.Real + ")"
		}
		b.Touches = append(b.Touches, red.Text(text))
		for _, c := range a.Contents {
			if strings.Contains(c.State, ":") {
				b.Touches = append(b.Touches, red.Text(fmt.Sprintf("content of %q as it is now, %s", c.Path, c.State)))
			}
		}
	}
	if session {
		p, ok := Propose(q.Spec.ID, q.Digest, q.Call.Args, q.Actions)
		if q.Decision.Endorses() {
			p, ok = endorsement(q), true
		}
		if c, within := connection(q); within {
			p, ok = c, true
		}
		if text, err := json.Marshal(p); ok && err == nil && red.Text(string(text)) == string(text) { // a pattern is shown as it is
			b.Pattern = &p
		}
	}
	return b
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

// placeOf says where a rule is written, as "docs, policy.yaml:7"; "" for none.
func placeOf(r *policy.Rule) string {
	if r == nil {
		return ""
	}
	at := path.Base(filepath.ToSlash(r.File))
	switch {
	case r.File == "":
		return r.Policy
	case r.Line > 0:
		at += ":" + strconv.Itoa(r.Line)
	}
	if r.Policy == "" {
		return at
	}
	return r.Policy + ", " + at
}
