package hook

import (
	"cmp"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/base/tool"
)

// object is a decoded JSON object. Fields that are not asked for are ignored: agents add
// new ones.
type object map[string]any

// text returns a field of the event itself; it is empty if the field is missing.
func (o object) text(name string) (string, error) {
	v, ok := o[name]
	if !ok || v == nil {
		return "", nil
	}
	s, ok := v.(string)
	if !ok {
		return "", fault.New(fault.Usage, "the field %q is not a string", name)
	}
	return s, nil
}

// need is text for a field that must be present and not empty.
func (o object) need(name string) (string, error) {
	s, err := o.text(name)
	if err == nil && s == "" {
		err = fault.New(fault.Usage, "the field %q is missing or empty", name)
	}
	return s, err
}

// alike are the names that agents and models have for one argument, as fold gives them.
var alike = [][]string{
	{"filepath", "path", "paths", "files", "filepaths", "absolutepath", "dirpath", "directory", "notebookpath", "targetfile", "targetpath", "targetdirectory", "directorypath", "searchpath", "searchdirectory", "filename", "file", "folder", "uri", "relativeworkspacepath"},
	{"workingdirectory", "directory", "dirpath", "dir", "cwd", "workdir", "workingdir"},
	{"command", "cmd", "script", "commandline", "input", "patch", "patchtext"},
	{"content", "contents", "filetext", "newsource", "codecontent", "text"},
	{"oldstring", "oldstr", "old", "oldtext", "targetcontent"},
	{"newstring", "newstr", "new", "newtext", "replacementcontent"},
	{"replaceall", "allowmultiple", "all"},
	{"url", "uri", "href"},
	{"pattern", "query", "regex", "regexp"},
	{"edits", "changes", "replacements", "replacementchunks"},
}

// fold is a field's name without case and separators.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		return unicode.ToLower(unicode.ToUpper(r))
	}, name)
}

// arg returns an argument of a tool call by the names that the agent's tool knows; nil: it is
// missing. Fields with a name that is alike must have the same value: nobody knows which of
// them the agent uses.
func (o object) arg(names ...string) (any, error) {
	var from string // the field that has the value
	for name, v := range o {
		if v == nil || v == "" || !isAlike(name, names) {
			continue
		}
		switch {
		case from == "":
			from = name
		case !reflect.DeepEqual(v, o[from]):
			first, second := min(from, name), max(from, name)
			return nil, fault.New(fault.Usage, "the fields %.80q and %.80q differ, and only one of them can be meant", first, second)
		case slices.Contains(names, name):
			from = name
		}
	}
	if from != "" && !slices.Contains(names, from) {
		return nil, fault.New(fault.Usage, "the field %.80q is not known; expected %q", from, names[0])
	}
	return o[from], nil
}

// isAlike reports whether a field's name is one of an argument's names, or like one.
func isAlike(name string, names []string) bool {
	folded := fold(name)
	return slices.ContainsFunc(names, func(known string) bool {
		if k := fold(known); k == folded {
			return true
		}
		return slices.ContainsFunc(alike, func(group []string) bool {
			return slices.Contains(group, fold(known)) && slices.Contains(group, folded)
		})
	})
}

// argText is arg for a text; it is empty if the argument is missing.
func (o object) argText(names ...string) (string, error) {
	v, err := o.arg(names...)
	if v == nil || err != nil {
		return "", err
	}
	s, ok := v.(string)
	if !ok {
		return "", fault.New(fault.Usage, "the field %q is not a string", names[0])
	}
	return s, nil
}

// needArg is argText for an argument that must be present and not empty.
func (o object) needArg(names ...string) (string, error) {
	s, err := o.argText(names...)
	if err == nil && s == "" {
		err = fault.New(fault.Usage, "the field %q is missing or empty", names[0])
	}
	return s, err
}

// argFlag is arg for true or false; false if the argument is missing.
func (o object) argFlag(name string) (bool, error) {
	v, err := o.arg(name)
	if v == nil || err != nil {
		return false, err
	}
	b, ok := v.(bool)
	if !ok {
		return false, fault.New(fault.Usage, "the field %q is not true or false", name)
	}
	return b, nil
}

// object returns a field that is an object, also where it is written as JSON in a string;
// nil if it is missing.
func (o object) object(name string) (object, error) {
	switch v := o[name].(type) {
	case nil:
		return nil, nil
	case map[string]any:
		return v, nil
	case string:
		inner, err := canon.Decode([]byte(v))
		if m, ok := inner.(map[string]any); err == nil && ok {
			return m, nil
		}
	}
	return nil, fault.New(fault.Usage, "the field %q is not an object", name)
}

