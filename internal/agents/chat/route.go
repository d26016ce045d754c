// Package chat parses slash commands: it finds the extension's action for a line, and its
// arguments. The caller makes the call. It also defines the stored form of a session's last
// response. Start at [NewRouter] and [Router.Route].
package chat

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/near"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/extension"
)

// Extension is the router's view of an installed extension.
type Extension struct {
	ID       string
	Name     string
	Off      string // why its commands cannot be used, as "is disabled"; "": they can
	Hint     string // advice about Off
	Commands []extension.Command
}

// Route is the meaning of a line.
type Route struct {
	Command     string         `json:"command"` // without the slash
	Extension   string         `json:"extension"`
	Action      string         `json:"action"`
	Runner      string         `json:"runner"`
	Args        []string       `json:"args"` // as written
	Flags       map[string]any `json:"flags"`
	Description string         `json:"description"`
	Usage       string         `json:"usage"`
	// Tool is the tool to call; "": an analysis, which chooses the tool.
	Tool tool.ID `json:"tool,omitempty"`
	// Input is the tool's arguments.
	Input map[string]any `json:"-"`
	// Help says that help is wanted instead of a call, on Topic; "": on all commands.
	Help  bool   `json:"-"`
	Topic string `json:"-"`

	Kind extension.RunnerKind `json:"-"`
	Name string               `json:"-"` // of an analysis: "response" or "schema"
}

// Router knows the commands. It does not change, so that any number of goroutines can use
// it; after a change of extensions a new one is made.
type Router struct {
	commands map[string]*known
	names    []string // sorted
	docs     func(ext string) (string, error)
}

type known struct {
	ext     *Extension
	command *extension.Command
}

// NewRouter makes a router for the installed extensions. docs gives an extension's usage
// document for help; nil: there are none. Two commands with the same name are an error
// (ExtensionConflict).
func NewRouter(list []Extension, docs func(ext string) (string, error)) (*Router, error) {
	r := &Router{commands: map[string]*known{}, docs: docs}
	for i := range list {
		e := &list[i]
		for k := range e.Commands {
			c := &e.Commands[k]
			if was := r.commands[c.Name]; was != nil {
				return nil, fault.New(fault.ExtensionConflict, "the extensions %s and %s both have a command /%s", was.ext.ID, e.ID, c.Name).
					WithHint("remove one of them")
			}
			if extension.Reserved(c.Name) {
				return nil, fault.New(fault.ExtensionConflict, "the extension %s has a command /%s, which is reserved for Remit", e.ID, c.Name)
			}
			r.commands[c.Name] = &known{e, c}
		}
	}
	r.names = append(slices.Collect(maps.Keys(r.commands)), "call", "help")
	slices.Sort(r.names)
	return r, nil
}

// Commands lists the names of all commands, sorted, without their slash.
func (r *Router) Commands() []string { return slices.Clone(r.names) }

// IsCommand reports whether a line is a slash command, known or not: it starts with a
// slash and a letter. Other lines are messages.
func IsCommand(line string) bool {
	line = strings.TrimLeft(line, " \t\r\n")
	return len(line) > 1 && line[0] == '/' && (line[1]|0x20 >= 'a' && line[1]|0x20 <= 'z')
}

// Route gives the meaning of a line. Errors are CommandUnknown and CommandInvalid, with the
// column and a suggestion.
func (r *Router) Route(line string) (Route, error) {
	words, err := Split(line)
	if err != nil {
		return Route{}, err
	}
	if len(words) == 0 || !strings.HasPrefix(words[0].Text, "/") || words[0].Quoted {
		return Route{}, wrong(line, 0, "a slash command must start with a slash, as /help")
	}
	name, rest := words[0].Text[1:], words[1:]
	switch name {
	case "help":
		return r.help(line, rest)
	case "call":
		return routeCall(line, rest)
	}
	k := r.commands[name]
	if k == nil {
		return Route{}, r.unknown(line, words[0], name)
	}
	if k.ext.Off != "" {
		return Route{}, wrongCode(fault.CommandUnknown, line, words[0].At, "/%s is a command of the extension %s, which %s", name, k.ext.ID, k.ext.Off).
			WithHint("%s", k.ext.Hint)
	}
	if wantsHelp(rest) {
		return Route{Command: name, Extension: k.ext.ID, Help: true, Topic: name, Description: k.command.Summary, Usage: usageOf(k.command)}, nil
	}
	a, after, err := k.action(line, rest)
	if err != nil {
		return Route{}, err
	}
	out, err := k.route(line, a, after)
	if err != nil && len(after) == len(rest) && len(rest) > 0 && near.Word(rest[0].Text, []string{a.ID}) != "" {
		return out, wrongCode(fault.CommandUnknown, line, rest[0].At, "/%s has no action %q", name, clip.Text(rest[0].Text, 60)).WithHint("did you mean %q?", "/"+name+" "+a.ID)
	}
	return out, err
}

func wrongCode(code fault.Code, line string, at int, format string, args ...any) *fault.Error {
	e := wrong(line, at, format, args...)
	e.Code = code
	return e
}

func (r *Router) unknown(line string, at Word, name string) error {
	e := wrongCode(fault.CommandUnknown, line, at.At, "unknown command /%s", clip.Text(name, 60))
	if meant := near.Word(name, r.names); meant != "" {
		return e.WithHint("did you mean %q?", "/"+meant)
	}
	return e.WithHint("list the commands with /help")
}

