// Package approvals puts the questions of calls to people, and takes their answers. Start at
// [Approvals.Answer] and [Desk].
package approvals

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/approval"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/grants"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/notify"
	"github.com/remitrun/remit/internal/service/policies"
	"github.com/remitrun/remit/internal/service/settings"
)

// Approvals are the questions that a ledger keeps.
type Approvals struct {
	Home     *home.Home
	Grants   *grants.Grants
	Tools    *catalog.Catalog // to show the effects of earlier calls
	Notifier *notify.Notifier // tells people of new questions; nil: nobody is told
	Policies *policies.Policies
	// Ending ends when this process is about to end: no call waits for an answer then. Nil: never.
	Ending context.Context
	// Role returns the present role of a person known to an identity provider: an error if none.
	Role func(p *ledger.Person) (settings.Role, error)
}

// IsAdmin reports whether a person may approve what admins approve: whom
// config.yaml names, or, where it names nobody, the owner of $REMIT_HOME.
func (s *Approvals) IsAdmin(person string) bool {
	if admins := s.Home.Settings.Admins; len(admins) > 0 {
		return slices.Contains(admins, person)
	}
	return person == home.Person() && home.OwnedByUs(s.Home.Dir)
}

// Desk puts questions as its arguments say, which are the Desk's fields.
func (s *Approvals) Desk(wait bool, here func(ctx context.Context, c approval.Case) (store.Vote, error), advice func(filed store.Approval) string) *Desk {
	return &Desk{of: s, Wait: wait, Here: here, Advice: advice}
}

// Desk puts the questions of a run to people. It implements runner.Asker.
type Desk struct {
	of   *Approvals
	Wait bool // wait for an answer where no person is here to give it
	// Continues says that an interrupted call is made again: its question stays open.
	Continues bool
	Before    func(ctx context.Context) // called before a question is filed; may be nil
	// Here asks the person at the terminal; nil without one: others can answer.
	Here func(ctx context.Context, c approval.Case) (store.Vote, error)
	// Advice tells a caller how an unanswered question can be answered; nil: as the
	// command line does.
	Advice func(filed store.Approval) string
	// Within is the run of an agent's session, see approval.Desk; nil: the questions are not of such a session.
	Within func(ctx context.Context) *runner.Run
}

// File files a question that an agent puts to its user, or finds it, see approval.Desk.
func (d *Desk) File(ctx context.Context, q runner.Question) (filed store.Approval, ok bool, err error) {
	_, st, err := d.of.Grants.Open(ctx)
	if err != nil {
		return filed, false, err
	}
	return d.deskOver(st).File(ctx, q)
}

// agentAsks is how long an agent's user may take to answer. The question lapses with the session, too.
const agentAsks = 12 * time.Hour

// Ask implements runner.Asker.
func (d *Desk) Ask(ctx context.Context, q runner.Question) (runner.Answer, error) {
	_, st, err := d.of.Grants.Open(ctx)
	if err != nil {
		return runner.Answer{}, err
	}
	desk := d.deskOver(st)
	if here := d.Here; here != nil {
		desk.Here = func(ctx context.Context, c approval.Case) (store.Vote, error) {
			v, err := here(ctx, c)
			v.Admin = d.of.IsAdmin(v.By)
			return v, err
		}
	}
	return desk.Ask(ctx, q)
}

// Propose implements runner.Proposer.
func (d *Desk) Propose(ctx context.Context, q runner.Question) (runner.Proposal, error) {
	_, st, err := d.of.Grants.Open(ctx)
	if err != nil {
		return runner.Proposal{}, err
	}
	return d.deskOver(st).Propose(ctx, q)
}

// deskOver is the desk over a store, without a person at the terminal.
func (d *Desk) deskOver(st store.Backend) *approval.Desk {
	asker := func(ctx context.Context, root uuid.UUID) (person, role string, err error) {
		who, person, err := personOf(ctx, st, root)
		if err != nil || who == nil {
			return "", "", err
		}
		return person, who.Role, nil
	}
	open := time.Duration(0)
	if d.Within != nil {
		open = agentAsks
	}
	return &approval.Desk{Open: open, Store: st, Now: st.Now, Asker: asker, Wait: d.Wait, Ending: d.of.Ending, Continues: d.Continues, Before: d.Before, Redact: d.of.Home.Redactor(), Past: d.of.pastCalls, History: d.of.ownHistory, Advice: d.Advice, Within: d.Within, Filed: d.of.announce, Edits: d.of.edits}
}

