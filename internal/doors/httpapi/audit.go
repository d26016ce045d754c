package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/history"
)

// Audit has the recorded events.
type Audit interface {
	// Audit lists events, newest first, and gives the position of the next page (0: there
	// is none).
	Audit(ctx context.Context, q history.AuditQuery) ([]history.AuditEvent, ledger.Seq, error)
	// Follow emits events as they are recorded, those after a position first (nil: none). All
	// followers share the batches.
	Follow(ctx context.Context, after *ledger.Seq, emit func(*history.Batch) error) error
	// VerifyAll recomputes the whole log.
	VerifyAll(ctx context.Context) (store.VerifyReport, error)
	// Result gives the recorded result of a call of a run, by its index: fault.RunUnknown.
	Result(ctx context.Context, run string, call int) (history.CallResult, error)
}

// AuditQuery selects events.
type AuditQuery struct {
	Event     string    `query:"event" maxLength:"100" example:"security_violation"`
	Tool      string    `query:"tool" maxLength:"200"`
	Extension string    `query:"extension" maxLength:"200" doc:"Calls of this extension's tools, or made by its slash commands"`
	Status    string    `query:"status" enum:"completed,denied,failed,timeout,cancelled,skipped,interrupted"`
	Failed    bool      `query:"failed"`
	Denied    bool      `query:"denied"`
	Run       string    `query:"run_id" maxLength:"100" doc:"Events of this run, up to its end"`
	Subject   string    `query:"subject" maxLength:"100" doc:"Events of this agent or session, and of the session's runs"`
	Since     time.Time `query:"since"`
	Until     time.Time `query:"until"`
}

// AuditList is a page of events, newest first.
type AuditList struct {
	Items []history.AuditEvent `json:"items"`
	Next  string               `json:"next,omitempty"`
}

func (s *Server) audit() {
	if s.o.Audit == nil {
		return
	}
	type list struct {
		asked
		AuditQuery
		Page
	}
	route(s, operation{
		id: "listAudit", method: http.MethodGet, path: "/v1/audit", tag: "audit", action: "audit.read", summary: "List audit events",
		text:   "Events of the whole record, of all callers, newest first.",
		answer: map[string]any{"items": []any{map[string]any{"seq": 12, "at": "2026-11-21T12:00:00Z", "event": "capability_executed", "tool": "time.now", "status": "completed"}}},
	}, func(ctx context.Context, in *list) (*struct{ Body AuditList }, error) {
		at, err := in.number("audit")
		if err != nil {
			return nil, err
		}
		if in.Event != "" && !history.KnownEvent(in.Event) {
			return nil, fault.New(fault.ArgsInvalid, "%q is not a valid event", in.Event).In("query.event")
		}
		status, _ := tool.ParseStatus(in.Status) // the schema allows no other
		if in.Run != "" {
			if _, err := s.run(ctx, &in.asked, in.Run); err != nil {
				return nil, err
			}
		}
		items, next, err := s.o.Audit.Audit(ctx, history.AuditQuery{Run: in.Run, Subject: in.Subject, Since: in.Since, Until: in.Until, Event: in.Event, Extension: in.Extension,
			Tool: tool.ID(in.Tool), Status: status, Failed: in.Failed, Denied: in.Denied, Before: ledger.Seq(at), Limit: in.Limit})
		if err != nil {
			return nil, err
		}
		out := AuditList{Items: append([]history.AuditEvent{}, items...)}
		if next > 0 {
			out.Next = cursor("audit", strconv.FormatUint(uint64(next), 10))
		}
		return &struct{ Body AuditList }{out}, nil
	})
	s.getEvent()
	s.verifyRecord()
	s.followAudit()
}

