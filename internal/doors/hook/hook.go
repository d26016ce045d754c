// Package hook translates between Remit and the hooks of other agents, which call a program
// before and after each of their tool calls. An event of the agent becomes calls of the
// catalog, and the verdict on them becomes the answer that the agent understands. The
// package is pure and decides nothing: the runner does. A tool that it does not know becomes a
// call under the tool's own name. Start at [Parse] and [Event.Answer].
package hook

import (
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/doors/hookwire"
)

// Bounds of an event. An agent's report carries the whole output of a tool.
const (
	maxValues  = 100_000
	maxSession = 200  // bytes of a session's ID, and of a call's
	maxCalls   = 1000 // calls of one event that are decided and recorded
)

// MaxCalls bounds the calls of one event that are decided and recorded.
const MaxCalls = maxCalls

// Phase is the phase of a call in which an event occurs.
type Phase uint8

// The phases. The zero Phase refuses.
const (
	Invalid Phase = iota
	Before        // the agent asks whether it may carry out a tool call
	After         // the agent reports how a tool call ended
	End           // the agent's session ended
	Other         // nothing to decide or record
)

// Call is one call of the catalog.
type Call struct {
	Tool tool.ID
	Args tool.Args

	// Argument is the place of the argument of an unknown tool behind the call, as files[0].path; "": the call is the agent's own
	// tool.
	Argument string
	// Guess: the argument may also be plain text. The call counts if its file exists, or if an entry of the policy is about it.
	Guess bool
	// Text: the argument may also be plain text, although its file exists.
	Text bool
	// Absent: nothing can be at the path, because its folder does not exist.
	Absent bool
}

// Event is what an agent told.
type Event struct {
	Agent   string // the dialect
	Phase   Phase
	Session string // the agent's ID of its session
	Dir     string // absolute: where the agent's relative paths start
	// Transcript is the file in which the agent keeps the session's conversation; "": it does not say.
	Transcript string
	ID         string // the agent's ID of the tool call; "": it has none
	Tool       string // the agent's name of the tool
	Server     string // the MCP server that has the tool; "": it is the agent's own

	// Calls are what the tool call amounts to. All must be allowed.
	Calls []Call
	// Texts are texts in arguments of an unknown tool, each a guess if a file of this name exists.
	Texts []Text
	// Search are the files and folders whose content the call searches: each file below them
	// must be readable.
	Search []string
	// Internal: the tool reaches nothing outside the agent.
	Internal bool
	// Skill is the skill that an internal tool starts; "": none. The agent may run commands of
	// the skill's file without an event.
	Skill string
	// Needs is a file that must exist: otherwise the agent looks for another one of that name.
	Needs string
	// Refusal is why the tool call cannot be judged; "": it can.
	Refusal string
	// Asks: the agent asks its user where the verdict is [policy.Ask].
	Asks bool

	// Of After: why the call failed ("": it completed), and its output.
	Failed string
	Output map[string]any

	name    string                            // of the event, as the agent wrote it
	result  any                               // of After: the output as the agent wrote it
	unread  string                            // of After: why the output is not whole; "": it is
	masked  func(masked any, note string) any // the answer that replaces result; nil: the agent cannot be told so
	answer  func(e *Event, v Verdict) any
	input   object // of a shell command, or of a search that can be narrowed: the tool's input
	narrow  bool   // the names of files can be left out of the search
	replace func(input object, v Verdict) any
	without []string // the names that are left out
	silent  string   // of After: what stands for no answer
}

// Verdict is the decision on an event's calls. The zero Verdict denies.
type Verdict struct {
	Effect policy.Effect
	Reason string // for the agent and its user
}

// dialect reads the events of one agent.
type dialect func(e *Event, m object) error

// dialects are the agents whose events are known.
var dialects = map[string]dialect{
	"antigravity": antigravity, "claude": claude, "codex": codex, "copilot": copilot, "cursor": cursor, "gemini": gemini, "generic": generic,
}

