package clients

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
)

// Scope says for whom an agent's configuration holds.
type Scope string

// The scopes.
const (
	Project Scope = "project" // one folder
	User    Scope = "user"    // all that this person does
	Managed Scope = "managed" // everybody on this machine; needs root
)

// agent describes one agent's configuration. docs/agents-you-have.md has the sources; the limits of
// an agent's guarantees were seen by running it.
type agent struct {
	name, title string
	programs    []string         // their names on the PATH
	homes       []string         // folders below the home folder that the agent makes
	files       map[Scope]string // relative to the project, the home folder, or the root
	servers     map[Scope]string // where it lists MCP servers, likewise
	homeEnv     string           // the variable that names another folder for the user's file
	confines    bool             // the hook can send commands to remit sh
	edits       func(scope Scope, command string) []Edit

	// reads are the files of a project from which the agent takes settings. Files that a repository
	// puts there are shown; their folders are made, so that commands cannot make them.
	reads []string
	// limits are what the hook cannot guarantee, for people.
	limits []string
	// next is the person's next step after the installation; "": none.
	next string
}

// hookSeconds is the time limit that agents are told. The hook's own deadline is below it.
const hookSeconds = 60

// Limits that several agents have.
const (
	elsewhere  = "in other folders every call is denied until remit init is run there"
	unconfined = "commands are decided but not confined: an allowed cat or python3 reads every file that you can read"
)

var agents = []agent{
	{
		name: "antigravity", title: "Antigravity CLI", programs: []string{"agy"}, homes: []string{".gemini/antigravity-cli", ".gemini/antigravity"},
		files: map[Scope]string{Project: ".agents/hooks.json", User: ".gemini/config/hooks.json"},
		edits: antigravityEdits,
		reads: []string{".agents/hooks.json"},
		limits: []string{
			"Antigravity may ask you again about calls that are allowed; of version 1.1.2 people report that it also asks about denied ones: answer no",
			"plug-ins, and files that it keeps outside of the project, are not guarded",
			"written from its documentation and public reports, not tried with the program",
		},
		next: "start agy there and look at /hooks: the hook \"remit\" must be listed and switched on",
	},
	{
		name: "claude", title: "Claude Code", programs: []string{"claude"}, homes: []string{".claude"}, homeEnv: "CLAUDE_CONFIG_DIR",
		files: map[Scope]string{
			Project: ".claude/settings.local.json", User: ".claude/settings.json", Managed: "etc/claude-code/managed-settings.d/remit.json",
		},
		servers:  map[Scope]string{Project: ".mcp.json", User: ".claude.json", Managed: "etc/claude-code/managed-mcp.json"},
		confines: true, edits: claudeEdits,
		reads:  []string{".claude/settings.json", ".claude/settings.local.json"},
		limits: []string{"files that you name with @ are read without a hook, and commands of skills that you start with / run without one"},
	},
	{
		name: "codex", title: "Codex", programs: []string{"codex"}, homes: []string{".codex"}, homeEnv: "CODEX_HOME",
		files:   map[Scope]string{Project: ".codex/hooks.json", User: ".codex/hooks.json", Managed: "etc/codex/requirements.toml"},
		servers: map[Scope]string{Project: ".codex/config.toml", User: ".codex/config.toml"}, confines: true,
		edits: codexEdits,
		reads: []string{".codex/hooks.json", ".codex/config.toml"},
		limits: []string{
			"if the hook is missing, crashes or takes too long, Codex carries the call out",
			"Codex' hosted tools, as its web search, pass no hook",
		},
		next: "start codex there, trust the folder, and accept the hook with /hooks: until then Codex does not run it",
	},
	{
		name: "copilot", title: "GitHub Copilot CLI", programs: []string{"copilot"}, homes: []string{".copilot"}, homeEnv: "COPILOT_HOME",
		files: map[Scope]string{
			Project: ".github/hooks/remit.json", User: ".copilot/hooks/remit.json", Managed: "etc/github-copilot/policy.d/remit.json",
		},
		servers:  map[Scope]string{User: ".copilot/mcp-config.json"},
		confines: true, edits: copilotEdits,
		reads:  []string{".github/hooks/remit.json", ".github/copilot/settings.json", ".github/copilot/settings.local.json", ".claude/settings.json"},
		limits: []string{"if the hook takes longer than its limit, Copilot CLI carries the call out"},
		next:   "start copilot there and trust the folder: until then it does not run the hook",
	},
	{
		name: "cursor", title: "Cursor", programs: []string{"cursor", "cursor-agent"}, homes: []string{".cursor"},
		files:   map[Scope]string{Project: ".cursor/hooks.json", User: ".cursor/hooks.json", Managed: "etc/cursor/hooks.json"},
		servers: map[Scope]string{Project: ".cursor/mcp.json", User: ".cursor/mcp.json"},
		edits:   cursorEdits,
		reads:   []string{".cursor/hooks.json"},
		limits: []string{
			"files that are open in the editor are not guarded",
			"written from its documentation, not tried with the program",
		},
	},
	{
		name: "gemini", title: "Gemini CLI", programs: []string{"gemini"}, homes: []string{".gemini"},
		files:    map[Scope]string{Project: ".gemini/settings.json", User: ".gemini/settings.json", Managed: "etc/gemini-cli/settings.json"},
		servers:  map[Scope]string{Project: ".gemini/settings.json", User: ".gemini/settings.json", Managed: "etc/gemini-cli/settings.json"},
		confines: true,
		edits: func(_ Scope, c string) []Edit {
			return grouped("*", commandHook(c, hookSeconds*1000), "BeforeTool", "AfterTool", "SessionEnd") // milliseconds
		},
		reads: []string{".gemini/settings.json"},
		limits: []string{
			"if the hook crashes without a message or takes too long, Gemini CLI carries the call out",
		},
	},
}

