package hook

import (
	"maps"
	"path/filepath"
	"strings"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// object is a decoded JSON object. Fields that are not asked for are ignored: agents add
// new ones.
type object map[string]any

// text returns the first of the named fields that is present. A field of another type is an
// error; without any, the text is empty.
func (o object) text(names ...string) (string, error) {
	for _, name := range names {
		v, ok := o[name]
		if !ok || v == nil {
			continue
		}
		s, ok := v.(string)
		if !ok {
			return "", fault.New(fault.Usage, "the field %q is not a string", name)
		}
		return s, nil
	}
	return "", nil
}

// need is text for a field that must be present and not empty.
func (o object) need(names ...string) (string, error) {
	s, err := o.text(names...)
	if err == nil && s == "" {
		err = fault.New(fault.Usage, "the field %q is missing or empty", names[0])
	}
	return s, err
}

// flag returns a boolean field; false if it is missing.
func (o object) flag(name string) (bool, error) {
	v, ok := o[name]
	if !ok || v == nil {
		return false, nil
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

// objects returns a field that is a list of objects.
func (o object) objects(name string) ([]object, error) {
	list, ok := o[name].([]any)
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

// path makes a path of the agent absolute. It is not cleaned: links on the way count.
func (e *Event) path(p string) (string, error) {
	switch {
	case strings.HasPrefix(p, "~"):
		return "", fault.New(fault.Usage, "the path %.200q starts with ~, which agents expand differently", p)
	case filepath.IsAbs(p):
		return p, nil
	case e.Dir == "":
		return "", fault.New(fault.Usage, "the path %.200q is relative, but the event has no folder", p)
	}
	return e.Dir + "/" + p, nil
}

// at is need for a path.
func (e *Event) at(o object, names ...string) (string, error) {
	p, err := o.need(names...)
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
	p, err := e.at(o, names...)
	if err != nil {
		return err
	}
	return e.call(id, tool.Args{"path": p})
}

// shell adds a call that runs the script of the field command in a folder.
func (e *Event) shell(o object, dir string) error {
	script, err := o.need("command")
	if err != nil {
		return err
	}
	e.input = o
	args := tool.Args{"script": script}
	if dir != "" {
		args["cwd"] = dir
	}
	return e.call("shell.run", args)
}

// write adds a call that replaces a file.
func (e *Event) write(o object, content string, names ...string) error {
	p, err := e.at(o, names...)
	if err != nil {
		return err
	}
	text, err := o.text(content)
	if err != nil {
		return err
	}
	return e.call("fs.write", tool.Args{"path": p, "content": text})
}

// edit adds a call that edits a file. Without an old text the agent makes the file.
func (e *Event) edit(path string, edits []any, made string) error {
	if len(edits) == 0 {
		return e.call("fs.write", tool.Args{"path": path, "content": made})
	}
	return e.call("fs.edit", tool.Args{"path": path, "edits": edits})
}

// replacement reads one edit: the old text, the new one, and whether all places change.
func replacement(o object, old, after, all string) (edits []any, made string, err error) {
	was, err := o.text(old)
	if err != nil {
		return nil, "", err
	}
	now, err := o.text(after)
	if err != nil || was == "" {
		return nil, now, err
	}
	every, err := o.flag(all)
	if err != nil {
		return nil, "", err
	}
	edit := map[string]any{"old": was, "new": now}
	if every {
		edit["all"] = true
	}
	return []any{edit}, now, nil
}

// names adds a call that lists the folder in which an agent looks for names.
func (e *Event) names(o object, path, pattern string) error {
	dir, err := o.text(path)
	if err != nil {
		return err
	}
	glob, err := o.text(pattern)
	if err != nil {
		return err
	}
	// The pattern's own folders say where the search begins: "/etc/*", "../*".
	if head := glob[:strings.LastIndex(staticPart(glob), "/")+1]; head != "" {
		if filepath.IsAbs(head) || dir == "" {
			dir = head
		} else {
			dir += "/" + head
		}
	}
	if dir == "" {
		dir = "."
	}
	p, err := e.path(dir)
	if err != nil {
		return err
	}
	if strings.Contains(glob[len(staticPart(glob)):], "..") {
		return e.refuse("the pattern %.200q leaves its folder", glob)
	}
	return e.call("fs.list", tool.Args{"path": p})
}

// staticPart is a pattern up to its first special character.
func staticPart(glob string) string {
	if i := strings.IndexAny(glob, `*?[{\!(`); i >= 0 {
		return glob[:i]
	}
	return glob
}

// search adds a call that searches the content of a file or folder. The agent reads every
// file below it, so the caller of this package must check each of them.
func (e *Event) search(o object, path, pattern string) error {
	dir, err := o.text(path)
	if err != nil {
		return err
	}
	if dir == "" {
		dir = "."
	}
	if e.Search, err = e.path(dir); err != nil {
		return err
	}
	what, err := o.need(pattern)
	if err != nil {
		return err
	}
	return e.call("fs.grep", tool.Args{"path": e.Search, "pattern": what})
}