// Agents names the known agents, sorted.
func Agents() []string {
	var out []string
	for name := range dialects {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// Parse reads an event of an agent. An error means that the event cannot be understood; the
// agent must then not carry out the call. A report that has an error, or that can be read only leniently, is returned too,
// because the agent has carried the call out, and [Event.MaskKeys] must still mask the output.
func Parse(agent string, src []byte) (*Event, error) { return ParseNamed(agent, "", src) }

// ParseNamed is Parse for an event whose name the hook's command line has; "": the event has it. Only events of Antigravity
// do not name themselves.
func ParseNamed(agent, name string, src []byte) (*Event, error) {
	read, ok := dialects[agent]
	if !ok {
		return nil, fault.New(fault.Usage, "%.40q is not a known agent", agent).WithHint("expected one of %s", strings.Join(Agents(), ", "))
	}
	if name != "" && agent != "antigravity" {
		return nil, fault.New(fault.Usage, "the events of %s name themselves", agent).WithHint("leave --event out")
	}
	src = canon.WithoutMark(src)
	v, err := decode(src)
	if err != nil {
		return reported(read, &Event{Agent: agent, name: name}, src, err)
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fault.New(fault.Usage, "the event is not a JSON object")
	}
	agent = sender(agent, m)
	e := &Event{Agent: agent, name: name}
	read = dialects[agent]
	if err := e.read(read, m); err != nil {
		return e.ifReport(), err
	}
	if e.Phase == Other || e.Phase == End {
		return e, object(m).noTool(e.name)
	}
	return e, nil
}

// sender is the agent that sent an event to the hook of an agent: some run the hooks of others, too.
func sender(agent string, m object) string {
	switch {
	case agent == "claude" && isCursors(m):
		return "cursor"
	case (agent == "claude" || agent == "gemini") && isAntigravitys(m):
		return "antigravity"
	case agent == "antigravity" && isGeminis(m):
		return "gemini"
	}
	return agent
}

func decode(src []byte) (any, error) {
	if len(src) > hookwire.MaxEvent || canon.Values(src) > maxValues {
		return nil, fault.New(fault.Usage, "the event is too large; the limits are %d bytes and %d values", hookwire.MaxEvent, maxValues)
	}
	v, err := canon.Decode(src)
	if err != nil {
		return nil, fault.New(fault.Usage, "the event is not valid JSON: %v", err)
	}
	return v, nil
}

// reported reads an event that decode refuses, if it is a report. The output of one that is not whole is withheld.
func reported(read dialect, e *Event, src []byte, refused error) (*Event, error) {
	v, whole := canon.DecodeLenient(src[:min(len(src), hookwire.MaxEvent)], maxValues)
	m, _ := v.(map[string]any)
	err := e.read(read, m)
	if whole && err == nil && e.Phase == After && len(src) <= hookwire.MaxEvent {
		return e, nil
	}
	if !whole || len(src) > hookwire.MaxEvent {
		e.unread = fault.ForModel(refused)
	}
	return e.ifReport(), refused
}

func (e *Event) read(dialect dialect, m object) error {
	if err := dialect(e, m); err != nil {
		return err
	}
	return e.check()
}

// ifReport is the event if it is a report; nil: it is not.
func (e *Event) ifReport() *Event {
	if e.Phase != After {
		return nil
	}
	return e
}

// carriers are the fields, as fold gives them, that say that an event is about a tool call.
var carriers = []string{
	"toolname", "tool", "toolinput", "toolargs", "toolcall", "toolcalls", "tooluse", "toolarguments", "toolparams", "function", "functioncall", "arguments", "args", "input",
	"mcpcontext", "command", "script", "cmd", "filepath", "path", "url", "edits", "patch",
}

// noTool refuses an event that is not known and is about a tool call: it would pass undecided.
func (o object) noTool(event string) error {
	for name, v := range o {
		if v != nil && v != "" && slices.Contains(carriers, fold(name)) {
			return fault.New(fault.Usage, "the event %.80q is not known, but its field %.80q is of a tool call", event, name).
				WithHint("run the hook of the agent that sends the event: remit hook AGENT")
		}
	}
	return nil
}

// check refuses an event without the facts that its phase needs.
func (e *Event) check() error {
	switch {
	case e.Phase == Invalid:
		return fault.New(fault.Usage, "the event %.80q is not known", e.name)
	case e.Phase == Other:
		return nil
	case !isName(e.Session):
		return fault.New(fault.Usage, "the session's ID %.80q is not valid; expected 1 to %d visible characters", e.Session, maxSession)
	case e.Phase == End:
		return nil
	case e.ID != "" && !isName(e.ID):
		return fault.New(fault.Usage, "the call's ID %.80q is not valid; expected up to %d visible characters", e.ID, maxSession)
	case len(e.Calls) == 0 && !e.Internal && e.Refusal == "" && (e.Phase != After || e.ID == ""):
		return fault.New(fault.Internal, "the tool %.80q was not translated", e.Tool)
	case len(e.Calls) > maxCalls && e.About() == "":
		return fault.New(fault.Usage, "the request has %d parts; the limit is %d", len(e.Calls), maxCalls)
	}
	return nil
}

// isName reports whether s can stand in the record as the name of a session or call.
func isName(s string) bool {
	return s != "" && len(s) <= maxSession && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsGraphic(r) })
}

