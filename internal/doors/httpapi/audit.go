package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

// Audit has the recorded events.
type Audit interface {
	// Audit lists events, newest first, before a position (0: from the newest on), and the
	// position of the next page (0: there is none).
	Audit(ctx context.Context, q AuditQuery, before uint64, limit int) ([]AuditEvent, uint64, error)
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

// AuditEvent is a recorded event without its payload. An operator's action has its
// target.
type AuditEvent struct {
	Seq   uint64    `json:"seq"`
	At    time.Time `json:"at"`
	Event string    `json:"event"`
	Run   string    `json:"run_id,omitempty"`
	Grant string    `json:"grant,omitempty"`
	By    string    `json:"by,omitempty"`
	// Action is the action of an operator, as secret.set.
	Action string `json:"action,omitempty" doc:"Of an operator_action: the action, as secret.set"`
	Target string `json:"target,omitempty" doc:"Of an operator_action: the name, ID or path concerned"`
	Call   int    `json:"call,omitempty"`
	Tool   string `json:"tool,omitempty"`
	// Extension is the extension whose tool was called, or whose slash command made the
	// call.
	Extension string  `json:"extension,omitempty" doc:"The extension whose tool was called, or whose slash command made the call"`
	Status    string  `json:"status"`
	Code      string  `json:"code,omitempty"`
	Effect    string  `json:"effect,omitempty"`
	Rule      string  `json:"rule,omitempty"`
	Refused   int     `json:"refused,omitempty"`
	Duration  float64 `json:"duration_ms,omitempty"`
}

// AuditList is a page of events, newest first.
type AuditList struct {
	Items []AuditEvent `json:"items"`
	Next  string       `json:"next,omitempty"`
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
		items, next, err := s.o.Audit.Audit(ctx, in.AuditQuery, at, in.Limit)
		if err != nil {
			return nil, err
		}
		out := AuditList{Items: append([]AuditEvent{}, items...)}
		if next > 0 {
			out.Next = cursor("audit", strconv.FormatUint(next, 10))
		}
		return &struct{ Body AuditList }{out}, nil
	})
}
