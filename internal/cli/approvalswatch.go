package cli

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/approvals"
)

func (s *session) approvalsWatchCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "watch",
		Short: "Show waiting approvals as they come, and answer them",
		Long: `Fills the terminal with the waiting approval that is selected, in full, below a
list of all. n refuses it, y allows this call, s allows matching calls of the
same run where the policy permits that. A key counts once the question has been
shown for half a second. Other people can answer at the same time: the first
refusal counts, and everyone sees the result.
`,
		Example: "  remit approvals watch",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if s.delegated() {
				return errDelegatedAnswer
			}
			a, err := s.open()
			if err != nil {
				return err
			}
			if _, err := a.Approvals.List(cmd.Context(), store.QuestionFilter{State: store.Waiting, Limit: 1}); err != nil {
				return err
			}
			f, err := s.openFullscreen("approvals watch", "remit approvals lists them; remit approvals approve ID and deny ID answer them")
			if err != nil {
				return err
			}
			defer f.close()
			return s.watchApprovals(cmd.Context(), f, a.Approvals)
		},
	}
}

// How often the ledger is read and the clock moves.
const watchEvery = 250 * time.Millisecond

// maxWatched is how many waiting questions are listed at once.
const maxWatched = 200

// watchApprovals shows questions and takes answers until the person leaves.
func (s *session) watchApprovals(ctx context.Context, f *fullscreen, of *approvals.Approvals) error {
	v := &approvalsView{}
	for {
		list, err := of.List(ctx, store.QuestionFilter{State: store.Waiting, Limit: maxWatched})
		if err != nil {
			return err
		}
		list = slices.DeleteFunc(list, func(q store.Approval) bool { return q.State != store.Waiting })
		slices.Reverse(list) // the oldest first
		if v.update(list) {
			s.ring()
		}
		if err := lookUpHistory(ctx, v, of); err != nil {
			return err
		}
		w, h := f.size()
		f.draw(v.frame(w, h, time.Now()))
		if w >= minColumns && h >= minRows {
			v.shown(time.Now())
		}
		keys, err := f.keys(ctx, watchEvery)
		if err != nil {
			return err
		}
		for _, k := range keys {
			a, leave := v.press(k, time.Now())
			if leave {
				return nil
			}
			if a != nil {
				v.answered(s.answerWatched(ctx, of, *a))
				break // the other keys were typed for this question, not for the next
			}
		}
	}
}

// lookUpHistory looks up the history of the selected question, once.
func lookUpHistory(ctx context.Context, v *approvalsView, of *approvals.Approvals) error {
	if v.selected == "" || v.loadedHistory() != nil {
		return nil
	}
	h, err := of.History(ctx, v.selected, approvals.Everything)
	if err == nil {
		v.history, v.historyOf = h, v.selected
	}
	return err
}

// watchedAnswer is an answer that a person typed.
type watchedAnswer struct {
	id           string
	yes, session bool
	reason       string
}

// answerWatched records an answer and returns what became of the question.
func (s *session) answerWatched(ctx context.Context, of *approvals.Approvals, a watchedAnswer) string {
	q, err := of.Answer(ctx, a.id, approvals.Here(a.yes, a.session, a.reason))
	switch {
	case errors.Is(err, fault.ApprovalGone):
		return shortRunID(a.id) + " was answered or expired meanwhile: " + bare(err)
	case err != nil:
		return shortRunID(a.id) + ": " + bare(err)
	}
	return shortRunID(a.id) + ": " + answerText(q)
}
