package extension

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/base/tool"
)

// Command is a slash command.
type Command struct {
	Name        string // without the slash
	Summary     string
	Description string
	Examples    []string
	Actions     []Action
	Line        int // in commands.yaml
}

// Action finds an action by its ID, nil if there is none.
func (c *Command) Action(id string) *Action {
	for i := range c.Actions {
		if c.Actions[i].ID == id {
			return &c.Actions[i]
		}
	}
	return nil
}

// Action is one action of a command.
type Action struct {
	ID          string
	Description string
	Runner      Runner
	Arguments   []Param // in the order in which they are written
	Flags       []Param
	With        map[string]any // arguments that are always the same, of runners that call a tool; nil: none
	Risk        tool.Risk      // at least; the inferred risk may be higher

	// Of exec runners:
	Argv      []string // the words before what the call adds; nil: the action's ID
	Workspace bool     // it starts in the workspace, not in the extension's work folder
	Separator bool     // the word -- before the arguments, which may then begin with a dash
	Line      int      // in commands.yaml
}

// Params are the arguments and the flags.
func (a *Action) Params() []Param { return slices.Concat(a.Arguments, a.Flags) }

// Param is an argument or a flag.
type Param struct {
	Name        string
	Description string
	Type        Type
	Required    bool
	Repeat      bool // any number of values; of arguments only the last may be
	Default     any  // as decoded JSON; nil: none
	Choices     []string
	Within      tool.ActionKind // the kind of the value: a path or URL that the policy decides on; 0: none
	Short       string          // of a flag: one letter
	Option      string          // of a flag of an exec runner, as the program has it: "--depth=", "-n"; "": --NAME=
}

// Type is the type of a value.
type Type string

// The types.
const (
	String  Type = "string"
	Integer Type = "integer"
	Number  Type = "number"
	Boolean Type = "boolean"
	JSON    Type = "json" // any value, written as JSON
)

// RunnerKind says what carries an action out.
type RunnerKind string

// The kinds of runners.
const (
	RunExec    RunnerKind = "exec"    // a program: the extension's own, or one of the trusted PATH
	RunWASM    RunnerKind = "wasm"    // a module of the extension's
	RunTool    RunnerKind = "tool"    // a built-in tool
	RunAPI     RunnerKind = "api"     // an operation of an OpenAPI document
	RunMCP     RunnerKind = "mcp"     // a tool of an MCP server
	RunAnalyze RunnerKind = "analyze" // the session's last response, by a model where it takes one
)

// Runner is what carries an action out.
type Runner struct {
	Kind RunnerKind
	Name string // the program, the module, the built-in tool, "response" or "schema"; of api and mcp as in a tool's ID: "forge:latestRelease"
	Text string // as written
}

// Tool is the ID of the tool that an action without a tool of its own calls; "" of
// one that is a tool itself, and of analyses.
func (r Runner) Tool() tool.ID {
	switch r.Kind {
	case RunTool:
		return tool.ID(r.Name)
	case RunAPI, RunMCP:
		return tool.ID(string(r.Kind) + ":" + r.Name)
	}
	return ""
}

// Own reports whether the action is a tool of the extension itself.
func (r Runner) Own() bool { return r.Kind == RunExec || r.Kind == RunWASM }

// ToolID is the ID of the tool that an action of an extension's command is:
// ext:EXTENSION:COMMAND.ACTION, or ext:EXTENSION:ACTION where the command is called as the
// extension, or as the last part of its ID. It depends on nothing else, so that it stays the same
// when actions and commands are added.
func ToolID(ext, command, action string) tool.ID {
	last := ext[strings.LastIndexByte(ext, '.')+1:]
	if command == ext || command == last {
		return tool.ID("ext:" + ext + ":" + action)
	}
	return tool.ID("ext:" + ext + ":" + command + "." + action)
}

// The forms of names in commands.
var (
	commandForm = regex.Lazy(`^[a-z][a-z0-9]*([_-][a-z0-9]+)*$`)
	paramForm   = regex.Lazy(`^[A-Za-z][A-Za-z0-9_]*(-[A-Za-z0-9_]+)*$`)
	programForm = regex.Lazy(`^[A-Za-z0-9][A-Za-z0-9._+-]*$`)
	optionForm  = regex.Lazy(`^-(-?[A-Za-z0-9][A-Za-z0-9_.-]*)=?$`)
)

const (
	maxName     = 40
	maxCommands = 100
	maxActions  = 200
	maxParams   = 50
)

