package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/redact"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/report"
	"github.com/remitrun/remit/internal/record/store"
)

// Report loads what a report of a run is made of, its secrets still in it: the
// report takes them out.
func (a *App) Report(ctx context.Context, id string) (report.Data, error) {
	st, err := a.Reader(ctx)
	if err != nil {
		return report.Data{}, err
	}
	run, err := st.Run(ctx, id)
	if err != nil {
		return report.Data{}, err
	}
	d := report.Data{Generated: time.Now().UTC(), Remit: a.Home.Version, Run: run, Redactor: a.Home.Redactor()}
	if d.Parts, err = load(ctx, st, run.Parts, ledger.PartPlan, ledger.PartPolicy, ledger.PartInputs, ledger.PartPhase, ledger.PartFrozen); err != nil {
		return d, err
	}
	for c, err := range st.Calls(ctx, run.Seq) {
		if err != nil {
			return d, err
		}
		call, err := loadCall(ctx, st, c)
		if err != nil {
			return d, err
		}
		d.Calls = append(d.Calls, call)
	}
	return d, nil
}

// Result is Report for who gets the results themselves: nothing is taken out.
func (a *App) Result(ctx context.Context, id string) (report.Data, error) {
	d, err := a.Report(ctx, id)
	d.Redactor = redact.None()
	return d, err
}

// loadCall loads those parts of a call that are small enough to print.
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

// WriteRun prints a run as one JSON object, step by step, so that a long run
// is never held whole. Values are as they were: this is a result, not a report.
func (a *App) WriteRun(ctx context.Context, w io.Writer, id string) error {
	d, steps, err := a.Steps(ctx, id)
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

// Steps gives a run and its calls one by one, so that a long run is never held
// whole. Values are as they were, those over [report.MaxPart] by size.
func (a *App) Steps(ctx context.Context, id string) (report.Data, iter.Seq2[report.Step, error], error) {
	st, err := a.Reader(ctx)
	if err != nil {
		return report.Data{}, nil, err
	}
	run, err := st.Run(ctx, id)
	if err != nil {
		return report.Data{}, nil, err
	}
	d := report.Data{Run: run, Redactor: redact.None()}
	if d.Parts, err = load(ctx, st, run.Parts, ledger.PartPolicy); err != nil {
		return d, nil, err
	}
	return d, func(yield func(report.Step, error) bool) {
		for c, err := range st.Calls(ctx, run.Seq) {
			var call report.Call
			if err == nil {
				call, err = loadCall(ctx, st, c)
			}
			if err != nil {
				yield(report.Step{}, err)
				return
			}
			one := d
			one.Calls = []report.Call{call}
			if !yield(report.Build(one).Steps[0], nil) {
				return
			}
		}
	}, nil
}

// Output gives the whole recorded output of one call as JSON, nil if it had none.
func (a *App) Output(ctx context.Context, id string, index int) ([]byte, error) {
	st, err := a.Reader(ctx)
	if err != nil {
		return nil, err
	}
	run, err := st.Run(ctx, id)
	if err != nil {
		return nil, err
	}
	for c, err := range st.Calls(ctx, run.Seq) {
		if err != nil {
			return nil, err
		}
		if p, ok := c.Parts[ledger.PartOutput]; c.Index == index && ok {
			return st.Load(ctx, p)
		} else if c.Index == index {
			return nil, nil
		}
	}
	return nil, fault.New(fault.Usage, "run %s has no call %d", run.ID, index)
}

// runHead is the object without its steps.
func runHead(d report.Data) ([]byte, error) {
	r := d.Run
	took := 0.0
	if !r.Ended.IsZero() {
		took = float64(r.Ended.Sub(r.Started).Microseconds()) / 1000
	}
	names := []string{}
	for _, p := range report.Build(d).Policy {
		names = append(names, p.Name)
	}
	policy := ""
	if len(names) > 0 {
		policy = names[0]
	}
	replayOf := ""
	if r.Mode == ledger.Replay {
		replayOf = r.ReplayOf.String()
	}
	return indented(struct {
		RunID    string    `json:"run_id"`
		Status   string    `json:"status"`
		Mode     string    `json:"mode"`
		ReplayOf string    `json:"replay_of,omitempty"`
		Plan     string    `json:"plan"`
		Digest   string    `json:"plan_digest"`
		Policy   string    `json:"policy"`
		Policies []string  `json:"policies"`
		Counts   counts    `json:"counts"`
		Started  time.Time `json:"started_at"`
		Duration float64   `json:"duration_ms"`
	}{
		r.ID.String(), r.Status, r.Mode.String(), replayOf, r.Name, r.Plan.String(), policy, names,
		counts{r.Total, r.Completed, r.Denied, r.Failed, r.Refused}, r.Started.UTC(), took,
	})
}

type counts struct {
	Total     int `json:"total"`
	Completed int `json:"completed"`
	Denied    int `json:"denied"`
	Failed    int `json:"failed"`
	Refused   int `json:"refused"` // what calls were refused while they ran; no calls
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
