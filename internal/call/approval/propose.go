package approval

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/policy/learn"
	"github.com/remitrun/remit/internal/base/diff"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/store"
)

// Edit is a proposed change of a policy file: entries that are added to it.
type Edit struct {
	File   string       `json:"file"`            // absolute
	Digest string       `json:"digest"`          // of the file that the change is for, as SHA-256 in hexadecimal
	Lines  []learn.Line `json:"lines"`           // the entries that are added
	Diff   string       `json:"diff"`            // unified, for programs
	Hunks  []diff.Hunk  `json:"hunks,omitempty"` // the same; nil: a secret is masked in Diff, which has all that is shown
}

// proposalLife is how long a proposal stays open. Its caller does not wait for the answer.
const proposalLife = 7 * 24 * time.Hour

// maxProposals is how many proposals of one run may wait at once.
const maxProposals = 20

// Propose implements runner.Proposer. An approved proposal does not approve the
// call: no call has a binding of its kind.
func (d *Desk) Propose(ctx context.Context, q runner.Question) (runner.Proposal, error) {
	if d.Edits == nil {
		return runner.Proposal{}, fault.New(fault.Denied, "denied: %s", q.Decision.Reason)
	}
	edits, err := d.Edits(q)
	if err != nil {
		return runner.Proposal{}, err
	}
	waiting, err := d.Store.Questions(ctx, store.QuestionFilter{State: store.Waiting, Run: q.Run.Seq, Limit: maxProposals})
	if err != nil {
		return runner.Proposal{}, err
	}
	if len(waiting) >= maxProposals {
		return runner.Proposal{}, fault.New(fault.LimitReached, "%d questions of this run wait already", len(waiting)).WithHint("go on without it")
	}
	s, err := d.proposal(q, edits)
	if err != nil {
		return runner.Proposal{}, err
	}
	filed, err := d.Store.Request(context.WithoutCancel(ctx), s)
	if err == nil && filed.ID == s.ID && d.Filed != nil {
		d.Filed(filed)
	}
	return runner.Proposal{ID: filed.ID.String(), Until: filed.Until}, err
}

func (d *Desk) proposal(q runner.Question, edits []Edit) (store.Approval, error) {
	binding, err := Binding(q)
	if err != nil {
		return store.Approval{}, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return store.Approval{}, fault.Wrap(fault.Internal, err, "no random numbers")
	}
	s := store.Approval{
		ID: id, Binding: sha256.Sum256(append([]byte("remit proposal 1"), binding[:]...)), Run: q.Run.Seq, RunID: q.Run.ID, Call: uint32(q.Call.Index),
		Holder: q.Run.Grant.Holder(), Needs: 1, Asked: d.now(), Until: d.now().Add(proposalLife), GoodFor: proposalLife,
	}
	if q.Run.Grant.Kept() {
		s.Grant = q.Run.Grant.ID()
	}
	b := d.body(q, false)
	red := d.Redact.Known()
	for _, e := range edits {
		if masked := red.Text(e.Diff); masked != e.Diff {
			e.Diff, e.Hunks = masked, nil
		}
		b.Edits = append(b.Edits, e)
	}
	if s.Body, err = json.Marshal(b); err != nil {
		return store.Approval{}, fault.Wrap(fault.Internal, err, "the proposal cannot be encoded")
	}
	return s, nil
}
