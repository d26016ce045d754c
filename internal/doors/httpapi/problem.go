package httpapi

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/remitrun/remit/internal/base/fault"
)

// Problem is the form of every error (RFC 9457), with Remit's error number and a hint as
// further members.
type Problem struct {
	Type     string       `json:"type" doc:"Identifies the kind of problem: urn:remit: and its number" example:"urn:remit:E1001"`
	Title    string       `json:"title" doc:"The kind of problem" example:"Forbidden"`
	Status   int          `json:"status" doc:"The HTTP status" example:"403"`
	Detail   string       `json:"detail,omitempty" doc:"The error of this request"`
	Code     string       `json:"code" doc:"Remit's error number" example:"E1001" pattern:"^E[0-9]{4}$"`
	Hint     string       `json:"hint,omitempty" doc:"Advice about the error"`
	Instance string       `json:"instance,omitempty" doc:"The request's ID, as in the logs" example:"urn:remit:request:5J2WQ0"`
	Errors   []FieldError `json:"errors,omitempty" doc:"The errors of single fields"`
	Run      string       `json:"run_id,omitempty" doc:"The run in which a call was refused"`
	Call     int          `json:"call,omitempty" doc:"The index of the call in that run"`
	Rule     string       `json:"rule,omitempty" doc:"The policy's rule that refused"`
	Approval string       `json:"approval_id,omitempty" doc:"The ID of the question that a person must answer first"`
	Outcome  string       `json:"outcome,omitempty" enum:"unknown,in_progress" doc:"Of the first request with the same Idempotency-Key: it may have had effects, or is still being carried out"`

	retry string
	cause error
}

// FieldError is an error of one field.
type FieldError struct {
	Field   string `json:"field" doc:"The field's path, as body.capabilities[0]" example:"body.name"`
	Message string `json:"message"`
}

// Error implements error.
func (p *Problem) Error() string { return p.Code + " " + p.Detail }

// Unwrap gives the cause, for the logs.
func (p *Problem) Unwrap() error { return p.cause }

// GetStatus implements huma.StatusError.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType implements huma.ContentTypeFilter.
func (p *Problem) ContentType(string) string { return problemType }

const problemType = "application/problem+json"

// statuses gives the HTTP status of each error number. Missing ones have 500, so that they
// are noticed.
var statuses = map[fault.Code]int{
	fault.Denied: 403, fault.NeedsApproval: 403, fault.PolicyInvalid: 422, fault.PolicyMissing: 403, fault.LimitReached: 429, fault.HandleRefused: 403,
	fault.ToolUnknown: 404, fault.ArgsInvalid: 422, fault.ToolFailed: 502, fault.ToolTimeout: 504, fault.ToolCancelled: 409, fault.ToolPanicked: 500,
	fault.SandboxMissing: 503, fault.OutputInvalid: 502, fault.NotFound: 404, fault.Conflict: 409, fault.Interrupted: 409,
	fault.PlanInvalid: 422, fault.PlanInput: 422, fault.PlanReference: 422, fault.ReplayMismatch: 409, fault.VerifyFailed: 409,
	fault.StoreFailed: 503, fault.StoreCorrupt: 503, fault.StoreFull: 507, fault.StoreReadOnly: 503, fault.StoreVersion: 503, fault.StoreMissing: 503, fault.QueueFull: 429, fault.RunUnknown: 404,
	fault.GrantInvalid: 422, fault.GrantExpired: 403, fault.GrantEarly: 403, fault.GrantRevoked: 403, fault.GrantPaused: 403, fault.GrantHolder: 403,
	fault.GrantAudience: 403, fault.GrantLedger: 403, fault.GrantTooLarge: 422, fault.GrantVersion: 422, fault.GrantUnknown: 404, fault.BudgetSpent: 403,
	fault.NotDelegable: 403, fault.PlanOnly: 403, fault.NotInPlan: 403, fault.ToolDisabled: 409, fault.ToolChanged: 409, fault.ApprovalGone: 404,
	fault.GrantForged: 403, fault.GrantReplayed: 403, fault.GrantKey: 403, fault.GrantSealed: 409, fault.GrantWorkspace: 403, fault.FlowRefused: 403,
	fault.ExtensionInvalid: 422, fault.ExtensionUnknown: 404, fault.ExtensionUnsafe: 422, fault.ExtensionConflict: 409, fault.ExtensionChecksum: 422,
	fault.CommandUnknown: 404, fault.CommandInvalid: 422,
	fault.AgentInvalid: 422, fault.AgentUnknown: 404, fault.SessionUnknown: 404, fault.SessionBusy: 409, fault.SessionEnded: 409,
	fault.CapabilityUnknown: 422, fault.CapabilityInvalid: 422, fault.ModelUnknown: 422, fault.ModelKey: 503, fault.ModelFailed: 502, fault.ModelBusy: 503,
	fault.ModelContext: 422, fault.ModelCall: 502, fault.Looping: 409, fault.FilesFull: 507, fault.Stale: 409, fault.MessageUnknown: 404,
	fault.Usage: 400, fault.Internal: 500,
}

