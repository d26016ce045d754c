package hook

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/base/tool"
)

// Bounds of the search for files, URLs and commands in arguments.
const (
	maxInside   = 8      // texts that are JSON, one inside of the other
	maxNamed    = 10_000 // files, URLs and commands of one event
	maxGuessed  = 4096   // bytes of a text that may be a path
	maxUsualURL = 16384  // bytes of a URL
	maxName     = 200    // bytes of an argument's place in a message
	maxWrapped  = 8      // schemes before a URL itself, as jar:
)

// namer finds the files, URLs and commands that the arguments of an unknown tool name.
type namer struct {
	e      *Event
	seen   map[string]bool
	inside int
}

// UnknownTool gives the event of a tool call that this package does not know: the calls for its arguments, and the call of
// the tool by its name.
func UnknownTool(agent, name, dir string, args map[string]any) (*Event, error) {
	e := &Event{Agent: agent, Phase: Before, Tool: name, Dir: dir}
	return e, e.unknown(args)
}

// unknown adds the calls of a tool that this package does not know: for its arguments, and for the tool by its name.
func (e *Event) unknown(in object) error {
	id := tool.ID(tool.AgentTools + e.Agent + ":" + e.Tool)
	if _, err := tool.ParseID(string(id)); err != nil {
		return e.refuse("remit does not know the tool %.80q of %s, and no policy can name it", e.Tool, e.Agent)
	}
	if in == nil {
		in = object{}
	}
	n := namer{e: e, seen: map[string]bool{}}
	n.value(place{}, map[string]any(in))
	if len(e.Calls) >= maxNamed || len(e.Texts) >= maxTexts {
		e.Calls, e.Texts = nil, nil
		return e.refuse("the arguments of the tool %.80q of %s name more than %d files, URLs and commands, or %d texts that may be files; split the call", e.Tool, e.Agent, maxNamed, maxTexts)
	}
	if e.Phase == After {
		e.Calls = e.Calls[:min(len(e.Calls), maxCalls-1)]
	}
	return e.call(id, tool.Args(in)) // last, because a denied file ends the call without a question
}

// value adds calls for the files, URLs and commands in a value. A file counts as read: other uses of it by the tool are not known.
func (n *namer) value(p place, v any) {
	if len(n.e.Calls) >= maxNamed {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		program := n.line(p, v)
		for _, name := range slices.Sorted(maps.Keys(v)) {
			n.text(place{name: p.name, path: p.path.below(), url: p.url.belowName(), excluded: p.excluded}, name) // {"files": {"a.txt": "…"}}
			in := p.field(name)
			if is, _ := endsWith(name, argsWords); is && program && in.command == hinted {
				in.command = unnamed // they are the program's
			}
			n.value(in, v[name])
		}
	case []any:
		if words, ok := texts(v); ok && p.command != unnamed {
			n.script(p, quoted(words), p.command != named)
		}
		for i, one := range v {
			in := p
			in.name = clip.Prefix(fmt.Sprintf("%s[%d]", p.name, i), maxName)
			n.value(in, one)
		}
	case several:
		for _, one := range v {
			n.value(p, one)
		}
	case string:
		n.text(p, v)
	}
}

// several are the values of equal names in one object.
type several []any

// each gives the values of a name.
func each(v any) []any {
	if s, ok := v.(several); ok {
		return s
	}
	return []any{v}
}

// line adds the commands of an object that has a program and its arguments in two fields, and reports whether it has a program.
func (n *namer) line(p place, m map[string]any) (program bool) {
	var lists, lines []string // the arguments as lists, and each as one text
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if is, _ := endsWith(name, argsWords); !is {
			continue
		}
		for _, v := range each(m[name]) {
			switch v := v.(type) {
			case []any:
				if words, plain := texts(v); plain || len(v) == 0 {
					lists = append(lists, quoted(words))
				}
			case string:
				lines = append(lines, v)
			}
		}
	}
	lists, lines = lists[:min(len(lists), maxCalls)], lines[:min(len(lines), maxCalls)]
	for _, name := range slices.Sorted(maps.Keys(m)) {
		runs, _ := endsWith(name, commandWords)
		maybe, _ := endsWith(name, programWords)
		if !runs && !maybe && p.command == unnamed {
			continue
		}
		for _, v := range each(m[name]) {
			text, ok := v.(string)
			program = program || ok && (runs || maybe)
			for i := 0; ok && i < len(lists); i++ {
				n.script(p.field(name), strings.TrimSpace(text+" "+lists[i]), !runs && !maybe)
			}
			for i := 0; ok && i < len(lines); i++ {
				n.script(p.field(name), strings.TrimSpace(text+" "+lines[i]), true)
			}
		}
	}
	return program
}

