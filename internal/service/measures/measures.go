// Package measures provides metrics and traces of the calls in a service's runs. Start at [Begin].
package measures

import (
	"encoding/json"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/telemetry"
)

// Runs measures the calls of a service's runs.
type Runs struct {
	Metrics *telemetry.Metrics
	Tracer  *telemetry.Tracer // nil: no traces
	Turns   *telemetry.Turns

	calls     telemetry.Counter
	decisions telemetry.Counter
	tokens    telemetry.Counter
	times     telemetry.Histogram
}

// Begin begins to measure runs, and to trace them where the environment, which lookup reads, asks
// for it. version is that of this program.
func Begin(lookup func(string) (string, bool), version string) (*Runs, error) {
	tracing, on, err := telemetry.ConfigFrom(lookup)
	if err != nil {
		return nil, fault.New(fault.Usage, "%v", err)
	}
	w := &Runs{Metrics: telemetry.New(), Turns: &telemetry.Turns{}}
	if on {
		tracing.Version = version
		w.Tracer = telemetry.NewTracer(tracing)
	}
	w.calls = w.Metrics.Counter("remit_calls_total", "Calls by how they ended.", "status")
	w.decisions = w.Metrics.Counter("remit_decisions_total", "Decisions on calls.", "effect")
	w.tokens = w.Metrics.Counter("remit_model_tokens_total", "Tokens of models.", "model", "type")
	w.times = w.Metrics.Histogram("remit_call_seconds", "How long calls took.", "kind")
	if w.Tracer != nil {
		w.Metrics.Func("remit_spans_dropped", "Spans that could not be sent.", func() float64 { return float64(w.Tracer.Dropped()) })
	}
	return w, nil
}

// modelChat is the tool that a call of a model is a call of.
const modelChat = "model.chat"

// modelCall describes a call of a model.
type modelCall struct {
	Model string `json:"model"`
	Stop  string `json:"stop"`
	Usage struct {
		Input  int64 `json:"input"`
		Output int64 `json:"output"`
	} `json:"usage"`
}

// Notice measures a call that ended. It is quick.
func (w *Runs) Notice(n runner.Notice) {
	o := n.Outcome
	if n.State != ledger.Ended || o == nil {
		return
	}
	w.calls.Add(1, o.Status.String())
	if o.Decision.Rule != nil || o.Decision.Reason != "" {
		w.decisions.Add(1, o.Decision.Effect.String())
	}
	kind := "tool"
	var m modelCall
	if o.Tool == modelChat {
		kind, m = "model", modelOf(o)
		w.tokens.Add(m.Usage.Input, m.Model, "input")
		w.tokens.Add(m.Usage.Output, m.Model, "output")
	}
	w.times.Observe(o.Duration, kind)
	w.span(n, m)
}

// modelOf reads what a call of a model asked for and cost.
func modelOf(o *runner.Outcome) modelCall {
	var asked struct {
		Model string `json:"model"`
	}
	var m modelCall
	if b, err := json.Marshal(o.Output); err == nil {
		_ = json.Unmarshal(b, &m) // an unreadable one is not measured
	}
	_ = json.Unmarshal(o.Args, &asked) // as above
	if m.Model = asked.Model; m.Model == "" || len(m.Model) > 100 {
		m.Model = "unknown"
	}
	return m
}

// span tells of a call with the names that OpenTelemetry's conventions for generative AI give
// (semantic conventions 1.41). Messages and tools' arguments are never part of it.
func (w *Runs) span(n runner.Notice, m modelCall) {
	if w.Tracer == nil {
		return
	}
	o := n.Outcome
	name, kind := "execute_tool "+string(o.Tool), telemetry.Internal
	attrs := []telemetry.Attr{
		{Key: "gen_ai.operation.name", Value: "execute_tool"}, {Key: "gen_ai.tool.name", Value: string(o.Tool)}, {Key: "gen_ai.tool.type", Value: "function"},
		{Key: "gen_ai.tool.call.id", Value: n.Call.Step},
	}
	if o.Tool == modelChat {
		provider, model, _ := strings.Cut(m.Model, "/")
		if model == "" {
			provider, model, _ = strings.Cut(m.Model, ":")
		}
		name, kind = "chat "+model, telemetry.Client
		attrs = []telemetry.Attr{
			{Key: "gen_ai.operation.name", Value: "chat"}, {Key: "gen_ai.provider.name", Value: provider}, {Key: "gen_ai.request.model", Value: model},
			{Key: "gen_ai.usage.input_tokens", Value: m.Usage.Input}, {Key: "gen_ai.usage.output_tokens", Value: m.Usage.Output},
		}
	}
	session := n.Run.Session.String()
	attrs = append(attrs, telemetry.Attr{Key: "gen_ai.conversation.id", Value: session}, telemetry.Attr{Key: "remit.run", Value: n.Run.ID.String()},
		telemetry.Attr{Key: "remit.call", Value: int64(o.Index)}, telemetry.Attr{Key: "remit.status", Value: o.Status.String()})
	s := w.Tracer.Start(w.Turns.Of(session), name, kind, attrs...).Began(o.Created)
	if o.Err != nil {
		s.Set(telemetry.Attr{Key: "error.type", Value: fault.CodeOf(o.Err).Error()})
		s.Fail(fault.CodeOf(o.Err).Error())
	}
	s.End()
}
