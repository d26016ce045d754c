package agent_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/model"
)

// talker answers, and summarises when it is asked to.
func talker(t *testing.T, answer func(n int, r model.Request) model.Response) *brain {
	n := 0
	return &brain{answer: func(_ int, r model.Request) (model.Response, error) {
		if r.Aside {
			if len(r.Tools) > 0 || !strings.Contains(r.Messages[0].Text, "<transcript>") {
				t.Errorf("a summary is asked for with %d tools: %.100s", len(r.Tools), r.Messages[0].Text)
			}
			return model.Response{Message: model.Message{Text: fmt.Sprintf("the gist of %d bytes", len(r.Messages[0].Text))}, Stop: model.StopEnd, Usage: model.Usage{Input: 5, Output: 5}}, nil
		}
		n++
		return answer(n, r), nil
	}}
}

func TestALongConversationIsCompacted(t *testing.T) {
	p := &probe{id: "probe.look", run: func(_ context.Context, _ permit.Permit, args tool.Args) (tool.Result, error) {
		return tool.Result{Output: map[string]any{"n": args["n"], "text": strings.Repeat("words ", 100)}}, nil
	}}
	most := int64(0)
	b := talker(t, func(n int, r model.Request) model.Response {
		if err := r.Check(); err != nil {
			t.Errorf("request %d: %v", n, err)
		}
		most = max(most, model.EstimateRequest(r))
		if r.Answers() != n-1 {
			t.Errorf("request %d says that there were %d answers", n, r.Answers())
		}
		resp := wants(call("a", "look", `{"n":`+itoa(n)+`}`))
		if n%10 == 0 {
			resp = text(fmt.Sprint("turn ", n/10))
		}
		resp.Usage = model.Usage{}
		return resp
	})
	w := newWorld(t, b, p)
	w.limits.Context, w.limits.Steps = 2000, 100
	w.open()
	id := w.session()
	for i := 1; i <= 4; i++ {
		if turn := w.send(id, fmt.Sprint("do number ", i)); turn.Reply != fmt.Sprint("turn ", i) {
			t.Fatalf("turn %d: %q", i, turn.Reply)
		}
		if i == 2 {
			w.again()
		}
	}
	summaries := 0
	for _, m := range w.messages(id) {
		if m.Kind == agent.Summary {
			summaries++
			if m.Covers == 0 || m.Covers >= m.Number || m.Usage == nil {
				t.Errorf("summary %+v", m)
			}
		}
	}
	if summaries < 3 || most > 3000 {
		t.Errorf("%d summaries; the longest request has %d tokens", summaries, most)
	}
	sound(t, w.messages(id), false)
	w.again()
	if made, err := w.replaySession(id); err != nil || made != len(w.messages(id)) {
		t.Errorf("replay: %d of %d messages, %v", made, len(w.messages(id)), err)
	}
}

func TestStepsAreCountedOverSummaries(t *testing.T) {
	b := talker(t, func(n int, _ model.Request) model.Response {
		r := wants(call("a", "look", `{"n":`+itoa(n)+`,"s":"`+strings.Repeat("x", 800)+`"}`))
		r.Usage = model.Usage{}
		return r
	})
	w := newWorld(t, b, &probe{id: "probe.look"})
	w.limits.Context, w.limits.Steps = 1000, 30
	w.open()
	id := w.session()
	if _, err := w.svc.Send(context.Background(), ann, id, "go", nil); fault.CodeOf(err) != fault.LimitReached {
		t.Fatalf("got %v", err)
	}
	n := 0
	for _, m := range w.messages(id) {
		if m.Role == model.Assistant {
			n++
		}
	}
	if n != 30 {
		t.Errorf("%d steps", n)
	}
}

func TestAConversationThatTheModelDoesNotTakeIsCompactedOnce(t *testing.T) {
	refused := 0
	b := &brain{}
	b.answer = func(_ int, r model.Request) (model.Response, error) {
		switch {
		case r.Aside:
			return text("short"), nil
		case len(r.Messages) > 4:
			refused++
			return model.Response{}, fault.New(fault.ModelContext, "too long")
		}
		return text("fine"), nil
	}
	w := newWorld(t, b).open()
	id := w.session()
	for range 3 {
		if turn := w.send(id, "hello"); turn.Reply != "fine" {
			t.Fatalf("got %q", turn.Reply)
		}
	}
	if refused != 1 {
		t.Errorf("refused %d times", refused)
	}
	b.answer = func(int, model.Request) (model.Response, error) {
		return model.Response{}, fault.New(fault.ModelContext, "too long")
	}
	if _, err := w.svc.Send(context.Background(), ann, id, "hello", nil); fault.CodeOf(err) != fault.ModelContext {
		t.Errorf("a model that takes nothing: %v", err)
	}
}