// Names lists the agents whose configuration is known.
func Names() []string {
	var out []string
	for _, a := range agents {
		out = append(out, a.name)
	}
	return out
}

// Confines reports whether the hook of an agent, as it is installed, sends commands to the sandbox.
func Confines(name string) bool {
	a, err := find(name)
	return err == nil && a.confines
}

func find(name string) (agent, error) {
	if i := slices.IndexFunc(agents, func(a agent) bool { return a.name == name }); i >= 0 {
		return agents[i], nil
	}
	return agent{}, fault.New(fault.Usage, "%.40q is not an agent that hooks can be installed in", name).
		WithHint("expected one of %s", strings.Join(Names(), ", "))
}

func commandHook(command string, timeout int) map[string]any {
	return map[string]any{"type": "command", "command": command, "timeout": timeout}
}

// grouped adds a hook to events, each in a group with a matcher; "" leaves the matcher out,
// which matches all tools.
func grouped(matcher string, hook map[string]any, events ...string) []Edit {
	var out []Edit
	for _, event := range events {
		group := map[string]any{"hooks": []any{hook}}
		if matcher != "" && event != "SessionEnd" {
			group["matcher"] = matcher
		}
		out = append(out, Edit{Path: []string{"hooks", event}, Value: group, List: true})
	}
	return out
}

func claudeEdits(scope Scope, command string) []Edit {
	before := commandHook(command, hookSeconds)
	before["onFailure"] = "block"
	out := append(grouped("", before, "PreToolUse"), grouped("", commandHook(command, hookSeconds), "PostToolUse", "PostToolUseFailure", "SessionEnd")...)
	if scope != Managed { // settings of a project that switch hooks off are weaker than these
		out = append(out, Edit{Path: []string{"disableAllHooks"}, Value: false})
	}
	return out
}

// codexEdits switch hooks on in the machine's settings, which those of a person or a project
// cannot undo. managed_dir must exist; the command is a whole path, so it is used for nothing.
func codexEdits(scope Scope, command string) []Edit {
	var out []Edit
	if scope == Managed {
		out = []Edit{
			{Path: []string{"features", "hooks"}, Value: true},
			{Path: []string{"hooks", "managed_dir"}, Value: filepath.Dir(program(command))},
		}
	}
	return append(out, grouped("", commandHook(command, hookSeconds), "PreToolUse", "PostToolUse", "SessionEnd")...)
}