// announce notifies people of a new question. They are told its tool and risk, and no arguments.
func (s *Approvals) announce(q store.Approval) {
	b, err := BodyOf(q)
	if err != nil {
		return // cannot be: it was encoded a moment ago
	}
	title := fmt.Sprintf("%s needs approval (risk %s)", b.Tool, b.Risk)
	if len(b.Edits) > 0 {
		title = fmt.Sprintf("a change of a policy is proposed, to allow %s (risk %s)", b.Tool, b.Risk)
	}
	s.Notifier.Notify(notify.Event{
		Kind: notify.ApprovalRequested, ID: q.ID.String(), At: q.Asked, Until: q.Until,
		Title: title, Do: "remit approvals show " + q.ID.String(),
		Facts: map[string]string{"run": q.RunID.String(), "call": strconv.Itoa(int(q.Call)), "tool": string(b.Tool), "risk": b.Risk,
			"approvers": strconv.Itoa(q.Needs), "until": q.Until.UTC().Format(time.RFC3339)},
	})
}

// pastCalls gives the calls that a run has completed so far.
func (s *Approvals) pastCalls(ctx context.Context, run *runner.Run) ([]approval.Past, error) {
	st, err := s.Home.Ledger(ctx)
	if err != nil {
		return nil, err
	}
	var out []approval.Past
	for c, err := range st.Calls(ctx, run.Seq) {
		if err != nil {
			return nil, err
		}
		if c.Status != tool.Completed {
			continue
		}
		p, err := s.pastCall(ctx, st, run.Env, c)
		if err != nil {
			return nil, err
		}
		if p.Spec != nil {
			out = append(out, p)
		}
	}
	return out, nil
}

// pastCall describes a recorded call; a call of a tool that is gone has no Spec.
func (s *Approvals) pastCall(ctx context.Context, st store.Store, env tool.Env, c ledger.Call) (approval.Past, error) {
	e, err := s.Tools.Still().Lookup(c.Tool)
	if err != nil {
		return approval.Past{}, nil //nolint:nilerr // a tool that is gone has no pattern
	}
	b, err := st.Load(ctx, c.Parts[ledger.PartArgs])
	if err != nil {
		return approval.Past{}, err
	}
	v, err := canon.Decode(b)
	if err != nil {
		return approval.Past{}, err
	}
	args, _ := v.(map[string]any)
	actions, err := recordedActions(ctx, st, c)
	if err != nil {
		return approval.Past{}, err
	}
	if actions == nil {
		prepared, err := e.Tool.Prepare(env, args)
		if err != nil {
			return approval.Past{}, nil //nolint:nilerr // nothing can be said of it
		}
		actions = prepared.Actions
	}
	return approval.Past{Index: c.Index, Spec: e.Spec, Digest: c.Digest, Args: args, Actions: actions}, nil
}

// List lists the questions that were put to people, newest first.
func (s *Approvals) List(ctx context.Context, f store.QuestionFilter) ([]store.Approval, error) {
	_, st, err := s.Grants.Open(ctx)
	if err != nil {
		return nil, err
	}
	f.Sealed = true
	list, err := st.Questions(ctx, f)
	for i := range list {
		list[i] = asShown(st, list[i])
	}
	return list, err
}

// asShown gives an approval with its state at this time, and a list of votes also where
// there is none.
func asShown(clock store.Clock, q store.Approval) store.Approval {
	q.State = q.StateAt(clock.Now())
	if q.Votes == nil {
		q.Votes = []store.Vote{}
	}
	q.Digest = digestOf(q)
	return q
}

