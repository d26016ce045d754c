package runs_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/service/runs"
)

// postman is the tool of an extension's command.
type postman struct{ permit.Tool }

func (postman) Executor() (command, action, runner, program string) {
	return "/postman", "get", "exec.postman_cli", "postman"
}

func (postman) Own() string { return "/home/ann/.remit/extensions/tools.postman/work" }

func TestFieldsOfLogEntries(t *testing.T) {
	run, session := uuid.New(), uuid.New()
	notice := func(entry runner.Entry, call runner.Call, in runner.Info) runner.Notice {
		in.ID, in.Grant = run, grant.New(grant.Terms{Holder: "user:ann"})
		return runner.Notice{
			Run: &runner.Run{Info: in, Env: tool.Env{Workspace: "/ws"}}, Call: call, Entry: entry, State: ledger.Ended,
			Outcome: &runner.Outcome{Output: map[string]any{"exit_code": 3}, Err: fault.New(fault.ToolFailed, "it ended with 3")},
		}
	}
	ext := notice(runner.Entry{Tool: postman{}, Spec: &tool.Spec{Source: "extension"}, Source: "ext:tools.postman"},
		runner.Call{Tool: "ext:tools.postman:get", Args: tool.Args{"url": "x"}}, runner.Info{Session: session})
	read := notice(runner.Entry{Spec: &tool.Spec{Source: "builtin"}}, runner.Call{Tool: "fs.read", Step: "notes", Name: "/not a command"}, runner.Info{})
	remote := notice(runner.Entry{Spec: &tool.Spec{Source: "mcp"}, Source: "mcp:github"}, runner.Call{Tool: "mcp:github:get", Name: "/issue get"}, runner.Info{})
	unknown := notice(runner.Entry{}, runner.Call{Tool: "no.tool"}, runner.Info{})
	for _, c := range []struct {
		field string
		n     runner.Notice
		want  any
	}{
		{"extension_id", ext, "tools.postman"}, {"extension_id", read, "builtin"}, {"extension_id", remote, "mcp:github"}, {"extension_id", unknown, ""},
		{"command", ext, "/postman"}, {"command", read, "notes"}, {"command", remote, "/issue"},
		{"action", ext, "get"}, {"action", read, "fs.read"}, {"action", unknown, "no.tool"},
		{"runner", ext, "exec.postman_cli"}, {"runner", read, "builtin"}, {"runner", remote, "mcp"}, {"runner", unknown, ""},
		{"session_id", ext, session.String()}, {"session_id", read, run.String()},
		{"user_id", read, "user:ann"},
		{"exit_code", ext, 3},
		{"error", ext, "E2003 it ended with 3"},
		{"metadata.tool", ext, "postman"}, {"metadata.tool", read, "fs.read"},
		{"metadata.args_count", ext, 1}, {"metadata.args_count", read, 0},
		{"metadata.work_dir", ext, "/home/ann/.remit/extensions/tools.postman/work"}, {"metadata.work_dir", read, "/ws"},
	} {
		e := runs.LogEntry(c.n)
		got := map[string]any{
			"extension_id": e.Extension, "command": e.Command, "action": e.Action, "runner": e.Runner, "session_id": e.Session, "user_id": e.User,
			"exit_code": *e.ExitCode, "error": e.Code + " " + e.Error, "metadata.tool": e.Tool, "metadata.args_count": e.Args, "metadata.work_dir": e.WorkDir,
		}[c.field]
		if got != c.want {
			t.Errorf("%s of %s is %v, want %v", c.field, c.n.Call.Tool, got, c.want)
		}
	}
}
