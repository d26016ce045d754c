package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/tools/model"
)

// BenchmarkStep is what a step costs besides the model and the tool: a call of the
// model, one tool call, and both their messages, all recorded.
func BenchmarkStep(b *testing.B) {
	for name, volatile := range map[string]bool{"survives a loss of power": false, "survives the process": true} {
		b.Run(name, func(b *testing.B) {
			var at []time.Time
			brain := &brain{answer: func(n int, _ model.Request) (model.Response, error) {
				at = append(at, time.Now())
				if n%100 == 99 {
					return text("done"), nil
				}
				return wants(call("a", "look", `{"n":`+itoa(n)+`}`)), nil
			}}
			w := newWorld(b, brain, &probe{id: "probe.look"})
			w.limits.Steps, w.volatile = 1000, volatile
			w.open()
			b.ResetTimer()
			for len(at) < b.N {
				w.send(w.session(), "go")
			}
			b.StopTimer()
			var steps []time.Duration
			for i := 1; i < len(at); i++ {
				if i%100 != 0 {
					steps = append(steps, at[i].Sub(at[i-1]))
				}
			}
			if len(steps) > 0 {
				slices.Sort(steps)
				b.ReportMetric(float64(steps[len(steps)/2].Microseconds()), "µs/step-p50")
				b.ReportMetric(float64(steps[len(steps)*99/100].Microseconds()), "µs/step-p99")
			}
		})
	}
}

// BenchmarkResume is how long it takes until the model is asked in a session of
// 10,000 messages whose process has ended.
func BenchmarkResume(b *testing.B) {
	for name, every := range map[string]int{"never compacted": 0, "compacted": 400} {
		b.Run(name, func(b *testing.B) {
			asked := time.Time{}
			w := newWorld(b, &brain{answer: func(int, model.Request) (model.Response, error) { asked = time.Now(); return text("yes"), nil }})
			w.limits.Context = 1 << 30
			w.open()
			id := w.session()
			fill(b, w, id, 10_000, every)
			var took []time.Duration
			for b.Loop() {
				b.StopTimer()
				w.again()
				b.StartTimer()
				began := time.Now()
				w.send(id, "still there?")
				took = append(took, asked.Sub(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms/resume-p50")
		})
	}
}

// fill writes a conversation, with a summary every so many messages.
func fill(b *testing.B, w *world, id string, n, every int) {
	b.Helper()
	var ms []store.MessageRecord
	for i := 1; i <= n; i++ {
		m := map[string]any{"role": "user", "text": fmt.Sprint("message ", i, " ", strings.Repeat("word ", 20))}
		if i%2 == 0 {
			m["role"] = "assistant"
		}
		if every > 0 && i%every == 0 {
			m = map[string]any{"kind": agent.Summary, "role": "user", "text": "what was said", "covers": i - 20}
		}
		doc, err := json.Marshal(m)
		if err != nil {
			b.Fatal(err)
		}
		ms = append(ms, store.MessageRecord{Number: i, Doc: doc, At: time.Now()})
	}
	for i := 0; i < n; i += 1000 {
		if _, err := w.st.AddMessages(context.Background(), uuid.MustParse(id), i, ms[i:i+1000]...); err != nil {
			b.Fatal(err)
		}
	}
}
