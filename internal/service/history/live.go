package history

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/report"
	"github.com/remitrun/remit/internal/record/store"
)

// Live is what goes on at a moment: the runs that have not ended, newest first, and the questions
// that wait. Its size, and the cost of making it, do not grow with the ledger.
type Live struct {
	At        time.Time        `json:"at"`
	Runs      []LiveRun        `json:"runs"`
	MoreRuns  bool             `json:"more_runs,omitempty"` // there are more than Runs has
	Waiting   []store.Approval `json:"waiting"`
	MoreWaits bool             `json:"more_waiting,omitempty"`
}

// LiveRun is a run that has not ended. Its Total is the number of calls that it has begun.
type LiveRun struct {
	ledger.Run

	Calls   []LiveCall `json:"calls"`   // under way, as far as they are recorded before they end
	Budgets []Budget   `json:"budgets"` // of its grant and the grants above
}

// LiveCall is a call that has not ended.
type LiveCall struct {
	Index int       `json:"call"`
	Step  string    `json:"step,omitempty"`
	Tool  tool.ID   `json:"tool"`
	About string    `json:"about,omitempty"` // its most telling argument, without secrets
	Since time.Time `json:"since"`
}

// Budget is the state of one limit of a grant.
type Budget struct {
	Grant  uuid.UUID `json:"grant_id" format:"uuid"`
	What   string    `json:"what"`
	Limit  int64     `json:"limit"`
	Spent  int64     `json:"spent"`
	Leased int64     `json:"leased"` // by runs, and not spent so far
}

// The bounds of a Live.
const (
	maxLiveRuns    = 50
	maxLiveWaits   = 50
	maxLiveCalls   = 8  // of one run: its newest ones are looked at
	maxLiveParents = 16 // of one grant
)

// Live reads what goes on now.
func (h *History) Live(ctx context.Context) (Live, error) {
	st, err := h.Reader(ctx)
	if err != nil {
		return Live{}, err
	}
	l := Live{At: time.Now().UTC(), Runs: []LiveRun{}, Waiting: []store.Approval{}}
	runs, err := st.Runs(ctx, store.RunFilter{Status: ledger.Running, Limit: maxLiveRuns + 1})
	if err != nil {
		return l, err
	}
	l.MoreRuns = len(runs) > maxLiveRuns
	spent := map[uuid.UUID][]Budget{}
	for _, r := range runs[:min(len(runs), maxLiveRuns)] {
		one := LiveRun{Run: r}
		if one.Total, one.Calls, err = liveCalls(ctx, st, r.Seq); err != nil {
			return l, err
		}
		if one.Budgets, err = budgetsOf(ctx, st, r.Grant, spent); err != nil {
			return l, err
		}
		for i := range one.Calls {
			if one.Calls[i].About, err = h.about(ctx, r, one.Calls[i].Index); err != nil {
				return l, err
			}
		}
		l.Runs = append(l.Runs, one)
	}
	return l, l.addWaiting(ctx, st)
}

// LastAbout returns the most telling argument of a run's last call, without secrets; "": there is none.
func (h *History) LastAbout(ctx context.Context, r ledger.Run) (string, error) {
	st, err := h.Reader(ctx)
	if err != nil {
		return "", err
	}
	last, err := st.LastCall(ctx, r.Seq)
	if err != nil || last == 0 {
		return "", err
	}
	return h.about(ctx, r, last)
}

// about returns the most telling argument of a call. A call that is not recorded yet has none.
func (h *History) about(ctx context.Context, r ledger.Run, index int) (string, error) {
	step, err := h.Step(ctx, r.ID.String(), index, true)
	if errors.Is(err, fault.Usage) {
		return "", nil
	}
	return report.About(step.Args.JSON), err
}

func (l *Live) addWaiting(ctx context.Context, st store.Backend) error {
	list, err := st.Questions(ctx, store.QuestionFilter{State: store.Waiting, Sealed: true, Limit: maxLiveWaits + 1})
	if err != nil {
		return err
	}
	l.MoreWaits = len(list) > maxLiveWaits
	for _, q := range list[:min(len(list), maxLiveWaits)] {
		if q.StateAt(l.At) != store.Waiting {
			continue
		}
		if q.Votes == nil {
			q.Votes = []store.Vote{}
		}
		l.Waiting = append(l.Waiting, q)
	}
	return nil
}

// liveCalls returns how many calls a run has begun, and the newest calls that have not ended.
func liveCalls(ctx context.Context, st store.Store, run ledger.Seq) (last int, calls []LiveCall, err error) {
	calls = []LiveCall{}
	if last, err = st.LastCall(ctx, run); err != nil {
		return last, calls, err
	}
	for i := max(1, last-maxLiveCalls+1); i <= last; i++ {
		c, err := st.Call(ctx, run, i)
		if errors.Is(err, fault.RunUnknown) {
			continue // a call without side effects is recorded when it ends
		}
		if err != nil {
			return last, calls, err
		}
		if c.Status == tool.Pending {
			calls = append(calls, LiveCall{Index: c.Index, Step: c.Step, Tool: c.Tool, Since: c.Created})
		}
	}
	return last, calls, nil
}

// budgetsOf returns the limits of a grant and of those above it. known has the budgets that were
// read already.
func budgetsOf(ctx context.Context, st store.Backend, id uuid.UUID, known map[uuid.UUID][]Budget) ([]Budget, error) {
	if list, ok := known[id]; ok {
		return list, nil
	}
	list, at := []Budget{}, id
	for range maxLiveParents {
		if at == uuid.Nil {
			break
		}
		meters, err := st.Spent(ctx, at)
		if err != nil {
			return nil, err
		}
		for _, m := range meters {
			list = append(list, Budget{Grant: at, What: m.ID.What, Limit: m.Limit, Spent: m.Spent, Leased: m.Leased})
		}
		g, err := st.Grant(ctx, at.String())
		if errors.Is(err, fault.GrantUnknown) {
			break // a block that a holder appended
		}
		if err != nil {
			return nil, err
		}
		at = g.Parent
	}
	known[id] = list
	return list, nil
}
