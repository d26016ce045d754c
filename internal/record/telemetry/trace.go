package telemetry

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
	"sync"
	"time"
)

// Kind says which side of a conversation a span is. Numbers are OTLP's.
type Kind int

// The kinds of spans.
const (
	Internal Kind = 1
	Server   Kind = 2
	Client   Kind = 3
)

// Attr is one attribute of a span: a string, a bool or a number.
type Attr struct {
	Key   string
	Value any // string, bool, int64 or float64
}

// Span is a piece of work that takes time. The nil Span takes everything and does
// nothing. It is safe for concurrent use.
type Span struct {
	tracer *Tracer
	name   string
	kind   Kind
	trace  [16]byte
	id     [8]byte
	parent [8]byte
	start  time.Time

	mu     sync.Mutex
	attrs  []Attr
	failed string
	ended  bool
}

// Start begins a span below parent, or as the root of a new trace where that is
// nil. The nil Tracer gives the nil Span.
func (t *Tracer) Start(parent *Span, name string, kind Kind, attrs ...Attr) *Span {
	if t == nil {
		return nil
	}
	s := &Span{tracer: t, name: name, kind: kind, start: time.Now(), attrs: attrs}
	if parent != nil {
		s.trace, s.parent = parent.trace, parent.id
	} else {
		_, _ = rand.Read(s.trace[:]) // never fails
	}
	_, _ = rand.Read(s.id[:])
	return s
}

// Continue begins a span below one of another program, named as in the header
// traceparent (W3C Trace Context); an invalid header begins a new trace.
func (t *Tracer) Continue(traceparent, name string, kind Kind, attrs ...Attr) *Span {
	s := t.Start(nil, name, kind, attrs...)
	if s == nil {
		return nil
	}
	parts := strings.Split(traceparent, "-")
	if len(parts) != 4 || parts[0] != "00" || len(parts[1]) != 32 || len(parts[2]) != 16 || len(parts[3]) != 2 {
		return s
	}
	trace, err1 := hex.DecodeString(parts[1])
	parent, err2 := hex.DecodeString(parts[2])
	if err1 != nil || err2 != nil || [16]byte(trace) == [16]byte{} || [8]byte(parent) == [8]byte{} {
		return s
	}
	s.trace, s.parent = [16]byte(trace), [8]byte(parent)
	return s
}

// Began sets the start of the span, for work that is reported afterwards.
func (s *Span) Began(at time.Time) *Span {
	if s != nil {
		s.start = at
	}
	return s
}

// Set adds attributes.
func (s *Span) Set(attrs ...Attr) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attrs = append(s.attrs, attrs...)
}

// Fail marks the span as failed, with a public reason.
func (s *Span) Fail(why string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == "" {
		s.failed = "error"
		if why != "" {
			s.failed = why
		}
	}
}

// End ends the span and has it sent. Further ends do nothing.
func (s *Span) End() {
	if s == nil {
		return
	}
	s.mu.Lock()
	done := s.ended
	s.ended = true
	s.mu.Unlock()
	if !done {
		s.tracer.take(s.encoded(time.Now()))
	}
}
