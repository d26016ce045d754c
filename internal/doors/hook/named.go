package hook

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"path/filepath"
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

// Words in an argument's name, for paths, for commands and their arguments, and for URLs.
var (
	pathWords    = strings.Fields("path paths file files filename filenames filepath filepaths pathname pathnames dir dirs directory directories folder folders cwd workdir uri")
	commandWords = strings.Fields("command commands cmd cmds script scripts commandline cmdline argv")
	programWords = strings.Fields("program executable exec exe bin binary")
	argsWords    = strings.Fields("args arguments argv params parameters")
	urlWords     = strings.Fields("url urls uri uris href link links endpoint webhook")
)

// Bounds of the search for files, URLs and commands in arguments.
const (
	maxInside   = 8     // texts that are JSON, one inside of the other
	maxGuessed  = 4096  // bytes of a text that may be a path
	maxUsualURL = 16384 // bytes of a URL
	maxName     = 200   // bytes of an argument's place in a message
	maxWrapped  = 8     // schemes before a URL itself, as jar:
)

// namer finds the files, URLs and commands that the arguments of an unknown tool name.
type namer struct {
	e      *Event
	seen   map[string]bool
	inside int
}

// place is an argument's place, and the use that its name and the names around it suggest.
type place struct {
	name string // as files[0].path
	// The argument's own name says so; of partPath, a part of it.
	path, command, url, partPath bool
	// Its own name or a part of it says so, or a name around it.
	mayPath, mayRun, mayURL bool
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
	if len(e.Calls) >= maxCalls {
		e.Calls = nil
		return e.refuse("the arguments of the tool %.80q of %s name more than %d files, URLs and commands; split the call", e.Tool, e.Agent, maxCalls)
	}
	return e.call(id, tool.Args(in)) // last, because a denied file ends the call without a question
}

// endsWith reports whether a name's last word, or its last two words as one, is in a list; has, whether any of its words is,
// or the end of one.
func endsWith(name string, list []string) (ends, has bool) {
	words := tool.Words(name)
	for len(words) > 1 && strings.Trim(words[len(words)-1], "0123456789") == "" {
		words = words[:len(words)-1] // path_1
	}
	for i, w := range words {
		w = strings.TrimRight(w, "0123456789")
		known := slices.Contains(list, w) || i > 0 && slices.Contains(list, words[i-1]+w)
		ends = known && i == len(words)-1
		has = has || known || slices.ContainsFunc(list, func(known string) bool { return len(known) > 2 && strings.HasSuffix(w, known) })
	}
	return ends, has
}

// field is the place of a field in an object.
func (p place) field(name string) place {
	in := place{name: clip.Prefix(strings.TrimPrefix(p.name+"."+name, "."), maxName)}
	in.path, in.partPath = endsWith(name, pathWords)
	in.command, _ = endsWith(name, commandWords)
	in.url, _ = endsWith(name, urlWords)
	in.mayPath, in.mayRun, in.mayURL = p.path || p.mayPath || in.partPath, p.command || p.mayRun, p.url || p.mayURL
	return in
}

