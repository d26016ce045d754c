package tables

import (
	"bytes"
	"context"
	"crypto/hmac"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
)

// mayApprove refuses an approval by the caller, and by people without one of the question's roles.
func mayApprove(q store.Approval, v store.Vote) error {
	switch {
	case !v.Yes:
	case q.Person != "" && q.Person == v.By:
		return fault.New(fault.Denied, "nobody can approve a call that is made under their own grant").WithHint("another person must approve it")
	case len(q.Roles) > 0 && !slices.Contains(q.Roles, v.Role):
		return fault.New(fault.Denied, "only people of these roles can approve this: %s", strings.Join(q.Roles, ", ")).
			ForOperator("approvals.roles of the policy asks for it; people get roles by people.bindings in config.yaml")
	}
	return nil
}

// standing turns the approvals that count no more, because a grant that they were given under
// is revoked or paused, or the person's role is gone, into ones that add nothing. No one can
// vote again.
func (w *writer) standing(ctx context.Context, votes []sealedRow, told []store.Vote, v store.Vote) ([]sealedRow, error) {
	out := make([]sealedRow, len(votes))
	for i, row := range votes {
		out[i] = row
		void := slices.Contains(v.Void, row.text(voteBy))
		for _, t := range told {
			if t.By != row.text(voteBy) || t.Grant == uuid.Nil || void {
				continue
			}
			var err error
			if void, err = w.stopped(ctx, t.Grant); err != nil {
				return nil, err
			}
		}
		if void {
			out[i] = slices.Clone(row)
			out[i][voteYes] = int64(0)
		}
	}
	return out, nil
}

// standsToVote refuses a vote under a grant that is revoked or paused at this moment.
func (w *writer) standsToVote(ctx context.Context, id uuid.UUID) error {
	if id == uuid.Nil {
		return nil
	}
	stopped, err := w.stopped(ctx, id)
	if err == nil && stopped {
		err = fault.New(fault.GrantRevoked, "the grant %s is revoked or paused, so it cannot answer questions", id)
	}
	return err
}

// stopped reports whether a grant, or one that it derives from, is revoked or paused.
func (w *writer) stopped(ctx context.Context, id uuid.UUID) (bool, error) {
	for range maxDescent {
		row, err := w.wholeRow(ctx, tableStandings, id[:])
		if err != nil || row != nil && store.Standing(row.int(standingState)) != store.Active {
			return true, err
		}
		if row, err = w.row(ctx, tableGrants, id[:]); err != nil {
			return false, err
		}
		if row == nil { // unless it was renamed
			_, err = w.wholeTable(ctx, tableGrants)
			return false, err
		}
		if copy(id[:], row.bytes(grantParent)); id == uuid.Nil {
			return false, nil
		}
	}
	return true, nil
}

// mayVote checks the grant that a person answers under: it must be the one that was issued
// to that very person, or one of that person's devices. Any other derived grant is held by
// a delegate, who cannot answer for the person. Grants never change once they are recorded.
func (s *Store) mayVote(ctx context.Context, v store.Vote) error {
	if v.Grant == uuid.Nil {
		return nil
	}
	g, err := s.Grant(ctx, v.Grant.String())
	until := g.Expires
	if err == nil && g.Device != "" && g.Holder == v.By {
		g, err = s.Grant(ctx, g.Parent.String())
	}
	if err != nil && !errors.Is(err, fault.GrantUnknown) {
		return err
	}
	if err != nil || g.Parent != uuid.Nil || g.Holder != v.By || !strings.HasPrefix(v.By, "user:") {
		return fault.New(fault.Denied, "the grant %s cannot answer questions: only a grant that was issued to a person can", v.Grant).
			ForOperator("answer with remit approvals, or under a grant of remit grant issue --holder user:NAME that was not narrowed or handed on")
	}
	if until.IsZero() || g.Expires.Before(until) {
		until = g.Expires
	}
	if !until.IsZero() && !v.At.Before(until) {
		return fault.New(fault.GrantExpired, "the grant %s expired at %s", v.Grant, until.UTC().Format(time.RFC3339))
	}
	return nil
}

// tally returns a question's state after one more answer.
func tally(question sealedRow, votes []sealedRow, told []store.Vote, v store.Vote) (int64, error) {
	yes := int64(0)
	for _, old := range votes {
		if old.text(voteBy) == v.By {
			return 0, fault.New(fault.Conflict, "%q has answered this question already", v.By).WithHint("another person must answer it as well")
		}
		yes += old.int(voteYes)
	}
	switch {
	case question.int(questionAdmin) == 1 && !v.Admin && v.Yes:
		return 0, fault.New(fault.Denied, "a person with the right to approve admin calls must approve this").
			WithHint("the policy's admin_from_risk asks for it")
	case !v.Yes:
		return int64(store.Refused), nil
	case slices.ContainsFunc(told, func(o store.Vote) bool { return o.Yes && !bytes.Equal(o.Session, v.Session) }):
		return 0, fault.New(fault.Conflict, "the answers before are for something else: for one call, or for other calls of the session").
			WithHint("say yes to the same, or no")
	case yes+1 >= question.int(questionNeeds):
		return int64(store.Approved), nil
	}
	return int64(store.Waiting), nil
}

// votes returns the answers to an open question, which openQuestion has checked.
func (w *writer) votes(ctx context.Context, id uuid.UUID) ([]sealedRow, error) {
	var out []sealedRow
	seen := map[string]bool{}
	is := w.open.of[keyOf([]any{id[:]})]
	err := each(ctx, w.conn, selectVotes, func(rows *sql.Rows) error {
		row, mac, err := w.s.scanSealed(tableVotes, rows.Scan)
		by := row.text(voteBy)
		if want, there := is.votes[by]; err == nil && (seen[by] || !there || !hmac.Equal(want[:], mac)) {
			err = w.s.sealBroken(tableVotes)
		}
		seen[by] = true
		out = append(out, row)
		return err
	}, id[:])
	if err == nil && len(out) != len(is.votes) {
		err = w.s.sealBroken(tableVotes)
	}
	return out, asIO(err)
}