// texts are the elements of a list of texts and numbers.
func texts(list []any) (out []string, ok bool) {
	for _, v := range list {
		switch v.(type) {
		case map[string]any, []any, several:
			return nil, false
		case nil:
			v = "null"
		}
		out = append(out, fmt.Sprint(v))
	}
	return out, len(out) > 0
}

// quoted joins words to a command line.
func quoted(words []string) string {
	out := slices.Clone(words)
	for i, w := range out {
		if !plainWord.MatchString(w) {
			out[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}

var (
	plainWord = regex.Lazy(`^[A-Za-z0-9_./:=@%+,-]+$`)
	webURL    = regex.Lazy(`^(?i:https?|wss?):[/\\]*`)
	urlShell  = regex.Lazy(`^(?i:view-source|jar|blob|feed|url):`) // before the URL itself
	hostName  = regex.Lazy(`^([a-zA-Z][a-zA-Z0-9+.-]*:)?(//)?([^/?#@]*@)?(localhost|\[[0-9a-fA-F:.]+\]|[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+\.?)(:[0-9]+)?([/?#].*)?$`)
	sshName   = regex.Lazy(`^(?:[^/?#@]+@)?([A-Za-z0-9.-]+\.[A-Za-z0-9-]+):([^0-9/?#].*)$`)
	drive     = regex.Lazy(`^[A-Za-z]:`)
)

// text adds calls for the file, URL or command in a text.
func (n *namer) text(p place, text string) {
	full := strings.TrimFunc(text, isBlank)
	if full == "" {
		return
	}
	if p.command != unnamed {
		n.script(p, text, p.command != named)
	}
	if n.json(p, full) {
		return
	}
	bare := full
	for i := 0; i < maxWrapped && urlShell.MatchString(bare) && p.command != named; i++ {
		bare, _, _ = strings.Cut(urlShell.ReplaceAllString(bare, ""), "!")
	}
	n.urls(p, bare)
	n.fileURL(p, bare)
	n.pathText(p, full)
}

// urls adds calls for the URLs in a text. Where the argument's name says URL, they are certain, and several can stand in one text.
// A browser reads a text without its line ends and invisible characters, and a blank as %20.
func (n *namer) urls(p place, text string) {
	var found int
	sure := p.url == named || p.url == around
	if p.url != unnamed {
		for _, one := range strings.FieldsFunc(text, isAroundURL) {
			if webURL.MatchString(one) {
				found++
				n.webURL(p, one, !sure || p.url == around && one != text)
			} else if p.url != around && p.path != named {
				n.host(p, one)
			}
		}
	}
	whole := visible(text)
	switch {
	case !webURL.MatchString(whole), found == 1 && strings.TrimFunc(whole, isAroundURL) != whole:
	case sure:
		n.webURL(p, whole, found > 1 || p.url == around && strings.ContainsFunc(whole, isBlank))
	case whole == text && len(text) <= maxUsualURL && !strings.ContainsFunc(text, isBlank):
		n.webURL(p, text, true)
	}
}

// host adds a guess for a text that names a host, also as user@host:path.
func (n *namer) host(p place, text string) {
	text = sshName.ReplaceAllString(text, "$1/$2")
	if hostName.MatchString(text) {
		n.add(p, "http.get", "url", hostName.ReplaceAllString(text, "https://$4$6$7"), true)
	}
}

// isAroundURL reports whether a character ends a URL in a text, or stands before it.
func isAroundURL(r rune) bool { return isBlank(r) || strings.ContainsRune("\"'<>|,;`", r) }

func (n *namer) webURL(p place, text string, guess bool) {
	scheme, _, _ := strings.Cut(strings.ToLower(text), ":")
	scheme = strings.Replace(scheme, "ws", "http", 1)
	n.add(p, "http.get", "url", scheme+strings.ReplaceAll(webURL.ReplaceAllString(text, "://"), " ", "%20"), guess)
}

// visible is a text without line ends and invisible characters.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) {
			return -1
		}
		return r
	}, text)
}

func (n *namer) script(p place, script string, guess bool) {
	if n.e.Phase == After { // a report is about the tool, and its output is not that of Remit's own shell
		return
	}
	n.add(p, "shell.run", "script", script, guess)
}

// add adds a call, unless it is there.
func (n *namer) add(p place, id tool.ID, arg, value string, guess bool) {
	key := fmt.Sprint(id, guess, value)
	if n.seen[key] || len(n.e.Calls) >= maxNamed {
		return
	}
	n.seen[key] = true
	args := tool.Args{arg: value}
	if id == "shell.run" && n.e.Dir != "" {
		args["cwd"] = n.e.Dir
	}
	n.e.Calls = append(n.e.Calls, Call{Tool: id, Args: args, Argument: p.name, Guess: guess})
}

