package httpapi

import (
	"context"
	"net/http"

	"github.com/remitrun/remit/internal/agents/agent"
)

// Commands carries out slash commands.
type Commands interface {
	// CompleteCommand gives the continuations of the last word of a line, and the offset of
	// that word in bytes.
	CompleteCommand(ctx context.Context, line string) (CommandCompletions, error)
	// CommandHelp describes a command, or lists all of them ("").
	CommandHelp(ctx context.Context, topic string) (string, error)
	// RunCommand carries out a slash command in a run of its own, under the caller's grant.
	// scope names the last response that it analyzes or replaces. history adds the result to a
	// session's history; nil: there is none.
	RunCommand(ctx context.Context, who *Caller, line, scope string, mode CallMode, history CommandHistory) (CommandResult, error)
}

// CommandHistory adds the result of a slash command, which do carries out, to a session's history.
type CommandHistory func(ctx context.Context, do agent.Carry) error

// CommandCompletions has the continuations of a line.
type CommandCompletions struct {
	From  int                 `json:"from" doc:"Offset in bytes of the part of the line that an item replaces"`
	Items []CommandCompletion `json:"items" nullable:"false"`
}

// CommandCompletion is one continuation of a line.
type CommandCompletion struct {
	Text        string `json:"text"`
	Description string `json:"description,omitempty"`
}

// CommandResult is the result of a slash command.
type CommandResult struct {
	Command string `json:"command" doc:"Without the slash"`
	Help    string `json:"help,omitempty" doc:"The help that was asked for; nothing was called"`
	Topic   string `json:"topic,omitempty" doc:"The command that help was asked for; missing: all"`
	// Call is missing where help was asked for.
	Call *Invocation `json:"call,omitempty" doc:"The call that was made"`
}

func (s *Server) commands() {
	if s.o.Commands == nil {
		return
	}
	type complete struct {
		asked
		Line string `query:"line" maxLength:"4096" default:"/" doc:"The typed text so far; / lists all commands" example:"/ht"`
	}
	route(s, operation{
		id: "completeCommand", method: http.MethodGet, path: "/v1/commands", tag: "commands", action: "tools.read", summary: "List or complete slash commands",
		text:   "The continuations of a line that begins with a slash: commands, their actions, flags and known values.",
		answer: map[string]any{"from": 0, "items": []any{map[string]any{"text": "/http", "description": "Make HTTP requests"}}},
	}, func(ctx context.Context, in *complete) (*struct{ Body CommandCompletions }, error) {
		out, err := s.o.Commands.CompleteCommand(ctx, in.Line)
		return &struct{ Body CommandCompletions }{out}, err
	})
	type help struct {
		asked
		Topic string `query:"topic" maxLength:"200" doc:"A command, without the slash; missing: all"`
	}
	route(s, operation{
		id: "helpCommand", method: http.MethodGet, path: "/v1/commands/help", tag: "commands", action: "tools.read", summary: "Get help on slash commands",
		text: "As /help and /help COMMAND.", errors: []int{404}, answer: map[string]any{"command": "help", "help": "/call  Calls a tool of the catalog with arguments as they are\n"},
	}, func(ctx context.Context, in *help) (*struct{ Body CommandResult }, error) {
		text, err := s.o.Commands.CommandHelp(ctx, in.Topic)
		return &struct{ Body CommandResult }{CommandResult{Command: "help", Help: text, Topic: in.Topic}}, err
	})
	s.runCommand()
}

func (s *Server) runCommand() {
	type run struct {
		asked
		Body struct {
			Line    string `json:"line" minLength:"2" maxLength:"262144" example:"/call time.now"`
			Session string `json:"session_id,omitempty" format:"uuid" maxLength:"100" doc:"The result is a message of this session; commands that analyze the last response use that of the session. Missing: that of the caller's grant"`
			CallMode
		} `nameHint:"NewCommand"`
	}
	route(s, operation{
		id: "runCommand", method: http.MethodPost, path: "/v1/commands", tag: "commands", action: "tools.invoke", summary: "Carry out a slash command",
		several: true, makesRun: always, recall: s.recallCommand,
		text: "One call in a run of its own, under the caller's grant: decided, recorded and confined as any other. A call that is refused is a problem; one that fails is an answer. " +
			"`/help` and `/NAME help` call nothing.",
		errors: []int{404, 409}, request: map[string]any{"line": "/call time.now"},
		answer: map[string]any{"command": "call", "call": map[string]any{"run_id": sampleSession, "call": 1, "tool": "time.now", "status": "completed", "output": map[string]any{}, "duration_ms": 1.2, "at": "2026-11-21T12:00:00Z"}},
	}, func(ctx context.Context, in *run) (*struct{ Body CommandResult }, error) {
		var history CommandHistory
		scope := "grant " + in.who.Leaf // never that of somebody else
		if in.Body.Session != "" {
			if _, err := s.session(ctx, &in.asked, in.Body.Session); err != nil {
				return nil, err
			}
			scope = in.Body.Session
			history = func(ctx context.Context, do agent.Carry) error {
				return s.o.Conversations.Command(ctx, in.agentCaller(), in.Body.Session, do)
			}
		}
		in.Body.Run = in.x.run
		out, err := s.o.Commands.RunCommand(ctx, in.who, in.Body.Line, scope, in.Body.CallMode, history)
		return &struct{ Body CommandResult }{out}, err
	})
}