// reserved are names of commands that are Remit's own, now or later.
var reserved = []string{"help", "call", "tools", "tool", "commands", "quit", "exit", "clear", "new", "session", "sessions", "agent", "agents", "model", "models",
	"history", "policy", "grant", "approve", "approvals", "deny", "allow", "run", "runs", "show", "report", "replay", "verify", "undo", "changes", "ext",
	"extension", "extensions", "mcp", "api", "secret", "audit", "doctor", "version", "settings", "config", "login", "logout", "remit", "status", "stop", "pause", "resume", "cancel"}

// Reserved reports whether a command's name is Remit's own.
func Reserved(name string) bool { return slices.Contains(reserved, name) }

// ParseCommands reads commands.yaml, which errors call file. All that is wrong
// with it is told at once, as a fault.List of ExtensionInvalid with line and field.
func ParseCommands(file string, src []byte) ([]Command, error) {
	r := newReader(file, "commands file")
	var out []Command
	if n := r.Read(src); n != nil {
		r.Mapping(n, "", document.Fields{"slash_commands": r.List(maxCommands, func(n *document.Node, f string) {
			c := r.command(n, f)
			if slices.ContainsFunc(out, func(x Command) bool { return x.Name == c.Name }) {
				r.Fail(n, f+".name", "two commands are called /%s", c.Name)
			}
			out = append(out, c)
		})}, "slash_commands")
	}
	return out, r.Err()
}

func (r *reader) command(n *document.Node, field string) Command {
	c := Command{Line: n.Line}
	r.Mapping(n, field, document.Fields{
		"name":        r.String(&c.Name, checkCommand),
		"summary":     r.Prose(&c.Summary, 200),
		"description": r.Prose(&c.Description, 4000),
		"examples": r.List(20, func(n *document.Node, f string) {
			var s string
			r.Prose(&s, 500)(n, f)
			c.Examples = append(c.Examples, s)
		}),
		"maps_to": r.Object(document.Fields{"actions": r.List(maxActions, func(n *document.Node, f string) {
			a := r.action(n, f)
			if c.Action(a.ID) != nil {
				r.Fail(n, f+".id", "two actions are called %s", a.ID)
			}
			c.Actions = append(c.Actions, a)
		})}, "actions"),
	}, "name", "summary", "maps_to")
	c.Name = strings.TrimPrefix(c.Name, "/")
	if !r.Failed() && len(c.Actions) == 0 {
		r.Fail(n, field+".maps_to.actions", "the command has no actionssss")
	}
	return c
}

func checkCommand(s string) error {
	name := strings.TrimPrefix(s, "/")
	switch {
	case len(name) > maxName || !commandForm.MatchString(name):
		return fmt.Errorf("%q is not a valid slash command; expected a slash and lower-case words, as /git or /git-lfs", clip.Text(s, 60))
	case Reserved(name):
		return fmt.Errorf("/%s is reserved", name)
	}
	return nil
}

func checkAction(s string) error {
	switch {
	case len(s) > maxName || !commandForm.MatchString(s):
		return fmt.Errorf("%q is not a valid action ID; expected lower-case words, as get or get-all", clip.Text(s, 60))
	case s == "help":
		return fmt.Errorf("help is reserved: it shows the command's usage")
	}
	return nil
}

func (r *reader) action(n *document.Node, field string) Action {
	a := Action{Line: n.Line}
	var separator, folder *document.Node
	listed := false
	r.Mapping(n, field, document.Fields{
		"id":          r.String(&a.ID, checkAction),
		"description": r.Prose(&a.Description, 2000),
		"runner":      func(n *document.Node, f string) { a.Runner = r.runner(n, f) },
		"arguments":   func(n *document.Node, f string) { listed = true; r.params(&a.Arguments, false)(n, f) },
		"flags":       r.params(&a.Flags, true),
		"with": func(n *document.Node, f string) {
			if r.Each(n, f, func(_, _ *document.Node, _ string) {}) {
				a.With, _ = n.Value().(map[string]any)
			}
		},
		"risk": func(n *document.Node, f string) {
			risk, ok := tool.ParseRisk(n.Text)
			if n.Kind != document.String || !ok {
				r.Fail(n, f, "must be low, medium, high or critical, not %s", n.Describe())
			}
			a.Risk = risk
		},
		"argv":   r.Strings(&a.Argv, maxParams, checkWord),
		"folder": func(n *document.Node, f string) { folder = n; r.choice(&a.Workspace, "workspace", "work")(n, f) },
		"separator": func(n *document.Node, f string) {
			separator = n
			r.Bool(&a.Separator)(n, f)
		},
	}, "id", "description", "runner")
	if !listed && a.Runner.Kind == RunExec {
		a.Arguments = []Param{{Name: "args", Type: String, Repeat: true, Description: "passed on to the program as they are"}}
	}
	r.actionWhole(n, field, &a, separator, folder)
	return a
}

