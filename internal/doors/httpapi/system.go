package httpapi

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/telemetry"
)

// Health is the result of a health check.
type Health struct {
	Status  string `json:"status" enum:"ok,draining,unavailable"`
	Version string `json:"version,omitempty"`
	Reason  string `json:"reason,omitempty" doc:"Why it is unavailable"`
}

func (s *Server) system() {
	route(s, operation{
		id: "health", method: http.MethodGet, path: "/healthz", tag: "service", open: true, summary: "Liveness", answer: map[string]any{"status": "ok"},
	}, func(context.Context, *struct{ asked }) (*struct{ Body Health }, error) {
		return &struct{ Body Health }{Health{Status: "ok"}}, nil
	})
	type ready struct {
		Status int
		Body   Health
	}
	route(s, operation{
		id: "ready", method: http.MethodGet, path: "/readyz", tag: "service", open: true, summary: "Readiness",
		text: "503 if the ledger cannot be written, and while the service stops.", answer: map[string]any{"status": "ok"},
	}, func(ctx context.Context, _ *struct{ asked }) (*ready, error) {
		select {
		case <-s.draining:
			return &ready{http.StatusServiceUnavailable, Health{Status: "draining"}}, nil
		default:
		}
		ctx, cancel := context.WithTimeout(ctx, readyTime)
		defer cancel()
		if err := s.works(ctx); err != nil {
			return &ready{http.StatusServiceUnavailable, Health{Status: "unavailable", Reason: reasonOf(err)}}, nil
		}
		return &ready{http.StatusOK, Health{Status: "ok"}}, nil
	})
	route(s, operation{
		id: "metrics", method: http.MethodGet, path: "/metrics", tag: "service", action: "metrics.read", summary: "Metrics",
		text: "In Prometheus' text format. A scraper presents a grant, as `authorization: {credentials_file: …}` of its configuration.",
		more: map[int]reply{200: {text: "Measurements", kind: "text/plain"}},
	}, func(_ context.Context, in *struct{ asked }) (*Streamed, error) {
		return s.bytes(in.x, telemetry.ContentType, func() ([]byte, error) {
			var b bytes.Buffer
			err := s.o.Metrics.Write(&b)
			return b.Bytes(), err
		})
	})
	route(s, operation{
		id: "openapi", method: http.MethodGet, path: "/v1/openapi.json", tag: "service", summary: "Get this document", text: "OpenAPI 3.1.",
		more: map[int]reply{200: {text: "The document"}},
	}, func(_ context.Context, in *struct{ asked }) (*Streamed, error) {
		return s.bytes(in.x, "application/json", s.spec)
	})
}

// works checks whether the service is ready. Requests without a grant can cause it, so the
// result is kept for a while.
func (s *Server) works(ctx context.Context) error {
	if s.o.Ready == nil {
		return nil
	}
	s.health.Lock()
	defer s.health.Unlock()
	if time.Since(s.health.at) > readyEvery {
		s.health.err, s.health.at = s.o.Ready(ctx), time.Now()
	}
	return s.health.err
}

// reasonOf is the public reason of a service that is not ready. An error with a cause gives its code
// alone: its message names files and addresses.
func reasonOf(err error) string {
	var found *fault.Error
	switch {
	case !errors.As(err, &found):
		return "the ledger does not answer"
	case found.Err != nil:
		return found.Code.Error()
	}
	return found.Code.Error() + " " + found.Msg
}

// health has the last result.
type health struct {
	sync.Mutex
	err error
	at  time.Time
}

// readyEvery is how long a result is kept.
const readyEvery = 500 * time.Millisecond

// readyTime is how long the ledger may take to answer.
const readyTime = 2 * time.Second

func (s *Server) bytes(x *exchange, kind string, get func() ([]byte, error)) (*Streamed, error) {
	b, err := get()
	if err != nil {
		return nil, err
	}
	return &Streamed{func(huma.Context) {
		x.Header().Set("Content-Type", kind)
		x.WriteHeader(http.StatusOK)
		_, _ = x.Write(b) // the client may have gone
	}}, nil
}

// OpenAPI returns the OpenAPI document.
func (s *Server) OpenAPI() ([]byte, error) { return s.spec() }

// Operation describes an operation, for tests and documents.
type Operation struct {
	ID, Method, Path string
	Action           string // "": none
	Open             bool   // needs no grant
}

// Operations lists all operations.
func (s *Server) Operations() []Operation {
	out := make([]Operation, len(s.ops))
	for i, o := range s.ops {
		out[i] = Operation{o.id, o.method, o.path, o.action, o.open}
	}
	return out
}

// meters has the server's metrics.
type meters struct {
	requests telemetry.Counter
	latency  telemetry.Histogram
	streams  telemetry.Gauge
	working  telemetry.Gauge
	turns    telemetry.Counter
	turnTime telemetry.Histogram
}

func newMeters(m *telemetry.Metrics) meters {
	return meters{
		requests: m.Counter("remit_http_requests_total", "Requests by method, route and status.", "method", "route", "status"),
		latency:  m.Histogram("remit_http_request_seconds", "How long requests took, streams left out.", "method", "route"),
		streams:  m.Gauge("remit_http_streams", "Event streams that are open."),
		working:  m.Gauge("remit_turns_working", "Turns that are under way."),
		turns:    m.Counter("remit_turns_total", "Turns by how they ended.", "status"),
		turnTime: m.Histogram("remit_turn_seconds", "How long turns took."),
	}
}

func (m meters) turn(b *begun, took time.Duration) {
	status := "completed"
	if b.err != nil {
		status = fault.CodeOf(b.err).Error()
	}
	m.turns.Add(1, status)
	m.turnTime.Observe(took)
}