// objects returns an argument that is a list of objects.
func (o object) objects(name string) ([]object, error) {
	v, err := o.arg(name)
	if err != nil {
		return nil, err
	}
	list, ok := v.([]any)
	if !ok {
		return nil, fault.New(fault.Usage, "the field %q is not a list", name)
	}
	out := make([]object, len(list))
	for i, v := range list {
		m, ok := v.(map[string]any)
		if !ok {
			return nil, fault.New(fault.Usage, "%s[%d] is not an object", name, i)
		}
		out[i] = m
	}
	return out, nil
}

// output returns a field as the output of a tool: an object as it is, another value as
// {"text": value}; nil if it is missing.
func (o object) output(name string) map[string]any {
	switch v := o[name].(type) {
	case nil:
		return nil
	case map[string]any:
		return maps.Clone(v)
	default:
		return map[string]any{"text": v}
	}
}

// path makes a path of the agent absolute. Agents clean paths before they use them, each in
// its own way, so a path that any of them reads otherwise than the system is an error.
func (e *Event) path(p string) (string, error) {
	scheme, _, isURL := strings.Cut(p, ":/")
	switch {
	case p == "":
		return "", fault.New(fault.Usage, "the path is empty")
	case strings.HasPrefix(p, "~"):
		return "", fault.New(fault.Usage, "the path %.200q starts with ~, which agents expand differently", p)
	case strings.HasPrefix(p, "@"):
		return "", fault.New(fault.Usage, "the path %.200q starts with @, which agents remove", p).WithHint("begin it with ./")
	case isURL && !strings.Contains(scheme, "/"), strings.HasPrefix(strings.ToLower(p), "file:"):
		return "", fault.New(fault.Usage, "the path %.200q is a URL", p)
	case strings.TrimFunc(p, isBlank) != p:
		return "", fault.New(fault.Usage, "the path %.200q begins or ends with white space, which agents remove", p)
	case strings.ContainsFunc(p, func(r rune) bool { return isBreak(r) || r == '\\' }):
		return "", fault.New(fault.Usage, "the path %.200q has a control character or a backslash, which agents read differently", p)
	case filepath.IsAbs(p):
		return p, nil
	case e.Dir == "":
		return "", fault.New(fault.Usage, "the path %.200q is relative, but the event has no folder", p)
	}
	return e.Dir + "/" + p, nil
}

// isBlank reports whether agents take a character for white space.
func isBlank(r rune) bool { return unicode.IsSpace(r) || !unicode.IsGraphic(r) }

// isBreak reports whether a character may end a line, or is a control.
func isBreak(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }

// cleaners are the ways in which agents clean a path before they use it: they remove .. by the
// text alone, where for the system links on the way count, and they compose letters and accents.
var cleaners = []func(path string) string{textual, norm.NFC.String, func(path string) string { return norm.NFC.String(textual(path)) }}

// textual removes .. from a path by its text; a path without .. stays as it is.
func textual(path string) string {
	if !slices.Contains(strings.Split(path, "/"), "..") {
		return path
	}
	return filepath.Clean(path)
}