func wantsHelp(rest []Word) bool {
	if len(rest) > 0 && !rest[0].Quoted && (rest[0].Text == "help" || rest[0].Text == "--help") {
		return true
	}
	return len(rest) == 2 && !rest[1].Quoted && rest[1].Text == "--help"
}

// action finds the action that the first word names. The only action of a command need
// not be named.
func (k *known) action(line string, rest []Word) (*extension.Action, []Word, error) {
	if len(rest) > 0 && !rest[0].Quoted {
		if a := k.command.Action(rest[0].Text); a != nil {
			return a, rest[1:], nil
		}
	}
	actions := k.command.Actions
	if len(actions) == 1 {
		return &actions[0], rest, nil
	}
	ids := make([]string, len(actions))
	for i := range actions {
		ids[i] = actions[i].ID
	}
	if len(rest) == 0 {
		return nil, nil, wrongCode(fault.CommandUnknown, line, len(line), "/%s needs an action", k.command.Name).WithHint("its actions are %s; see /%s help", strings.Join(ids, ", "), k.command.Name)
	}
	e := wrongCode(fault.CommandUnknown, line, rest[0].At, "/%s has no action %q", k.command.Name, clip.Text(rest[0].Text, 60))
	if meant := near.Word(rest[0].Text, ids); meant != "" {
		return nil, nil, e.WithHint("did you mean %q?", "/"+k.command.Name+" "+meant)
	}
	return nil, nil, e.WithHint("its actions are %s", strings.Join(ids, ", "))
}

func (k *known) route(line string, a *extension.Action, rest []Word) (Route, error) {
	out := Route{Command: k.command.Name, Extension: k.ext.ID, Action: a.ID, Runner: a.Runner.Text, Args: []string{}, Flags: map[string]any{},
		Description: a.Description, Usage: Usage(k.command, a), Kind: a.Runner.Kind, Name: a.Runner.Name, Input: map[string]any{}}
	b := binder{line: line, action: a, out: &out}
	if err := b.bind(rest); err != nil {
		return Route{}, err
	}
	switch {
	case a.Runner.Own():
		out.Tool = extension.ToolID(k.ext.ID, k.command.Name, a.ID) // its tool knows the defaults
		return out, nil
	case a.Runner.Tool() != "":
		out.Tool = a.Runner.Tool()
	}
	for _, p := range a.Params() {
		if _, given := out.Input[p.Name]; !given && p.Default != nil {
			out.Input[p.Name] = p.Default
		}
	}
	maps.Copy(out.Input, a.With)
	return out, nil
}

// routeCall parses /call TOOL [JSON] [name=value…].
func routeCall(line string, rest []Word) (Route, error) {
	const usage = "/call TOOL ['{JSON}'] [NAME=VALUE…]"
	if len(rest) == 0 || wantsHelp(rest) {
		return Route{Command: "call", Help: true, Topic: "call", Usage: usage, Description: callSummary}, nil
	}
	id := rest[0].Text
	if _, err := tool.ParseID(id); err != nil {
		return Route{}, wrong(line, rest[0].At, "%q is not a valid tool ID", clip.Text(id, 60)).ForOperator("list the tools with `remit tools`")
	}
	out := Route{Command: "call", Action: "call", Runner: "tool." + id, Tool: tool.ID(id), Kind: extension.RunTool, Args: []string{}, Flags: map[string]any{},
		Description: callSummary, Usage: usage, Input: map[string]any{}}
	for i, w := range rest[1:] {
		out.Args = append(out.Args, w.Text)
		if i == 0 && strings.HasPrefix(w.Text, "{") {
			v, err := object(w.Text)
			if err != nil {
				return Route{}, wrong(line, w.At, "the arguments are not a JSON object: %v", err)
			}
			out.Input = v
			continue
		}
		name, value, ok := strings.Cut(w.Text, "=")
		if _, twice := out.Input[name]; !ok || name == "" || twice {
			return Route{}, wrong(line, w.At, "%q is not NAME=VALUE, or the argument already has a value", clip.Text(w.Text, 60)).WithHint("usage: %s", usage)
		}
		out.Input[name] = value
	}
	return out, nil
}

const callSummary = "Calls a tool of the catalog with arguments as they are"

// Usage is the syntax of an action, in one line.
func Usage(c *extension.Command, a *extension.Action) string {
	parts := []string{"/" + c.Name}
	if len(c.Actions) > 1 {
		parts = append(parts, a.ID)
	}
	for _, p := range a.Arguments {
		s := strings.ToUpper(p.Name)
		if p.Repeat {
			s += "…"
		}
		if !p.Required {
			s = "[" + s + "]"
		}
		parts = append(parts, s)
	}
	for _, p := range a.Flags {
		s := "--" + p.Name
		if p.Type != extension.Boolean {
			s += " " + strings.ToUpper(string(p.Type))
		}
		if !p.Required {
			s = "[" + s + "]"
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, " ")
}

func usageOf(c *extension.Command) string {
	if len(c.Actions) == 1 {
		return Usage(c, &c.Actions[0])
	}
	return fmt.Sprintf("/%s ACTION …", c.Name)
}
