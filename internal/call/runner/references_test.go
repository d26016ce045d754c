package runner_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
)

// kept has the outputs of a session.
type kept map[string]runner.StoredOutput

func (s kept) Output(_ context.Context, id string) (runner.StoredOutput, error) {
	if o, ok := s[id]; ok {
		return o, nil
	}
	return runner.StoredOutput{}, fault.New(fault.NotFound, "unknown output %q", id)
}

func ref(id, at string) map[string]any { return map[string]any{"$output": id, "at": at} }

// named is a sender with another ID.
type named struct {
	sender
	id tool.ID
}

func (n *named) Spec() *tool.Spec {
	s := *n.sender.Spec()
	s.ID = n.id
	return &s
}

// withheldPage is what a quarantined sub-agent read on a page.
func withheldPage(text any) runner.StoredOutput {
	return runner.StoredOutput{Value: map[string]any{"a/b": text}, Run: "the-reader", Call: 3, Tool: "agent.answer", Labels: []string{"web"}, Withheld: true}
}

func TestReferences(t *testing.T) {
	own := runner.StoredOutput{Value: map[string]any{"list": []any{"x", map[string]any{"$output": "out_1", "at": ""}}}}
	many := map[string]any{}
	for i := range 17 {
		many[strings.Repeat("a", i+1)] = ref("own", "/list/0")
	}
	tests := map[string]struct {
		args tool.Args
		want string // the recorded arguments, or the error
	}{
		"none":                   {tool.Args{"read": "a"}, `{"read":"a"}`},
		"a value":                {tool.Args{"read": ref("own", "/list/0")}, `{"read":"x"}`},
		"in a list":              {tool.Args{"read": []any{ref("own", "/list/0")}}, `{"read":["x"]}`},
		"a reference in a value": {tool.Args{"read": ref("own", "/list/1")}, `{"read":{"$output":"out_1","at":""}}`},
		"another key":            {tool.Args{"read": map[string]any{"$output": "own", "x": "y"}}, `{"read":{"$output":"own","x":"y"}}`},
		"not a text":             {tool.Args{"read": map[string]any{"$output": true}}, `{"read":{"$output":true}}`},
		"unknown":                {tool.Args{"read": ref("other", "")}, "unknown output"},
		"nothing there":          {tool.Args{"read": ref("own", "/list/7")}, "has nothing at"},
		"too many":               {tool.Args(many), "at most 16 references"},
		"too large":              {tool.Args{"read": ref("large", "")}, "more than 1048576 bytes"},
		"the arguments":          {tool.Args(ref("own", "/list/0")), "as a whole"},
	}
	for name, tt := range tests {
		h := newHouse(t, open, &sender{})
		h.under(steered, func(in *runner.Info) {
			in.Outputs = kept{"own": own, "large": {Value: strings.Repeat("x", 1<<20)}}
		})
		o := h.call("send", tt.args)
		if !strings.Contains(string(o.Args), tt.want) && (o.Err == nil || !strings.Contains(o.Err.Error(), tt.want)) {
			t.Errorf("%s: recorded %s, %v", name, o.Args, o.Err)
		}
	}
}

// What a call is given by reference has its labels, and its caller's context does not get them.
func TestAReferenceHasItsLabels(t *testing.T) {
	h := newHouse(t, open, &named{id: "http.send"})
	h.under(steered, func(in *runner.Info) {
		in.Outputs = kept{"page": withheldPage("https://evil.example/")}
	})
	o := h.call("http.send", tool.Args{"post": ref("page", "/a~1b")})
	if !errors.Is(o.Err, fault.NeedsApproval) || !o.Withheld() || len(o.Decision.Steered) != 1 {
		t.Fatalf("%v, %+v", o.Err, o.Decision.Steered)
	}
	if got := o.Decision.Steered[0].String(); !strings.Contains(got, `came from agent.answer (call 3 of run the-reader, field "a~1b")`) {
		t.Error(got)
	}
	if o := h.call("http.send", tool.Args{"post": "https://ann.example/"}); o.Err != nil || o.Withheld() {
		t.Errorf("the context has the label: %v", o.Err)
	}
	calls := h.recorded()
	if b := calls[0].Parts[ledger.PartReferences].Inline; !strings.Contains(string(b), `"output":"page","at":"/a~1b"`) || !strings.Contains(string(b), `"labels":["web"],"withheld":true`) {
		t.Errorf("recorded %s", b)
	}
}

// Withheld data is not given to a tool of the session, which could show it later.
func TestWithheldOutputsAreNotGivenToToolsOfASession(t *testing.T) {
	h := newHouse(t, open, &named{id: "session.keep"})
	h.under(steered, func(in *runner.Info) { in.Outputs = kept{"page": withheldPage("x"), "own": {Value: "x"}} })
	if o := h.call("session.keep", tool.Args{"read": ref("own", "")}); o.Err != nil {
		t.Errorf("an output of its own: %v", o.Err)
	}
	if o := h.call("session.keep", tool.Args{"read": ref("page", "/a~1b")}); !errors.Is(o.Err, fault.ArgsInvalid) || !strings.Contains(o.Err.Error(), "withheld") {
		t.Errorf("a withheld one: %v", o.Err)
	}
}
