// Package history reads the record: reports and results of runs, their calls, and the audit of all
// events. It changes nothing. Start at [History.Report] and [History.Audit].
package history

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/redact"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/report"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/home"
)

// History reads the record of one ledger. Its fields are set before it is used.
type History struct {
	Home *home.Home
	// Reader opens the ledger to look at, also one that cannot be written.
	Reader func(context.Context) (store.Backend, error)

	feed feed
}

// VerifyAll recomputes the whole log.
func (h *History) VerifyAll(ctx context.Context) (store.VerifyReport, error) {
	st, err := h.Reader(ctx)
	if err != nil {
		return store.VerifyReport{}, err
	}
	return st.Verify(ctx, store.VerifyOptions{})
}

// Report loads the data of a run's report; its calls are loaded one by one while the report
// is made. Secrets are still in it; the report masks them.
func (h *History) Report(ctx context.Context, id string) (report.Data, error) {
	st, err := h.Reader(ctx)
	if err != nil {
		return report.Data{}, err
	}
	run, err := st.Run(ctx, id)
	if err != nil {
		return report.Data{}, err
	}
	d := report.Data{Generated: time.Now().UTC(), Remit: h.Home.Version, Run: run, Redactor: h.Home.Redactor()}
	if d.Parts, err = load(ctx, st, run.Parts, ledger.PartPlan, ledger.PartPolicy, ledger.PartInputs, ledger.PartPhase, ledger.PartFrozen); err != nil {
		return d, err
	}
	d.Calls = calls(ctx, st, run.Seq, 1)
	d.Output = func(c ledger.Call) ([]byte, error) { return output(ctx, st, c) }
	return d, nil
}

// VerifiedReport is Report with a verification of the run's record.
func (h *History) VerifiedReport(ctx context.Context, id string) (report.Data, error) {
	d, err := h.Report(ctx, id)
	if err != nil {
		return d, err
	}
	st, err := h.Reader(ctx)
	if err != nil {
		return d, err
	}
	v, err := st.Verify(ctx, store.VerifyOptions{Run: d.Run.ID})
	d.Record = &report.Record{OK: v.OK, Events: v.Events, Size: v.Size, Signed: v.Signed, Problems: len(v.Problems)}
	return d, err
}

// calls gives the calls of a run one by one, from the one with this index on, with their
// parts that are small enough to print.
func calls(ctx context.Context, st store.Store, run ledger.Seq, from int) iter.Seq2[report.Call, error] {
	return func(yield func(report.Call, error) bool) {
		for c, err := range st.CallsFrom(ctx, run, from) {
			var call report.Call
			if err == nil {
				call, err = loadCall(ctx, st, c)
			}
			if !yield(call, err) || err != nil {
				return
			}
		}
	}
}

// Step gives one call of a run by its index, as reports show it or, for the caller who gets
// the results themselves, without masking.
func (h *History) Step(ctx context.Context, id string, index int, masked bool) (report.Step, error) {
	mask := redact.None()
	if masked {
		mask = h.Home.Redactor()
	}
	d, steps, err := h.steps(ctx, id, index, mask)
	if err != nil {
		return report.Step{}, err
	}
	for s, err := range steps {
		if err != nil || s.Index == index {
			return s, err
		}
		break
	}
	return report.Step{}, fault.New(fault.Usage, "the run has no call %d", index).WithHint("remit show %s lists them", d.Run.ID)
}

// loadCall loads the parts of a call that are small enough to print.
func loadCall(ctx context.Context, st store.Store, c ledger.Call) (report.Call, error) {
	out := report.Call{Call: c}
	names := make([]string, 0, len(c.Parts))
	for name, p := range c.Parts {
		if p.Size() <= report.MaxPart || name == ledger.PartArgs && p.Size() <= out.MaxArgs() {
			names = append(names, name)
		}
	}
	var err error
	out.Loaded, err = load(ctx, st, c.Parts, names...)
	return out, err
}

func load(ctx context.Context, st store.Store, parts map[string]ledger.Part, names ...string) (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, name := range names {
		p, ok := parts[name]
		if !ok {
			continue
		}
		b, err := st.Load(ctx, p)
		if err != nil {
			return nil, err
		}
		out[name] = b
	}
	return out, nil
}

// WriteRun prints a run as one JSON object, step by step: a long run is never in memory
// as a whole. Values are not masked, since this is a result and not a report.
func (h *History) WriteRun(ctx context.Context, w io.Writer, id string) error {
	d, steps, err := h.Steps(ctx, id)
	if err != nil {
		return err
	}
	head, err := runHead(d)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, "%s,\n  \"steps\": [", bytes.TrimSuffix(head, []byte("\n}"))); err != nil {
		return err
	}
	sep := "\n"
	for step, err := range steps {
		if err != nil {
			return err
		}
		b, err := jsonLine(step)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%s    %s", sep, b); err != nil {
			return err
		}
		sep = ",\n"
	}
	_, err = io.WriteString(w, "\n  ]\n}\n")
	return err
}

// Steps gives a run and its calls one by one: a long run is never in memory as a whole.
// Values are not masked; of those over [report.MaxPart] only the size is given.
func (h *History) Steps(ctx context.Context, id string) (report.Data, iter.Seq2[report.Step, error], error) {
	return h.steps(ctx, id, 1, redact.None())
}

