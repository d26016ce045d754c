package cli

import (
	"context"
	"errors"
	"slices"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/doors/hook"
	"github.com/remitrun/remit/internal/service/runs"
)

// maskKeys masks the keys in a reported output, before anything else that can fail. Until it has ended, an answer withholds
// the output. The output of a command that [hookDoor.sandboxed] replaced was masked by remit sh.
func (h *hookDoor) maskKeys(e *hook.Event) *hook.Masked {
	if e.Phase != hook.After {
		return nil
	}
	h.reported.Store(true)
	if h.confine && slices.ContainsFunc(e.Calls, func(c hook.Call) bool { return c.Tool == "shell.run" }) {
		return nil
	}
	h.masked.Store(e.Withhold("the search for keys took too long"))
	m := e.MaskKeys()
	h.masked.Store(m)
	return m
}

// maskAnyway replaces an error by the answer that masks the keys of a report: the agent has carried the call out, and shows
// its model the output after an error.
func (h *hookDoor) maskAnyway(answer []byte, err error) ([]byte, error) {
	m := h.masked.Load()
	if err == nil || m == nil {
		return answer, err
	}
	answer, merr := m.Answer(show(fault.ForModel(err)))
	if merr != nil {
		return nil, errors.Join(err, merr)
	}
	h.complain(err)
	return answer, nil
}

// after records the agent's report, and answers it if its output has keys that the policy does not show.
func (h *hookDoor) after(ctx context.Context, a *app.App, q runs.ClientRequest, e *hook.Event) ([]byte, error) {
	m := h.masked.Load()
	if m != nil {
		shows, err := a.Runs.ShowsKeys(ctx, q, clientCalls(e))
		if err != nil {
			return nil, err
		}
		if shows {
			m = nil
			h.masked.Store(nil)
		}
	}
	if !e.Internal {
		if err := h.report(ctx, a, q, e); err != nil {
			return nil, err
		}
	}
	if m == nil {
		return e.Answer(hook.Verdict{})
	}
	return m.Answer("")
}

// report records the agent's word on its call. A call that is not known was refused.
func (h *hookDoor) report(ctx context.Context, a *app.App, q runs.ClientRequest, e *hook.Event) error {
	c, ctx, err := a.Runs.Client(ctx, q, false)
	if err != nil {
		return known(err)
	}
	_, err = c.Report(ctx, runs.ClientReport{ID: e.ID, Calls: clientCalls(e), Failed: e.Failed, Output: e.Output})
	return err
}

// end records the end of the agent's session.
func (h *hookDoor) end(ctx context.Context, a *app.App, q runs.ClientRequest) error {
	c, ctx, err := a.Runs.Client(ctx, q, false)
	a.EndSession(q.Session)
	if err != nil {
		return known(err)
	}
	return c.End(ctx)
}

// known drops the error that says that the session has no run.
func known(err error) error {
	if errors.Is(err, fault.RunUnknown) {
		return nil
	}
	return err
}
