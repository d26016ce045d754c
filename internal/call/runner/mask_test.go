package runner_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/redact"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
)

const hush = "ghp_0123456789abcdef"

// masked gives a house that knows hush to be a secret, and whose tool does what
// the test says.
func masked(t *testing.T, run func(context.Context, permit.Permit, tool.Args) (tool.Result, error)) (*house, *probe) {
	t.Helper()
	p := &probe{id: "probe", run: run, effects: tool.EffectSet(tool.FSWrite), risk: tool.High}
	h := newHouse(t, open, p)
	m := &redact.Mask{}
	m.Add("github", hush)
	h.rn.Mask = m
	return h, p
}

// silent fails if a secret is anywhere in what was told or recorded.
func (h *house) silent(o runner.Outcome, notices []runner.Notice) {
	h.t.Helper()
	look := func(where, text string) {
		h.t.Helper()
		for _, s := range []string{hush, base64.StdEncoding.EncodeToString([]byte(hush))[:24], fmt.Sprintf("%x", hush)} {
			if strings.Contains(text, s) {
				h.t.Errorf("%s tells the secret: %.300s", where, text)
			}
		}
	}
	look("the outcome", fmt.Sprintf("%+v %s", o, o.Args))
	for err := o.Err; err != nil; err = errors.Unwrap(err) {
		look("the error", err.Error())
	}
	for _, n := range notices {
		if n.Outcome != nil {
			look("a notice", fmt.Sprintf("%+v %+v", n.Call, *n.Outcome))
		}
	}
	for _, c := range h.recorded() {
		look("the record", fmt.Sprintf("%+v", c))
		for name, part := range c.Parts {
			b, err := h.st.Load(context.Background(), part)
			if err != nil {
				h.t.Fatal(err)
			}
			look("the record's "+name, string(b))
		}
	}
}

