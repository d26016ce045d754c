package app

import (
	"github.com/remitrun/remit/internal/doors/httpapi"
	"github.com/remitrun/remit/internal/record/eventlog"
)

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