// problem makes a problem of an error. Of internal errors it shows only the kind: the log
// has the rest, under the request's ID.
func problem(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	code := fault.CodeOf(err)
	status, ok := statuses[code]
	if !ok {
		status = http.StatusInternalServerError
	}
	p = &Problem{Type: "urn:remit:" + code.Error(), Title: http.StatusText(status), Status: status, Code: code.Error(), cause: err}
	var list fault.List
	var one *fault.Error
	switch {
	case inside(code):
		p.Detail, p.Hint = "the service cannot do this now", "look for the request's ID in the service's log"
	case errors.As(err, &list):
		p.Detail = list[0].Msg
		p.Hint = list[0].Hint
		for _, e := range list {
			p.Errors = append(p.Errors, FieldError{Field: fieldOf(e), Message: e.Msg})
		}
	case errors.As(err, &one):
		p.Detail, p.Hint = one.Msg, one.Hint
		if f := fieldOf(one); f != "" {
			p.Errors = []FieldError{{Field: f, Message: one.Msg}}
		}
	default:
		p.Detail = p.Title
	}
	if code == fault.LimitReached || code == fault.ModelBusy {
		p.retry = "1"
	}
	return p
}

// inside reports whether errors of a kind reveal the service's own state.
func inside(c fault.Code) bool {
	return c == fault.Internal || c == fault.ToolPanicked || c >= fault.StoreFailed && c <= fault.StoreVersion || c == fault.StoreMissing
}

// fieldOf gives the field of an error, and its place in a document that the caller sent.
func fieldOf(e *fault.Error) string {
	f := e.Field
	if e.Pos.Line > 0 {
		at := e.Pos
		at.File = "" // names of the service's own files are not shown
		f = strings.TrimPrefix(at.String(), ":") + " " + f
	}
	return strings.TrimSpace(f)
}

// bad makes the problem of an invalid request.
func bad(status int, code fault.Code, detail, hint string) *Problem {
	return &Problem{Type: "urn:remit:" + code.Error(), Title: http.StatusText(status), Status: status, Code: code.Error(), Detail: detail, Hint: hint}
}

// as gives a problem another status.
func (p *Problem) as(status int) *Problem {
	c := *p
	c.Status, c.Title = status, http.StatusText(status)
	return &c
}

// fromHuma makes a problem of huma's error for an invalid request. It does not repeat what
// the client sent.
func fromHuma(m *huma.ErrorModel) *Problem {
	code := fault.ArgsInvalid
	if m.Status != http.StatusUnprocessableEntity {
		code = fault.Usage
	}
	if m.Status >= http.StatusInternalServerError {
		code = fault.Internal
	}
	p := bad(m.Status, code, m.Detail, "")
	if m.Status == http.StatusUnprocessableEntity {
		p.Detail, p.Hint = "the request does not fit the operation", "GET /v1/openapi.json describes every operation"
	}
	switch m.Status {
	case http.StatusUnsupportedMediaType:
		p.Detail, p.Hint = "the body is not application/json", "send it with Content-Type: application/json (curl: --json)"
		return p
	case http.StatusBadRequest:
		if p.Hint = "GET /v1/openapi.json describes every operation"; len(m.Errors) > 0 {
			p.Detail = "the body is not valid JSON"
		}
	}
	if code == fault.Internal {
		p.Detail = "the service cannot do this now"
		return p
	}
	for _, e := range m.Errors {
		if e == nil {
			continue
		}
		p.Errors = append(p.Errors, FieldError{Field: e.Location, Message: plainMessage(e.Message)})
	}
	slices.SortFunc(p.Errors, func(a, b FieldError) int { return strings.Compare(a.Field+"\x00"+a.Message, b.Field+"\x00"+b.Message) })
	return p
}

// plainMessage removes Go terms from a decoder's message.
func plainMessage(m string) string {
	if strings.Contains(m, "Go struct") || strings.Contains(m, "Go value") || strings.HasPrefix(m, "json: ") {
		return "the value has not the type that the operation takes"
	}
	if strings.HasPrefix(m, huma.ErrUnknownContentType.Error()) {
		return "the content type is not application/json"
	}
	return m
}