func TestSecretsThatComeBackAreMasked(t *testing.T) {
	tests := map[string]struct {
		run    func(ctx context.Context, p permit.Permit, args tool.Args) (tool.Result, error)
		status tool.Status
		code   fault.Code
		want   string // in the output
	}{
		"in an output": {func(context.Context, permit.Permit, tool.Args) (tool.Result, error) {
			return tool.Result{Output: map[string]any{"a": []string{"x " + hush}, "h": map[string][]string{hush: {hush}}}}, nil
		}, tool.Completed, 0, `{"a":["x [secret:github]"],"h":{"[secret:github]":["[secret:github]"]}}`},
		"encoded": {func(context.Context, permit.Permit, tool.Args) (tool.Result, error) {
			return tool.Result{Output: map[string]any{"b": base64.StdEncoding.EncodeToString([]byte(hush)), "x": fmt.Sprintf("%x", hush)}}, nil
		}, tool.Completed, 0, `{"b":"[secret:github]","x":"[secret:github]"}`},
		"in what is encoded with other text": {func(context.Context, permit.Permit, tool.Args) (tool.Result, error) {
			return tool.Result{Output: map[string]any{"b": base64.StdEncoding.EncodeToString([]byte("a" + hush + "b"))}}, nil
		}, tool.Completed, 0, "[secret:github]"},
		"in an error": {func(context.Context, permit.Permit, tool.Args) (tool.Result, error) {
			return tool.Result{}, fault.Wrap(fault.NotFound, fmt.Errorf("401 for %s: %w", hush, fault.Conflict), "no %s", hush).WithHint("not %s", hush).In(hush)
		}, tool.Failed, fault.NotFound, ""},
		"in an error's cause": {func(context.Context, permit.Permit, tool.Args) (tool.Result, error) {
			return tool.Result{}, fault.Wrap(fault.NotFound, fmt.Errorf("401 for %s", hush), "not found")
		}, tool.Failed, fault.NotFound, ""},
		"in an error without a code": {func(context.Context, permit.Permit, tool.Args) (tool.Result, error) {
			return tool.Result{}, fmt.Errorf("401 for %s", hush)
		}, tool.Failed, fault.ToolFailed, ""},
		"in a crash": {func(context.Context, permit.Permit, tool.Args) (tool.Result, error) { panic(hush) }, tool.Failed, fault.ToolPanicked, ""},
		"in what happened": {func(_ context.Context, p permit.Permit, _ tool.Args) (tool.Result, error) {
			p.Note(tool.Happened{Effect: tool.NetworkHTTP, On: "GET https://h/" + hush})
			p.Refuse(tool.Refused{Action: "network GET https://h/" + hush, Rule: "default", Reason: "not " + hush})
			return tool.Result{Output: map[string]any{"ok": true}}, nil
		}, tool.Completed, 0, `{"ok":true}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h, _ := masked(t, tt.run)
			var notices []runner.Notice
			h.rn.Observe = func(n runner.Notice) { notices = append(notices, n) }
			o := h.call("probe", nil)
			if o.Status != tt.status || tt.code != 0 && !errors.Is(o.Err, tt.code) {
				t.Errorf("got %s, %v; want %s, %v", o.Status, o.Err, tt.status, tt.code)
			}
			if name == "in an error" && !errors.Is(o.Err, fault.Conflict) {
				t.Error("the error is no longer of its kind")
			}
			out, err := json.Marshal(o.Output)
			if err != nil || tt.want != "" && !bytes.Contains(out, []byte(tt.want)) {
				t.Errorf("output %s, want %s", out, tt.want)
			}
			if o.Output != nil && o.Size != len(out) {
				t.Errorf("size %d of %d bytes", o.Size, len(out))
			}
			h.silent(o, notices)
		})
	}
}

func TestCallsThatTellASecretAreRefused(t *testing.T) {
	for name, c := range map[string]runner.Call{
		"an argument":         {Tool: "probe", Args: tool.Args{"path": "x/" + hush}},
		"an argument's name":  {Tool: "probe", Args: tool.Args{hush: "x"}},
		"a number of the run": {Tool: "probe", Args: tool.Args{"path": "x"}, Step: hush, Name: "a " + hush},
		"the tool's name":     {Tool: tool.ID("x." + hush)},
	} {
		t.Run(name, func(t *testing.T) {
			h, p := masked(t, nil)
			o := h.rn.Execute(h.ctx, h.run, c)
			if o.Status != tool.Failed || !errors.Is(o.Err, fault.ArgsInvalid) || p.ran.Load() != 0 || o.Fatal != nil {
				t.Errorf("%s, %v, fatal %v, ran %d times", o.Status, o.Err, o.Fatal, p.ran.Load())
			}
			h.silent(o, nil)
		})
	}
}

func TestNothingIsMaskedWhereThereIsNoSecret(t *testing.T) {
	same := map[string]any{"a": "[secret:github]", "n": 5}
	h, _ := masked(t, func(context.Context, permit.Permit, tool.Args) (tool.Result, error) {
		return tool.Result{Output: same}, nil
	})
	if o := h.call("probe", tool.Args{"path": "a"}); o.Output["n"] != 5 || o.Err != nil {
		t.Errorf("%v, %v", o.Output, o.Err)
	}
}

func TestProgressTellsNoSecret(t *testing.T) {
	h, _ := masked(t, func(ctx context.Context, _ permit.Permit, _ tool.Args) (tool.Result, error) {
		tool.TellProgress(ctx, tool.Progress{Done: 1, Message: "with " + hush})
		return tool.Result{}, nil
	})
	var told []tool.Progress
	ctx := tool.WithProgress(h.ctx, func(p tool.Progress) { told = append(told, p) })
	if o := h.rn.Execute(ctx, h.run, runner.Call{Tool: "probe"}); o.Err != nil {
		t.Fatal(o.Err)
	}
	if len(told) != 1 || told[0].Message != "with [secret:github]" || told[0].Done != 1 {
		t.Errorf("%+v", told)
	}
}