// actionWhole checks what concerns several keys of an action.
func (r *reader) actionWhole(n *document.Node, field string, a *Action, separator, folder *document.Node) {
	if a.Runner.Kind != RunExec && a.Runner.Kind != "" {
		for key, given := range map[string]bool{"argv": a.Argv != nil, "separator": separator != nil, "folder": folder != nil} {
			if given {
				r.Fail(n, field+"."+key, "is for actions with an exec runner, and this one's is %s", a.Runner.Text)
			}
		}
	}
	if a.Runner.Tool() == "" && a.With != nil && a.Runner.Kind != "" {
		r.Fail(n, field+".with", "is for actions that call another tool, and this one's runner is %s", a.Runner.Text)
	}
	seen := map[string]bool{}
	for name := range a.With {
		seen[name] = true
	}
	short := map[string]bool{}
	for i, p := range a.Params() {
		where := fmt.Sprintf("%s.arguments[%d]", field, i)
		if at := i - len(a.Arguments); at >= 0 {
			where = fmt.Sprintf("%s.flags[%d]", field, at)
		}
		switch {
		case seen[p.Name]:
			r.Fail(n, where+".name", "two of the action's arguments and flags are called %s", p.Name)
		case p.Short != "" && short[p.Short]:
			r.Fail(n, where+".short", "two of the action's flags have the letter %s", p.Short)
		case p.Option != "" && a.Runner.Kind != RunExec && a.Runner.Kind != "":
			r.Fail(n, where+".option", "is for actions with an exec runner, and this one's is %s", a.Runner.Text)
		case p.Within != 0 && !a.Runner.Own() && a.Runner.Kind != "":
			r.Fail(n, where+".within", "is for actions with an exec or wasm runner: the tool that this one calls declares its own needs")
		case i < len(a.Arguments)-1 && p.Repeat:
			r.Fail(n, where+".repeat", "only the last argument may be repeated")
		case i > 0 && i < len(a.Arguments) && p.Required && !a.Arguments[i-1].Required:
			r.Fail(n, where+".required", "it follows an argument that can be left out")
		}
		seen[p.Name], short[p.Short] = true, true
	}
}

func (r *reader) runner(n *document.Node, field string) Runner {
	s, ok := r.Text(n, field)
	if !ok {
		return Runner{}
	}
	kind, name, _ := strings.Cut(s, ".")
	out := Runner{Kind: RunnerKind(kind), Name: name, Text: s}
	bad := func(format string, args ...any) {
		r.Fail(n, field, "%q: "+format, append([]any{clip.Text(s, 60)}, args...)...)
	}
	switch out.Kind {
	case RunExec:
		out.Name = strings.TrimSuffix(strings.TrimSuffix(name, "_cli"), "_tool")
		if len(out.Name) > maxName || !programForm.MatchString(out.Name) {
			bad("write exec. and the name of a program")
		}
	case RunWASM:
		if len(name) > maxName || !programForm.MatchString(name) {
			bad("write wasm. and the name of a module, without .wasm")
		}
	case RunTool:
		if _, err := tool.ParseID(name); err != nil || strings.Contains(name, ":") {
			bad("write tool. and the ID of a built-in tool, as tool.http.get")
		}
	case RunAPI, RunMCP:
		source, leaf, ok := strings.Cut(name, ".")
		out.Name = source + ":" + leaf
		if _, err := tool.ParseID(kind + ":" + out.Name); err != nil || !ok || source == "" || leaf == "" {
			bad("write %s.NAME.TOOL", kind)
		}
	case RunAnalyze:
		if name != "response" && name != "schema" {
			bad("there are analyze.response and analyze.schema")
		}
	default:
		bad("there are the runners exec, wasm, tool, api, mcp and analyze")
	}
	return out
}

func checkWord(s string) error {
	if s == "" || strings.ContainsRune(s, 0) {
		return errors.New("must not be empty or contain a NUL byte")
	}
	return nil
}

// choice makes a field of one of two words; into says whether it is yes.
func (r *reader) choice(into *bool, yes, no string) document.Field {
	return func(n *document.Node, field string) {
		if n.Kind != document.String || n.Text != yes && n.Text != no {
			r.Fail(n, field, "must be %s or %s, not %s", no, yes, n.Describe())
		}
		*into = n.Text == yes
	}
}