// MaskedSteps gives a run's calls one by one, as reports show them, beginning with the
// call of this index.
func (h *History) MaskedSteps(ctx context.Context, id string, from int) (iter.Seq2[report.Step, error], error) {
	_, steps, err := h.steps(ctx, id, from, h.Home.Redactor())
	return steps, err
}

// MaskedCalls is MaskedSteps as JSON, at most so many.
func (h *History) MaskedCalls(ctx context.Context, id string, from, limit int) ([]json.RawMessage, error) {
	steps, err := h.MaskedSteps(ctx, id, from)
	if err != nil {
		return nil, err
	}
	var out []json.RawMessage
	for step, err := range steps {
		if err != nil {
			return nil, err
		}
		b, err := json.Marshal(step)
		if err != nil {
			return nil, fault.Wrap(fault.Internal, err, "a call cannot be written")
		}
		if out = append(out, b); len(out) >= limit {
			break
		}
	}
	return out, nil
}

func (h *History) steps(ctx context.Context, id string, from int, mask *redact.Redactor) (report.Data, iter.Seq2[report.Step, error], error) {
	st, err := h.Reader(ctx)
	if err != nil {
		return report.Data{}, nil, err
	}
	run, err := st.Run(ctx, id)
	if err != nil {
		return report.Data{}, nil, err
	}
	d := report.Data{Run: run, Redactor: mask}
	if d.Parts, err = load(ctx, st, run.Parts, ledger.PartPolicy); err != nil {
		return d, nil, err
	}
	return d, func(yield func(report.Step, error) bool) {
		for call, err := range calls(ctx, st, run.Seq, from) {
			if err != nil {
				yield(report.Step{}, err)
				return
			}
			if !yield(report.MakeStep(d, call), nil) {
				return
			}
		}
	}, nil
}

// Output gives the whole recorded output of one call as JSON; nil: it has none.
func (h *History) Output(ctx context.Context, id string, index int) ([]byte, error) {
	st, c, err := h.call(ctx, id, index)
	if err != nil {
		return nil, err
	}
	return output(ctx, st, c)
}

// CallResult is the recorded result of a call.
type CallResult struct {
	Run    ledger.Run
	Call   ledger.Call
	Output []byte // JSON; nil: it has none
	Error  string // the message shown to the caller
}

// Result gives the result of a call of a run, by its index: fault.RunUnknown.
func (h *History) Result(ctx context.Context, id string, index int) (CallResult, error) {
	st, err := h.Reader(ctx)
	if err != nil {
		return CallResult{}, err
	}
	var r CallResult
	if r.Run, err = st.Run(ctx, id); err != nil {
		return r, err
	}
	if r.Call, err = st.Call(ctx, r.Run.Seq, index); err != nil {
		return r, err
	}
	if r.Output, err = output(ctx, st, r.Call); err != nil {
		return r, err
	}
	parts, err := load(ctx, st, r.Call.Parts, ledger.PartError)
	r.Error = string(parts[ledger.PartError])
	return r, err
}

// Picture is a PNG in the output of a call.
type Picture = report.Picture

// Pictures gives the pictures in the recorded output of one call.
func (h *History) Pictures(ctx context.Context, id string, index int) ([]Picture, error) {
	st, c, err := h.call(ctx, id, index)
	if err != nil || !report.HasPictures(c) {
		return nil, err
	}
	out, err := output(ctx, st, c)
	return report.Pictures(out), err
}

func (h *History) call(ctx context.Context, id string, index int) (store.Store, ledger.Call, error) {
	st, err := h.Reader(ctx)
	if err != nil {
		return nil, ledger.Call{}, err
	}
	run, err := st.Run(ctx, id)
	if err != nil {
		return nil, ledger.Call{}, err
	}
	c, err := st.Call(ctx, run.Seq, index)
	if errors.Is(err, fault.RunUnknown) {
		err = fault.New(fault.Usage, "run %s has no call %d", run.ID, index)
	}
	return st, c, err
}

func output(ctx context.Context, st store.Store, c ledger.Call) ([]byte, error) {
	p, ok := c.Parts[ledger.PartOutput]
	if !ok {
		return nil, nil
	}
	return st.Load(ctx, p)
}

// runHead encodes the object that WriteRun prints, without its steps.
func runHead(d report.Data) ([]byte, error) {
	r := d.Run
	took := 0.0
	if !r.Ended.IsZero() {
		took = float64(r.Ended.Sub(r.Started).Microseconds()) / 1000
	}
	names := []string{}
	for _, p := range report.Head(d).Policy {
		names = append(names, p.Name)
	}
	policy := ""
	if len(names) > 0 {
		policy = names[0]
	}
	return indented(struct {
		ledger.Run
		Plan     string   `json:"plan"` // Name and the counts once more, where programs have always read them
		Digest   string   `json:"plan_digest"`
		Policy   string   `json:"policy"`
		Policies []string `json:"policies"`
		Counts   counts   `json:"counts"`
		Duration float64  `json:"duration_ms"`
	}{r, r.Name, r.Plan.String(), policy, names, counts{r.Total, r.Completed, r.Denied, r.Failed, r.Refused}, took})
}

type counts struct {
	Total     int `json:"total"`
	Completed int `json:"completed"`
	Denied    int `json:"denied"`
	Failed    int `json:"failed"`
	Refused   int `json:"refused"` // refused actions of calls that ran; not a number of calls
}

func indented(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

func jsonLine(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