// json is value for a text that is a JSON object or list, or several of them. All values of equal names count. A text that is no JSON
// from some place on counts up to this place.
func (n *namer) json(p place, text string) bool {
	if n.inside >= maxInside || !strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "[") || canon.Values([]byte(text)) > maxValues {
		return false
	}
	n.inside++
	defer func() { n.inside-- }()
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	for {
		v, err := loose(dec, 0)
		n.value(p, v)
		if err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}

// loose reads a JSON value, or its part before an error.
func loose(dec *json.Decoder, depth int) (any, error) {
	t, err := dec.Token()
	if err == nil && depth > canon.MaxDepth {
		err = errors.New("nested too deep")
	}
	if d, nested := t.(json.Delim); err != nil || !nested {
		return t, err
	} else if d == '[' {
		list := []any{}
		for dec.More() {
			v, err := loose(dec, depth+1)
			if list = append(list, v); err != nil {
				return list, err
			}
		}
		_, err = dec.Token()
		return list, err
	}
	object := map[string]any{}
	for dec.More() {
		t, err := dec.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			return object, err
		}
		v, err := loose(dec, depth+1)
		if before, twice := object[name]; twice {
			v = append(several(each(before)), v)
		}
		if object[name] = v; err != nil {
			return object, err
		}
	}
	_, err = dec.Token()
	return object, err
}

// About describes an unknown tool and its arguments for the agent's user; "": the event is of another tool.
func (e *Event) About() string {
	if len(e.Calls) == 0 || !strings.HasPrefix(string(e.Calls[len(e.Calls)-1].Tool), tool.AgentTools) {
		return ""
	}
	var parts []string
	for _, id := range []tool.ID{"shell.run", "http.get", "fs.read"} { // the strongest effect first
		for _, c := range e.Calls {
			if c.Tool == id && c.Argument != "" && !c.Guess && len(parts) <= maxAbout {
				parts = append(parts, c.about())
			}
		}
	}
	if len(parts) > maxAbout {
		parts[maxAbout] = "more"
	}
	if len(parts) == 0 {
		return fmt.Sprintf("the tool %q of %s", e.Tool, e.Agent)
	}
	return fmt.Sprintf("the tool %q of %s with %s", e.Tool, e.Agent, strings.Join(parts, ", "))
}

// maxAbout bounds how many files, URLs and commands a description names.
const maxAbout = 8

// maxShown is how many characters a description shows of a path, a URL or a command. Of a longer one it shows the beginning and the end.
const maxShown = 300

// about names the file, URL or command of a call, and the argument.
func (c Call) about() string {
	names := map[tool.ID][2]string{"fs.read": {"the file", "path"}, "http.get": {"the URL", "url"}, "shell.run": {"the command", "script"}}
	n := names[c.Tool]
	text, _ := c.Args[n[1]].(string)
	if utf8.RuneCountInString(text) <= maxShown {
		return fmt.Sprintf("%s %q (argument %.80q)", n[0], text, c.Argument)
	}
	return fmt.Sprintf("%s %q … %q (argument %.80q, shortened from %d bytes, sha256 %.6x)", n[0], clip.Prefix(text, maxShown/2), clip.Suffix(text, maxShown/2), c.Argument, len(text), sha256.Sum256([]byte(text)))
}

// AboutArgument describes the tool and the argument of a call.
func (e *Event) AboutArgument(i int) string {
	return fmt.Sprintf("the tool %q has %s", e.Tool, e.Calls[i].about())
}

// RefusedMany is the refusal of a call whose arguments name too many files, URLs and commands.
func (e *Event) RefusedMany() error {
	id := tool.AgentTools + e.Agent + ":" + e.Tool
	return fault.New(fault.Denied, "the arguments of the tool %.80q name more than %d files, URLs and commands, and the policy allows this tool without a question", e.Tool, maxCalls).
		WithHint("split the call, or have the policy ask: tools: {ask: [%q]}", id)
}

// RefusedCommand is the refusal of a command in an argument of an unknown tool that a policy allows by its name.
func (e *Event) RefusedCommand(c Call) error {
	id := tool.AgentTools + e.Agent + ":" + e.Tool
	return fault.New(fault.Denied, "the argument %.80q of the tool %.80q has a command, which would run outside of the sandbox, and the policy allows this tool without a question", c.Argument, e.Tool).
		WithHint("use the agent's shell, or have the policy ask: tools: {ask: [%q]}", id)
}