func (s *Server) getEvent() {
	type one struct {
		asked
		Seq uint64 `path:"seq" minimum:"1" maximum:"9007199254740991" example:"12"`
	}
	route(s, operation{
		id: "getEvent", method: http.MethodGet, path: "/v1/audit/{seq}", tag: "audit", action: "audit.read", summary: "Get one audit event", errors: []int{404},
		answer: map[string]any{"seq": 12, "at": "2026-11-21T12:00:00Z", "event": "capability_executed", "tool": "time.now", "status": "completed"},
	}, func(ctx context.Context, in *one) (*struct{ Body history.AuditEvent }, error) {
		items, _, err := s.o.Audit.Audit(ctx, history.AuditQuery{Before: ledger.Seq(in.Seq + 1), Limit: 1})
		if err == nil && (len(items) == 0 || uint64(items[0].Seq) != in.Seq) {
			err = fault.New(fault.NotFound, "the record has no event %d", in.Seq)
		}
		if err != nil {
			return nil, err
		}
		return &struct{ Body history.AuditEvent }{items[0]}, nil
	})
}

func (s *Server) verifyRecord() {
	route(s, operation{
		id: "verifyRecord", method: http.MethodPost, path: "/v1/audit/verify", tag: "audit", action: "audit.read", summary: "Verify the record",
		text:   "Recomputes the whole log: every event, and its signed checkpoints.",
		answer: map[string]any{"ok": true, "events": 120, "blobs": 40, "runs": 9, "size": 120, "root": "…", "signed": 120, "erased": 0, "problems": []any{}},
	}, func(ctx context.Context, _ *struct{ asked }) (*struct{ Body store.VerifyReport }, error) {
		v, err := s.o.Audit.VerifyAll(ctx)
		return &struct{ Body store.VerifyReport }{v}, err
	})
}

func (s *Server) followAudit() {
	type follow struct {
		asked
		Last string `header:"Last-Event-ID" maxLength:"20" doc:"The ID of the last event that was seen: later ones are sent first"`
	}
	route(s, operation{
		id: "followAudit", method: http.MethodGet, path: "/v1/events", tag: "audit", action: "audit.read", stream: true, summary: "Follow the record",
		text: "Server-sent events: each event of the record as listAudit describes it, as soon as it is recorded by any process, from now on or after the one in Last-Event-ID. " +
			"A comment line comes every few seconds; `end` says that the service ends the stream: connect again.",
		more: map[int]reply{200: {text: "The events of the record", kind: "text/event-stream"}},
	}, func(ctx context.Context, in *follow) (*Streamed, error) {
		return s.followRecord(ctx, in.x, in.who, in.Last, func(b *history.Batch) ([]byte, error) {
			return textOf(b, "record", func(e history.AuditEvent) (any, error) { return e, nil })
		})
	})
}

// textOf encodes what show makes of the events of a batch, once for all streams with this key.
// Where show gives nil, the event is left out.
func textOf(b *history.Batch, key string, show func(history.AuditEvent) (any, error)) ([]byte, error) {
	text, err := b.Once(key, func() (any, error) {
		var text []byte
		for _, e := range b.Events {
			v, err := show(e)
			if err != nil {
				return nil, err
			}
			if v == nil {
				continue
			}
			if text, err = appendEvent(text, strconv.FormatUint(uint64(e.Seq), 10), e.Event, v); err != nil {
				return nil, err
			}
		}
		return text, nil
	})
	if err != nil {
		return nil, err
	}
	return text.([]byte), nil
}

// followRecord streams what show makes of the record's events, after the one with the ID last
// ("": from now on).
func (s *Server) followRecord(ctx context.Context, x *exchange, who *Caller, last string, show func(*history.Batch) ([]byte, error)) (*Streamed, error) {
	var after *ledger.Seq
	if last != "" {
		n, err := strconv.ParseUint(last, 10, 63)
		if err != nil {
			return nil, fault.New(fault.ArgsInvalid, "%q is not the ID of an event", last).In("header.Last-Event-ID")
		}
		seq := ledger.Seq(n)
		after = &seq
	}
	release, err := s.seat(ctx, who)
	if err != nil {
		return nil, err
	}
	return &Streamed{func(huma.Context) {
		defer release()
		s.follow(ctx, x, who, func(ctx context.Context, st *stream) error {
			return s.o.Audit.Follow(ctx, after, func(b *history.Batch) error {
				var text []byte
				err := store.Patiently(ctx, store.LongPatience, store.PatientEvery, func() (err error) {
					text, err = show(b)
					return err
				})
				if err != nil || len(text) == 0 {
					return err
				}
				return st.raw(text)
			})
		})
	}}, nil
}
