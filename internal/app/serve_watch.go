package app

import (
	"encoding/json"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/doors/httpapi"
	"github.com/remitrun/remit/internal/record/eventlog"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/telemetry"
)

// watching measures what a service's runs do.
type watching struct {
	metrics *telemetry.Metrics
	tracer  *telemetry.Tracer // nil: no traces
	turns   *telemetry.Turns

	calls     telemetry.Counter
	decisions telemetry.Counter
	tokens    telemetry.Counter
	times     telemetry.Histogram
}

func (w *watching) counters() {
	w.calls = w.metrics.Counter("remit_calls_total", "Calls by how they ended.", "status")
	w.decisions = w.metrics.Counter("remit_decisions_total", "Decisions on calls.", "effect")
	w.tokens = w.metrics.Counter("remit_model_tokens_total", "Tokens of models.", "model", "type")
	w.times = w.metrics.Histogram("remit_call_seconds", "How long calls took.", "kind")
	if w.tracer != nil {
		w.metrics.Func("remit_spans_dropped", "Spans that could not be sent.", func() float64 { return float64(w.tracer.Dropped()) })
	}
}

// modelChat is the tool that a call of a model is a call of.
const modelChat = "model.chat"

// modelCall is what is told of a call of a model.
type modelCall struct {
	Model string `json:"model"`
	Stop  string `json:"stop"`
	Usage struct {
		Input  int64 `json:"input"`
		Output int64 `json:"output"`
	} `json:"usage"`
}

// notice measures a call that ended. It is quick.
func (w *watching) notice(n runner.Notice) {
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
		_ = json.Unmarshal(b, &m) // what cannot be read is not measured
	}
	_ = json.Unmarshal(o.Args, &asked) // as above
	if m.Model = asked.Model; m.Model == "" || len(m.Model) > 100 {
		m.Model = "unknown"
	}
	return m
}

// span tells of a call with the names that OpenTelemetry's conventions for generative
// AI give (semantic conventions 1.41). What is said and what tools are given is never
// part of it.
func (w *watching) span(n runner.Notice, m modelCall) {
	if w.tracer == nil {
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
	s := w.tracer.Start(w.turns.Of(session), name, kind, attrs...).Began(o.Created)
	if o.Err != nil {
		s.Set(telemetry.Attr{Key: "error.type", Value: fault.CodeOf(o.Err).Error()})
		s.Fail(fault.CodeOf(o.Err).Error())
	}
	s.End()
}

// logRequest writes a request that changed something, or that was refused, with the
// calls; errors of the service itself with their cause.
func logRequest(log *eventlog.Log, e httpapi.Entry) {
	if e.Cause != nil {
		log.Logger().Error("request_failed", "request", e.ID, "subject", e.Subject, "error", e.Cause.Error())
	}
	if !e.Changes && !e.Refused {
		return
	}
	entry := eventlog.Entry{Extension: "api", Command: e.Operation, Action: "api." + e.Action, Runner: "http", Session: e.ID, User: e.Who, Duration: e.Duration,
		Subject: e.Subject, Code: e.Code, Error: e.Error}
	if e.Action == "" {
		entry.Action = "api"
	}
	switch {
	case e.Refused:
		log.Violation(entry)
	case e.Code != "":
		log.Failed(entry)
	default:
		log.Executed(entry)
	}
}