// spellings are the paths that an agent may open for a path.
func spellings(path string) []string {
	out := []string{path}
	for _, clean := range cleaners {
		if p := clean(path); !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// fileCall adds a call of a file tool, for each path that the agent may open.
func (e *Event) fileCall(id tool.ID, args tool.Args) error {
	calls := []Call{{Tool: id, Args: args}}
	for _, clean := range cleaners {
		other := maps.Clone(args)
		for _, name := range []string{"path", "from", "to"} {
			if p, ok := args[name].(string); ok {
				other[name] = clean(p)
			}
		}
		if !slices.ContainsFunc(calls, func(c Call) bool { return reflect.DeepEqual(c.Args, other) }) {
			calls = append(calls, Call{Tool: id, Args: other})
		}
	}
	e.Calls = append(e.Calls, calls...)
	return nil
}

// needPath is needArg for a path.
func (e *Event) needPath(o object, names ...string) (string, error) {
	p, err := o.needArg(names...)
	if err != nil {
		return "", err
	}
	return e.path(p)
}

// setDir sets the folder where relative paths start.
func (e *Event) setDir(dir string) error {
	if dir != "" && !filepath.IsAbs(dir) {
		return fault.New(fault.Usage, "the folder %.200q is not absolute", dir)
	}
	e.Dir = dir
	return nil
}

// file adds a call of a file tool whose only argument is a path.
func (e *Event) file(id tool.ID, o object, names ...string) error {
	p, err := e.needPath(o, names...)
	if err != nil {
		return err
	}
	return e.fileCall(id, tool.Args{"path": p})
}

// shell adds a call that runs the script of the field command, in the folder of the named
// fields, else in the event's.
func (e *Event) shell(o object, dirs ...string) error {
	script, err := o.needArg("command")
	if err != nil {
		return err
	}
	dir := ""
	if len(dirs) > 0 {
		if dir, err = o.argText(dirs...); err != nil {
			return err
		}
	} else if dir, err := o.arg("working_directory"); dir != nil || err != nil { // of a tool that has no such argument
		return e.refuse("the tool %.80q of %s takes no folder", e.Tool, e.Agent)
	}
	if dir == "" {
		dir = e.Dir
	} else if dir, err = e.path(dir); err != nil {
		return err
	}
	if len(spellings(dir)) > 1 {
		return e.refuse("the folder %.200q has .. or letters that are not composed, which agents read differently", dir)
	}
	e.input = o
	return e.script(script, dir)
}

// script adds a call that runs a script in a folder.
func (e *Event) script(script, dir string) error {
	args := tool.Args{"script": script}
	if dir != "" {
		args["cwd"] = dir
	}
	return e.call("shell.run", args)
}

// write adds a call that replaces a file.
func (e *Event) write(o object, content string, names ...string) error {
	p, err := e.needPath(o, names...)
	if err != nil {
		return err
	}
	text, err := o.argText(content)
	if err != nil {
		return err
	}
	return e.fileCall("fs.write", tool.Args{"path": p, "content": text})
}

// editOnce adds the edit of a file by one replacement.
func (e *Event) editOnce(o object, path, old, after, all string) error {
	p, err := e.needPath(o, path)
	if err != nil {
		return err
	}
	edits, made, err := replacement(o, old, after, all)
	if err != nil {
		return err
	}
	return e.edit(p, edits, made)
}

// edit adds the calls that edit a file. Text that replaces nothing is written: it makes the
// file, or is added to it.
func (e *Event) edit(path string, edits []any, made string) error {
	if len(edits) == 0 || made != "" {
		if err := e.fileCall("fs.write", tool.Args{"path": path, "content": made}); err != nil || len(edits) == 0 {
			return err
		}
	}
	return e.fileCall("fs.edit", tool.Args{"path": path, "edits": edits})
}

// replacement reads one edit: the old text, the new one, and whether all places change.
// Without an old text, made is the new one.
func replacement(o object, old, after, all string) (edits []any, made string, err error) {
	was, err := o.argText(old)
	if err != nil {
		return nil, "", err
	}
	now, err := o.argText(after)
	if err != nil {
		return nil, "", err
	}
	every, err := o.argFlag(all)
	if err != nil || was == "" {
		return nil, now, err
	}
	edit := map[string]any{"old": was, "new": now}
	if every {
		edit["all"] = true
	}
	return []any{edit}, "", nil
}

// dirs are the folders of an argument that is a path or a list of paths: "" if it is missing.
func (o object) dirs(names ...string) ([]string, error) {
	v, err := o.arg(names...)
	if err != nil {
		return nil, err
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	out := make([]string, len(list))
	for i, one := range list {
		if out[i], ok = one.(string); !ok && v != nil {
			return nil, fault.New(fault.Usage, "the field %q is not a path or a list of paths", names[0])
		}
	}
	if len(out) == 0 {
		out = []string{""}
	}
	return out, nil
}

// names adds calls that list the folders in which an agent looks for names.
func (e *Event) names(o object, paths ...string) error {
	dirs, err := o.dirs(paths...)
	if err != nil {
		return err
	}
	glob, err := o.argText("pattern")
	if err != nil {
		return err
	}
	fixed := staticPart(glob)
	if leaves(glob[len(fixed):]) {
		return e.refuse("the pattern %.200q leaves its folder", glob)
	}
	head := fixed[:strings.LastIndex(fixed, "/")+1] // where the search begins: "/etc/*", "../*"
	for _, dir := range dirs {
		switch {
		case head != "" && (filepath.IsAbs(head) || dir == ""):
			dir = head
		case head != "":
			dir += "/" + head
		}
		p, err := e.path(cmp.Or(dir, "."))
		if err != nil {
			return err
		}
		if err := e.fileCall("fs.list", tool.Args{"path": p}); err != nil {
			return err
		}
	}
	return nil
}

// staticPart is a pattern up to its first special character.
func staticPart(glob string) string {
	if i := strings.IndexAny(glob, `*?[{\!(`); i >= 0 {
		return glob[:i]
	}
	return glob
}

// leaves reports whether the rest of a pattern may name files outside of the folder before it:
// by .., also one that is put together from alternatives, or by an absolute alternative.
func leaves(rest string) bool {
	return strings.Contains(rest, "..") || strings.Contains(rest, `\`) || leavingAlternative.MatchString(rest)
}

var leavingAlternative = regex.Lazy(`[{,(|](/|~|\.*[},)|])`)

// search adds calls that search the content of files and folders. The agent reads every file
// below them, so the caller of this package must check each of them.
func (e *Event) search(o object, paths ...string) error {
	dirs, err := o.dirs(paths...)
	if err != nil {
		return err
	}
	what, err := o.needArg("pattern")
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		p, err := e.path(cmp.Or(dir, "."))
		if err != nil {
			return err
		}
		e.Search = append(e.Search, spellings(p)...)
		if err := e.fileCall("fs.grep", tool.Args{"path": p, "pattern": what}); err != nil {
			return err
		}
	}
	return nil
}
