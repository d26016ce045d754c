package app

import (
	"context"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/approval"
	"github.com/remitrun/remit/internal/doors/httpapi"
	"github.com/remitrun/remit/internal/service/runs"
	"github.com/remitrun/remit/internal/service/slash"
)

// CompleteCommand implements httpapi.Commands.
func (s *served) CompleteCommand(_ context.Context, line string) (httpapi.CommandCompletions, error) {
	out := httpapi.CommandCompletions{Items: []httpapi.CommandCompletion{}}
	router, err := s.app.Extensions.Router()
	if err != nil {
		return out, err
	}
	from, list := router.Complete(line)
	out.From = from
	for _, c := range list {
		out.Items = append(out.Items, httpapi.CommandCompletion{Text: c.Text, Description: c.Description})
	}
	return out, nil
}

// CommandHelp implements httpapi.Commands.
func (s *served) CommandHelp(_ context.Context, topic string) (string, error) {
	router, err := s.app.Extensions.Router()
	if err != nil {
		return "", err
	}
	return router.Help(topic)
}

// RunCommand implements httpapi.Commands.
func (s *served) RunCommand(ctx context.Context, who *httpapi.Caller, line, scope string, mode httpapi.CallMode, history httpapi.CommandHistory) (httpapi.CommandResult, error) {
	if who.Token == "" { // without a grant it would be a command of the person at this machine
		return httpapi.CommandResult{}, fault.New(fault.Internal, "the caller has no grant")
	}
	bound, err := runs.ParseFrozen(mode.Frozen)
	if err != nil {
		return httpapi.CommandResult{}, err
	}
	res, err := s.app.Slash.Run(ctx, slash.Request{
		ID: mode.Run, Line: line, Session: scope, Workspace: s.workspace, Grant: who.Presented(), Observe: s.observe, Planning: mode.Planning, Frozen: bound, History: history, Advice: adviceOn,
	})
	out := httpapi.CommandResult{Command: res.Route.Command, Help: res.Help, Topic: res.Route.Topic}
	if err != nil || res.Route.Help {
		return out, err
	}
	call, err := invocation(res.Run.ID, res.Outcome, approval.Filed(res.Outcome.Err))
	out.Call = &call
	return out, err
}