func copilotEdits(_ Scope, command string) []Edit {
	out := []Edit{{Path: []string{"version"}, Value: 1}}
	for _, event := range []string{"preToolUse", "postToolUse", "sessionEnd"} {
		out = append(out, Edit{Path: []string{"hooks", event}, List: true, Value: map[string]any{"type": "command", "bash": command, "timeoutSec": hookSeconds}})
	}
	return out
}

func cursorEdits(_ Scope, command string) []Edit {
	out := []Edit{{Path: []string{"version"}, Value: 1}}
	// Older versions ask only some of these events.
	for _, event := range []string{"preToolUse", "beforeShellExecution", "beforeReadFile", "beforeMCPExecution"} {
		out = append(out, Edit{Path: []string{"hooks", event}, List: true, Value: map[string]any{"command": command, "timeout": hookSeconds, "failClosed": true}})
	}
	for _, event := range []string{"postToolUse", "postToolUseFailure", "sessionEnd"} {
		out = append(out, Edit{Path: []string{"hooks", event}, List: true, Value: map[string]any{"command": command, "timeout": hookSeconds}})
	}
	return out
}

// antigravityEdits name the event in the command line, because Antigravity's events do not name themselves. The file has hooks by
// their names.
func antigravityEdits(_ Scope, command string) []Edit {
	out := []Edit{{Path: []string{"remit", "enabled"}, Value: true}}
	for _, event := range []string{"PreToolUse", "PostToolUse"} {
		group := map[string]any{"matcher": ".*", "hooks": []any{commandHook(command+eventFlag+event, hookSeconds)}}
		out = append(out, Edit{Path: []string{"remit", event}, Value: group, List: true})
	}
	return out
}

// eventFlag is what stands between a hook's command and the name of an event, for agents whose events do not name themselves.
const eventFlag = " --event "

// isHook reports whether a command line in an agent's settings is that of the hook.
func isHook(line any, command string) bool {
	text, _ := line.(string)
	return text == command || strings.HasPrefix(text, command+eventFlag)
}

// claudeNative are the tools of Claude Code itself, current and former. With --mcp-only all are
// denied, so that only the tools of MCP servers remain.
var claudeNative = []string{
	"Agent", "Bash", "BashOutput", "Brief", "Config", "CronCreate", "CronDelete", "CronList", "Edit", "EnterWorktree", "ExitWorktree", "Glob", "Grep",
	"KillBash", "KillShell", "LS", "LSP", "Monitor", "MultiEdit", "NotebookEdit", "NotebookRead", "PowerShell", "PushNotification", "REPL", "Read",
	"RemoteTrigger", "ScheduleWakeup", "SendMessage", "SendUserFile", "Skill", "SlashCommand", "Task", "TaskOutput", "TaskStop", "TeamCreate", "TeamDelete",
	"WebFetch", "WebSearch", "Workflow", "Write",
}

func mcpOnlyEdits() []Edit {
	var out []Edit
	for _, name := range claudeNative {
		out = append(out, Edit{Path: []string{"permissions", "deny"}, Value: name, List: true})
	}
	return out
}

// place is the configuration file of an agent in a scope.
func (a agent) place(scope Scope, s *Clients, folder string) (place, error) {
	name, ok := a.files[scope]
	if !ok {
		return place{}, fault.New(fault.Usage, "%s has no %s configuration that hooks can be installed in", a.title, scope).
			WithHint("leave --%s out", scope)
	}
	switch scope {
	case Project:
		return place{folder, name}, nil
	case Managed:
		return place{s.Root, name}, nil
	}
	if dir, _ := s.Home.Lookup(a.homeEnv); a.homeEnv != "" && filepath.IsAbs(dir) {
		_, rest, _ := strings.Cut(name, "/")
		return place{dir, rest}, nil
	}
	if s.Home.UserHome == "" {
		return place{}, fault.New(fault.Usage, "your home folder is not known").WithHint("set HOME")
	}
	return place{s.Home.UserHome, name}, nil
}