// value adds calls for the files, URLs and commands in a value. A file counts as read: other uses of it by the tool are not known.
func (n *namer) value(p place, v any) {
	if len(n.e.Calls) >= maxCalls {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		n.line(p, v)
		for _, name := range slices.Sorted(maps.Keys(v)) {
			n.text(place{name: p.name, mayPath: p.path || p.mayPath, mayURL: p.url || p.mayURL}, name) // {"files": {"a.txt": "…"}}
			n.value(p.field(name), v[name])
		}
	case []any:
		if words, ok := texts(v); ok && (p.command || p.mayRun) {
			n.script(p, quoted(words), !p.command)
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

// line adds the commands of an object that has a program and its arguments in two fields.
func (n *namer) line(p place, m map[string]any) {
	var arguments []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		is, _ := endsWith(name, argsWords)
		for _, v := range each(m[name]) {
			if list, ok := v.([]any); ok && is {
				if words, plain := texts(list); plain || len(list) == 0 {
					arguments = append(arguments, quoted(words))
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		runs, _ := endsWith(name, commandWords)
		maybe, _ := endsWith(name, programWords)
		if len(arguments) == 0 || !runs && !maybe && !p.command && !p.mayRun {
			continue
		}
		for _, v := range each(m[name]) {
			if program, ok := v.(string); ok {
				for _, words := range arguments[:min(len(arguments), maxCalls)] {
					n.script(p.field(name), strings.TrimSpace(program+" "+words), !runs && !maybe)
				}
			}
		}
	}
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
	drive     = regex.Lazy(`^[A-Za-z]:`)
)

// text adds calls for the file, URL or command in a text.
func (n *namer) text(p place, text string) {
	full := strings.TrimFunc(text, isBlank)
	if full == "" {
		return
	}
	if p.command || p.mayRun {
		n.script(p, text, !p.command)
	}
	if n.json(p, full) {
		return
	}
	bare := full
	for i := 0; i < maxWrapped && urlShell.MatchString(bare) && !p.command; i++ {
		bare, _, _ = strings.Cut(urlShell.ReplaceAllString(bare, ""), "!")
	}
	n.urls(p, bare)
	if file, ok := cutFileURL(bare); ok {
		path, _, _ := strings.Cut(file, "#")
		path, _, _ = strings.Cut(path, "?")
		plain, err := url.PathUnescape(path)
		if err != nil {
			plain = path
		}
		for _, f := range []string{file, path, plain} {
			n.paths(p, f, !p.path && (!filepath.IsAbs(f) || strings.ContainsFunc(f, isBlank)))
		}
	}
	n.pathText(p, full)
}

// urls adds calls for the URLs in a text. Where the argument's name says URL, they are certain, and several can stand in one text.
// A browser reads a text without its line ends and invisible characters, and a blank as %20.
func (n *namer) urls(p place, text string) {
	var found int
	if p.url || p.mayURL {
		for _, one := range strings.FieldsFunc(text, isAroundURL) {
			if webURL.MatchString(one) {
				found++
				n.webURL(p, one, !p.url && one != text)
			} else if p.url && !p.path && hostName.MatchString(one) {
				n.add(p, "http.get", "url", hostName.ReplaceAllString(one, "https://$4$6$7"), true)
			}
		}
	}
	whole := visible(text)
	switch {
	case !webURL.MatchString(whole), found == 1 && strings.TrimFunc(whole, isAroundURL) != whole:
	case p.url || p.mayURL:
		n.webURL(p, whole, found > 1 || !p.url && strings.ContainsFunc(whole, isBlank))
	case whole == text && len(text) <= maxUsualURL && !strings.ContainsFunc(text, isBlank):
		n.webURL(p, text, true)
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

// cutFileURL gives the path of a URL of a file.
func cutFileURL(text string) (path string, ok bool) {
	if !strings.HasPrefix(strings.ToLower(text), "file:") {
		return "", false
	}
	path, host := strings.CutPrefix(text[len("file:"):], "//")
	if i := strings.IndexByte(path, '/'); host && i > 0 {
		path = path[i:]
	}
	return path, path != ""
}

// pathText adds calls for a text that is or may be a path.
func (n *namer) pathText(p place, full string) {
	starts := slices.ContainsFunc([]string{"/", "~/", "./", "../", `.\`, `..\`}, func(s string) bool { return strings.HasPrefix(full, s) })
	prose := strings.ContainsAny(full, "\n\r") || strings.ContainsFunc(full, unicode.IsSpace) && !starts && !(p.partPath && strings.Contains(full, "/"))
	up := slices.Contains(strings.Split(full, "/"), "..")
	switch {
	case p.path && p.url && webURL.MatchString(full) && !up:
	case p.path && strings.Contains(full, "://"): // a tool may read it as a path all the same, as x://../.env
		n.paths(p, full, !up)
	case !p.path && (len(full) > maxGuessed || strings.Contains(full, "://") || !p.mayPath && !starts || prose):
	case !p.path:
		n.paths(p, full, true)
	default:
		odd := strings.HasPrefix(full, "@") || strings.Contains(full, `\`) || drive.MatchString(full)
		n.paths(p, full, odd)
	}
}

// paths adds reading a path, in each way in which a tool may read it.
func (n *namer) paths(p place, full string, guess bool) {
	list := []string{full}
	add := func(s string) {
		if s != "" && !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	if i := strings.IndexFunc(full, unicode.IsControl); i >= 0 {
		list[0] = strings.TrimFunc(full[:i], isBlank) // as C reads it
		add(strings.Map(func(r rune) rune {
			if unicode.IsControl(r) {
				return -1
			}
			return r
		}, full))
	}
	add(visible(full))
	for _, s := range slices.Clone(list) {
		add(strings.ReplaceAll(s, `\`, "/"))
		add(strings.TrimPrefix(s, "@"))
		if plain, err := url.PathUnescape(s); err == nil {
			add(plain)
		}
	}
	for i, s := range list {
		if n.e.Dir != "" && !filepath.IsAbs(s) && !strings.HasPrefix(s, "~/") {
			s = n.e.Dir + "/" + s
		}
		for _, one := range spellings(s) {
			n.add(p, "fs.read", "path", one, guess || i > 0)
		}
	}
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
	if n.seen[key] || len(n.e.Calls) >= maxCalls {
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

// RefusedCommand is the refusal of a command in an argument of an unknown tool that a policy allows by its name.
func (e *Event) RefusedCommand(c Call) error {
	id := tool.AgentTools + e.Agent + ":" + e.Tool
	return fault.New(fault.Denied, "the argument %.80q of the tool %.80q has a command, which would run outside of the sandbox, and the policy allows this tool without a question", c.Argument, e.Tool).
		WithHint("use the agent's shell, or have the policy ask: tools: {ask: [%q]}", id)
}
