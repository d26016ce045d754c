package runner

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// masks reports whether there are secrets to mask.
func (f *flight) masks() bool { return f.r.Mask != nil && f.r.Mask.Active() }

// refuseSecrets refuses a call whose arguments contain a secret: arguments are recorded,
// and secrets are added to requests by the handles.
func (f *flight) refuseSecrets() error {
	if !f.masks() {
		return nil
	}
	m, c := f.r.Mask, &f.c
	condition, err := json.Marshal(c.Commitment)
	if err != nil {
		return fault.Wrap(fault.ArgsInvalid, err, "the commitment cannot be written as JSON")
	}
	if !m.Holds(string(f.args)) && !m.Holds(string(c.Tool)) && !m.Holds(c.Step) && !m.Holds(c.Name) && !m.Holds(string(condition)) {
		return nil
	}
	clean, err := f.maskJSON(f.args)
	if err != nil {
		clean = nil
	}
	f.args, c.Args, c.Commitment = clean, nil, nil // observers must not see them
	c.Tool, c.Step, c.Name = tool.ID(m.Text(string(c.Tool))), m.Text(c.Step), m.Text(c.Name)
	return fault.New(fault.ArgsInvalid, "the call contains the value of a secret").
		WithHint("leave the value out: if the policy allows it, Remit adds the secret itself")
}

// maskJSON masks the secrets in canonical JSON.
func (f *flight) maskJSON(text []byte) ([]byte, error) {
	v, err := canon.Decode(text)
	if err != nil {
		return nil, err
	}
	out, err := canon.Marshal(f.maskValue(v))
	if err == nil && f.r.Mask.Holds(string(out)) {
		err = errors.New("a secret cannot be masked in this spelling")
	}
	return out, err
}

// maskValue masks the secrets in a decoded value.
func (f *flight) maskValue(v any) any {
	switch v := v.(type) {
	case string:
		return f.r.Mask.Text(v)
	case json.Number:
		if f.r.Mask.Holds(string(v)) {
			return f.r.Mask.Text(string(v))
		}
	case []any:
		for i := range v {
			v[i] = f.maskValue(v[i])
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[f.r.Mask.Text(k)] = f.maskValue(e)
		}
		return out
	}
	return v
}

// maskProgress returns a context in which the secrets of progress messages are masked.
func (f *flight) maskProgress(ctx context.Context) context.Context {
	if f.r.Mask == nil || !tool.WantsProgress(ctx) {
		return ctx
	}
	return tool.WithProgress(ctx, func(p tool.Progress) {
		p.Message = f.r.Mask.Text(p.Message)
		tool.TellProgress(ctx, p)
	})
}

// maskOutcome masks the secrets in an outcome, except in its output.
func (f *flight) maskOutcome(o *Outcome) {
	if !f.masks() {
		return
	}
	text := f.r.Mask.Text
	o.Err = f.maskError(o.Err)
	for i := range o.Happened {
		h := &o.Happened[i]
		h.On, h.Address, h.Rule, h.Purpose = text(h.On), text(h.Address), text(h.Rule), text(h.Purpose)
	}
	for i := range o.Attempts.Refused {
		r := &o.Attempts.Refused[i]
		r.Action, r.Rule, r.Reason = text(r.Action), text(r.Rule), text(r.Reason)
	}
}

// maskOutput masks the secrets in an output; out is the output as JSON.
func (f *flight) maskOutput(o *Outcome, out []byte) ([]byte, error) {
	if !f.masks() || !f.r.Mask.Holds(string(out)) {
		return out, nil
	}
	clean, err := f.maskJSON(out)
	if err != nil {
		return nil, fault.New(fault.OutputInvalid, "%s returned a secret that cannot be masked in its output", f.c.Tool)
	}
	v, err := canon.Decode(clean)
	if err != nil {
		return nil, err
	}
	o.Output, _ = v.(map[string]any) // what an object decodes to
	return clean, nil
}

// maskError masks the secrets in an error's texts and keeps its codes.
func (f *flight) maskError(err error) error {
	var coded *fault.Error
	if err == nil || !errors.As(err, &coded) {
		return err
	}
	clean := *coded
	clean.Msg, clean.Hint, clean.Field = f.r.Mask.Text(coded.Msg), f.r.Mask.Text(coded.Hint), f.r.Mask.Text(coded.Field)
	if coded.Err != nil && f.r.Mask.Holds(coded.Err.Error()) {
		clean.Err = maskedError{f.r.Mask.Text(coded.Err.Error()), coded.Err}
	}
	same := clean.Msg == coded.Msg && clean.Hint == coded.Hint && clean.Field == coded.Field
	if same && !f.r.Mask.Holds(err.Error()) && (coded.Err == nil || !f.r.Mask.Holds(coded.Err.Error())) {
		return err
	}
	return &clean
}

// maskedError is an error with a masked text that matches the same targets.
type maskedError struct {
	text string
	of   error
}

func (q maskedError) Error() string { return q.text }

// Is makes errors.Is match the original error.
func (q maskedError) Is(target error) bool { return errors.Is(q.of, target) }
