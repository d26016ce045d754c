package runner

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// masks reports whether there is anything to hide.
func (f *flight) masks() bool { return f.r.Mask != nil && f.r.Mask.Active() }

// keepsSecrets refuses a call that is asked for with a secret's value: calls are
// given secrets at the edge, and what is asked for is recorded.
func (f *flight) keepsSecrets() error {
	if !f.masks() {
		return nil
	}
	m, c := f.r.Mask, &f.c
	if !m.Holds(string(f.args)) && !m.Holds(string(c.Tool)) && !m.Holds(c.Step) && !m.Holds(c.Name) {
		return nil
	}
	clean, err := f.unmarked(f.args)
	if err != nil {
		clean = nil
	}
	f.args, c.Args = clean, nil // nobody who watches sees them
	c.Tool, c.Step, c.Name = tool.ID(m.Text(string(c.Tool))), m.Text(c.Step), m.Text(c.Name)
	return fault.New(fault.ArgsInvalid, "the call contains the value of a secret").
		WithHint("leave the value out: if the policy allows it, Remit adds the secret itself")
}

// unmarked gives canonical JSON with markers in the place of secrets.
func (f *flight) unmarked(text []byte) ([]byte, error) {
	v, err := canon.Decode(text)
	if err != nil {
		return nil, err
	}
	out, err := canon.Marshal(f.hideIn(v))
	if err == nil && f.r.Mask.Holds(string(out)) {
		err = errors.New("a secret cannot be masked in this spelling")
	}
	return out, err
}

// hideIn gives a decoded value with markers in the place of secrets.
func (f *flight) hideIn(v any) any {
	switch v := v.(type) {
	case string:
		return f.r.Mask.Text(v)
	case json.Number:
		if f.r.Mask.Holds(string(v)) {
			return f.r.Mask.Text(string(v))
		}
	case []any:
		for i := range v {
			v[i] = f.hideIn(v[i])
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[f.r.Mask.Text(k)] = f.hideIn(e)
		}
		return out
	}
	return v
}

// hushed gives a context in which what a tool tells of its progress holds no secret.
func (f *flight) hushed(ctx context.Context) context.Context {
	if f.r.Mask == nil || !tool.WantsProgress(ctx) {
		return ctx
	}
	return tool.WithProgress(ctx, func(p tool.Progress) {
		p.Message = f.r.Mask.Text(p.Message)
		tool.TellProgress(ctx, p)
	})
}

// hide takes secrets out of all that a call gave back but its output.
func (f *flight) hide(o *Outcome) {
	if !f.masks() {
		return
	}
	text := f.r.Mask.Text
	o.Err = f.hideError(o.Err)
	for i := range o.Happened {
		h := &o.Happened[i]
		h.On, h.Address, h.Rule = text(h.On), text(h.Address), text(h.Rule)
	}
	for i := range o.Attempts.Refused {
		r := &o.Attempts.Refused[i]
		r.Action, r.Rule, r.Reason = text(r.Action), text(r.Rule), text(r.Reason)
	}
}

// hideOutput takes secrets out of an output, which out has as JSON.
func (f *flight) hideOutput(o *Outcome, out []byte) ([]byte, error) {
	if !f.masks() || !f.r.Mask.Holds(string(out)) {
		return out, nil
	}
	clean, err := f.unmarked(out)
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

// hideError gives an error of the same codes whose texts hold no secret.
func (f *flight) hideError(err error) error {
	var coded *fault.Error
	if err == nil || !errors.As(err, &coded) {
		return err
	}
	clean := *coded
	clean.Msg, clean.Hint, clean.Field = f.r.Mask.Text(coded.Msg), f.r.Mask.Text(coded.Hint), f.r.Mask.Text(coded.Field)
	if coded.Err != nil && f.r.Mask.Holds(coded.Err.Error()) {
		clean.Err = quiet{f.r.Mask.Text(coded.Err.Error()), coded.Err}
	}
	same := clean.Msg == coded.Msg && clean.Hint == coded.Hint && clean.Field == coded.Field
	if same && !f.r.Mask.Holds(err.Error()) && (coded.Err == nil || !f.r.Mask.Holds(coded.Err.Error())) {
		return err
	}
	return &clean
}

// quiet is an error that is still of its kind, and says less.
type quiet struct {
	text string
	of   error
}

func (q quiet) Error() string { return q.text }

// Is makes errors.Is see what the error is of.
func (q quiet) Is(target error) bool { return errors.Is(q.of, target) }
