package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/service/history"
)

// Audit has the recorded events.
type Audit interface {
	// Audit lists events, newest first, and gives the position of the next page (0: there
	// is none).
	Audit(ctx context.Context, q history.AuditQuery) ([]history.AuditEvent, ledger.Seq, error)
}

// AuditQuery selects events.
type AuditQuery struct {
	Event     string    `query:"event" maxLength:"100" example:"security_violation"`
	Tool      string    `query:"tool" maxLength:"200"`
	Extension string    `query:"extension" maxLength:"200" doc:"Calls of this extension's tools, or made by its slash commands"`
	Status    string    `query:"status" enum:"completed,denied,failed,timeout,cancelled,skipped,interrupted"`
	Failed    bool      `query:"failed"`
	Denied    bool      `query:"denied"`
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
		text:   "Events of the whole record, newest first, whoever they are of.",
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
		items, next, err := s.o.Audit.Audit(ctx, history.AuditQuery{Since: in.Since, Until: in.Until, Event: in.Event, Extension: in.Extension,
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
}
