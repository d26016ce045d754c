package sandbox

import (
	"context"
	"testing"

	"github.com/remitrun/remit/internal/base/tool"
)

// TestAConnectionThatEndsIsNoAnswer: a question that ended with its connection is asked again for the
// next one, and those that waited for it ask themselves. The number of questions stays bounded.
func TestAConnectionThatEndsIsNoAnswer(t *testing.T) {
	var a Answers[tool.Target]
	target := tool.Target{Host: "a.example.com"}
	ctx, hangUp := context.WithCancel(t.Context())
	asking, waited := make(chan bool), make(chan bool, 1)
	go a.Get(ctx, target, func() bool {
		asking <- true
		<-ctx.Done()
		return false
	})
	<-asking
	go func() { waited <- a.Get(t.Context(), target, func() bool { return true }) }()
	hangUp()
	if !<-waited {
		t.Error("the end of another connection is a no")
	}
	if !a.Get(t.Context(), target, func() bool { t.Error("asked again"); return false }) {
		t.Error("the answer was forgotten")
	}
	no := tool.Target{Host: "b.example.com"}
	if a.Get(t.Context(), no, func() bool { return false }) || a.Get(t.Context(), no, func() bool { return true }) {
		t.Error("a no was forgotten")
	}
	asked := 0
	for range 2 * maxQuestions {
		ctx, hangUp := context.WithCancel(t.Context())
		a.Get(ctx, tool.Target{Host: "c.example.com"}, func() bool { asked++; hangUp(); return false })
	}
	if asked >= maxQuestions {
		t.Errorf("%d connections that ended asked %d times", 2*maxQuestions, asked)
	}
}