// digestOf is the digest of everything in a question: the call with its binding, the approvers that
// it needs, and the text for people.
func digestOf(q store.Approval) string {
	h := sha256.New()
	for _, part := range [][]byte{[]byte("remit question 1"), q.ID[:], q.Binding[:], []byte(q.Holder), []byte(strconv.Itoa(q.Needs)), []byte(strconv.FormatBool(q.Admin)), q.Body} {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write(part)
	}
	if len(q.Roles) > 0 || q.Person != "" {
		b, _ := json.Marshal([]any{q.Roles, q.Person, q.AskedAs}) // texts can be encoded
		h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Find finds a question by its ID or the beginning of it, with its text.
func (s *Approvals) Find(ctx context.Context, id string) (store.Approval, approval.Body, error) {
	_, st, err := s.Grants.Open(ctx)
	if err != nil {
		return store.Approval{}, approval.Body{}, err
	}
	q, err := st.Question(ctx, id)
	if err != nil {
		return q, approval.Body{}, err
	}
	b, err := BodyOf(q)
	if q = asShown(st, q); err == nil {
		q.Interrupted, err = whyInterrupted(ctx, st, q)
	}
	return q, b, err
}

// BodyOf reads the text of a question; an erased question has an empty one.
func BodyOf(q store.Approval) (approval.Body, error) {
	var b approval.Body
	if len(q.Body) == 0 {
		return b, nil
	}
	if err := json.Unmarshal(q.Body, &b); err != nil {
		return b, fault.Wrap(fault.StoreCorrupt, err, "the question %s cannot be read", q.ID)
	}
	return b, nil
}

// Answer is what a person answers to a question.
type Answer struct {
	By      string    // who answers
	Grant   uuid.UUID // that the person answers under; Nil: this process is the person's own
	Where   string    // the door, as "http api"
	Yes     bool
	Session bool // a yes also holds for the question's pattern for the rest of its run
	Reason  string
	Digest  string // of the question that the person saw; "": not checked
	// OnMachine: the person uses this machine as its owner, and may change policy files.
	OnMachine bool
}

// Here is an answer of the person who uses this process.
func Here(yes, session bool, reason string) Answer {
	return Answer{By: home.Person(), Where: "remit approvals", Yes: yes, Session: session, Reason: reason, OnMachine: true}
}

// Answer answers a question. It is an admin's answer if the person is one.
func (s *Approvals) Answer(ctx context.Context, id string, a Answer) (store.Approval, error) {
	var q store.Approval
	var body approval.Body
	err := store.Patiently(ctx, store.Patience, store.PatientEvery, func() (err error) {
		q, body, err = s.Find(ctx, id)
		return err
	})
	if err != nil {
		return q, err
	}
	if a.Digest != "" && a.Digest != q.Digest {
		return q, fault.New(fault.Stale, "the question is not the one that was shown").In("digest").WithHint("read the question again, and answer that")
	}
	_, st, err := s.Grants.Open(ctx)
	if err != nil {
		return q, err
	}
	v := store.Vote{By: a.By, Grant: a.Grant, Yes: a.Yes, Where: a.Where, Reason: a.Reason, Admin: s.IsAdmin(a.By), At: st.Now()}
	if a.Session && a.Yes {
		if body.Pattern == nil {
			return q, fault.New(fault.ArgsInvalid, "this question has no pattern, so the approval can only cover this one call").In("session").WithHint("leave out session")
		}
		if v.Session, err = json.Marshal(body.Pattern); err != nil {
			return q, fault.Wrap(fault.Internal, err, "the pattern cannot be encoded")
		}
	}
	if len(body.Edits) > 0 && a.Yes {
		if !a.OnMachine {
			return q, fault.New(fault.ArgsInvalid, "a change of a policy is approved on the machine that has the policy").
				ForOperator("run there: remit approvals approve %s", q.ID)
		}
		q, err = s.apply(ctx, q, body, v)
		return asShown(st, q), err
	}
	q, err = s.vote(ctx, st, q, v)
	return asShown(st, q), err
}

// vote records an answer. A ledger that is away for a moment delays it, and takes it once.
func (s *Approvals) vote(ctx context.Context, st store.Backend, q store.Approval, v store.Vote) (store.Approval, error) {
	tried, admin := false, v.Admin
	err := store.Patiently(ctx, store.Patience, store.PatientEvery, func() error {
		now, err := q, error(nil)
		if tried { // it may have been recorded
			now, err = st.Question(ctx, q.ID.String())
		}
		if err != nil {
			return err
		}
		if tried && hasVote(now, v) {
			q = now
			return nil
		}
		v.Admin, v.Void = admin, nil
		if err := s.inRole(ctx, st, now, &v); err != nil {
			return err
		}
		tried = true
		if now, err = st.Vote(ctx, q.ID, v); err == nil {
			q = now
		}
		return err
	})
	return q, err
}

func hasVote(q store.Approval, v store.Vote) bool {
	return slices.ContainsFunc(q.Votes, func(o store.Vote) bool {
		return o.By == v.By && o.Yes == v.Yes && o.At.UnixMicro() == v.At.UnixMicro()
	})
}