// Answer is what the hook prints for a verdict: one JSON object, or nothing where the agent
// goes on without an answer.
func (e *Event) Answer(v Verdict) ([]byte, error) {
	if e.Phase == After && e.silent != "" {
		return []byte(e.silent), nil
	}
	if e.Phase != Before || e.Internal || e.Skill != "" && v.Effect == policy.Allow { // Claude Code asks its own question about a skill
		return nil, nil
	}
	if v.Effect == policy.Ask && !e.Asks {
		v.Effect = policy.Deny
	}
	if v.Reason == "" {
		v.Reason = "decided by remit"
	}
	out := e.answer(e, v)
	if e.without != nil && v.Effect != policy.Deny {
		v.Reason += "; files with these names are left out: " + strings.Join(e.without, ", ")
		out = e.replace(e.input, v)
	}
	if out == nil {
		return nil, nil
	}
	b, err := canon.Marshal(out)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the answer cannot be encoded")
	}
	return append(b, '\n'), nil
}

// Script returns the script for the agent's shell; ok reports that the event is about a command of that shell. A command in
// an argument of an unknown tool is not.
func (e *Event) Script() (script string, ok bool) {
	for _, c := range e.Calls {
		if e.Phase == Before && c.Tool == "shell.run" && c.Argument == "" {
			script, _ = c.Args["script"].(string)
			return script, true
		}
	}
	return "", false
}

// Folder is where the agent carries out the call: a command can have a folder of its own.
func (e *Event) Folder() string {
	for _, c := range e.Calls {
		if dir, ok := c.Args["cwd"].(string); ok && c.Tool == "shell.run" {
			return dir
		}
	}
	return e.Dir
}

// Replace is the hook's output that has the agent's shell run another command line. With questions, the agent first puts
// them to its user. An agent that cannot be told so is an error.
func (e *Event) Replace(commandLine string, questions []string) ([]byte, error) {
	if e.input == nil || e.replace == nil || len(e.Calls) != 1 {
		return nil, fault.New(fault.Usage, "%s cannot be told to run a command in the sandbox", e.Agent).
			WithHint("leave --confine out, or run the agent itself with remit exec")
	}
	in := maps.Clone(e.input)
	in["command"] = commandLine
	v := Verdict{Effect: policy.Allow, Reason: "remit decides and confines it"}
	if len(questions) > 0 {
		v = Verdict{Effect: policy.Ask, Reason: "remit asks: " + strings.Join(questions, "; ")}
	}
	b, err := canon.Marshal(e.replace(in, v))
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the answer cannot be encoded")
	}
	return append(b, '\n'), nil
}

// OwnFiles puts calls of the agent's tools for its own files in the place of calls of file tools, if all files of the event
// are its own. of is the tool for reading or writing a path; "": it is another file.
func (e *Event) OwnFiles(of func(path string, write bool) tool.ID) {
	calls := slices.Clone(e.Calls)
	for i, c := range calls {
		write := c.Tool == "fs.write" || c.Tool == "fs.edit"
		path, _ := c.Args["path"].(string)
		if c.Guess {
			continue
		}
		if strings.HasPrefix(string(c.Tool), tool.AgentTools) || strings.HasPrefix(string(c.Tool), "mcp:") {
			continue // decided by itself
		}
		if !write && !slices.Contains([]tool.ID{"fs.read", "fs.list", "fs.grep"}, c.Tool) {
			return
		}
		if calls[i].Tool = of(path, write); calls[i].Tool == "" {
			return
		}
	}
	if !slices.ContainsFunc(e.Search, func(path string) bool { return of(path, false) == "" }) {
		e.Calls, e.Search = calls, nil
	}
}

// refuse notes why the event's tool call cannot be judged.
func (e *Event) refuse(format string, args ...any) error {
	e.Refusal = fault.New(fault.Denied, format, args...).Msg
	return nil
}

// call adds a call.
func (e *Event) call(id tool.ID, args tool.Args) error {
	e.Calls = append(e.Calls, Call{Tool: id, Args: args})
	return nil
}
