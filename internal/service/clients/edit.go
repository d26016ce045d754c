package clients

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
)

// Edit is one change of an agent's configuration: JSON, in some agents with comments, or TOML.
// Everything else in the file stays as its owner wrote it.
type Edit struct {
	Path  []string `json:"path"` // names of members, from the root
	Value any      `json:"value"`
	// List: the value is added to the list at Path. Otherwise the value is the member at
	// Path, which must be missing or have this value already.
	List bool `json:"list,omitempty"`
}

// has reports whether a configuration has what an edit makes.
func has(d document, e Edit) bool {
	v, there := d.decoded(e.Path...)
	if !e.List {
		return there && reflect.DeepEqual(v, e.Value)
	}
	list, _ := v.([]any)
	return slices.ContainsFunc(list, func(v any) bool { return reflect.DeepEqual(v, e.Value) })
}

// indent is one step of indentation in added text.
const indent = "  "

// document is a configuration file that can be edited.
type document interface {
	bytes() []byte
	// decoded gives the value at a path; ok reports whether there is one.
	decoded(path ...string) (v any, ok bool)
	// apply makes an edit. It reports whether the file had it already.
	apply(e Edit) (had bool, err error)
	// remove undoes an edit: the values that equal it or hold the command, which the file's
	// owner may have changed otherwise. It reports whether there was one.
	remove(e Edit, command string) bool
	// prune removes the objects and lists on the way to an edit that are empty, unless the
	// original had them.
	prune(e Edit, original document)
}

// open reads a configuration in the format that its name says; an empty one has no settings.
func open(file string, src []byte) (document, error) {
	if filepath.Ext(file) == ".toml" {
		return parseTOML(src)
	}
	return parse(src)
}

// jsonDocument is a configuration in JSON.
type jsonDocument struct {
	root hujson.Value
	mark string // the byte order mark, if there is one
}

// parse reads a configuration; an empty one is an object without members. Two members of one
// name are refused: agents differ in which of the two counts.
func parse(src []byte) (*jsonDocument, error) {
	text := canon.WithoutMark(src)
	mark := string(src[:len(src)-len(text)])
	src = text
	if len(bytes.TrimSpace(src)) == 0 {
		src = []byte("{}\n")
	}
	root, err := hujson.Parse(src)
	if err != nil {
		return nil, fault.New(fault.Usage, "it is not valid JSON: %v", err)
	}
	plain, err := hujson.Standardize(bytes.Clone(src)) // it changes its argument
	if err == nil {
		_, err = canon.Decode(plain)
	}
	if err != nil {
		return nil, fault.New(fault.Usage, "it is not valid JSON: %v", err)
	}
	if _, ok := root.Value.(*hujson.Object); !ok {
		return nil, fault.New(fault.Usage, "it is not a JSON object")
	}
	return &jsonDocument{root, mark}, nil
}

func (d *jsonDocument) bytes() []byte { return append([]byte(d.mark), d.root.Pack()...) }

func (d *jsonDocument) decoded(path ...string) (v any, ok bool) {
	at := &d.root
	for _, name := range path {
		if at = member(at, name); at == nil {
			return nil, false
		}
	}
	return decode(*at), true
}

func decode(v hujson.Value) any {
	v.BeforeExtra, v.AfterExtra = nil, nil
	var out any
	plain, err := hujson.Standardize(v.Pack())
	if err != nil || json.Unmarshal(plain, &out) != nil {
		return nil // it was parsed: does not happen
	}
	return out
}

// member gives a member of an object; nil: there is none.
func member(v *hujson.Value, name string) *hujson.Value {
	obj, ok := v.Value.(*hujson.Object)
	if !ok {
		return nil
	}
	for i := range obj.Members {
		if lit, ok := obj.Members[i].Name.Value.(hujson.Literal); ok && lit.String() == name {
			return &obj.Members[i].Value
		}
	}
	return nil
}

func (d *jsonDocument) apply(e Edit) (had bool, err error) {
	at := &d.root
	for i, name := range e.Path {
		if _, ok := at.Value.(*hujson.Object); !ok {
			return false, fault.New(fault.Usage, "%q is not an object in it", strings.Join(e.Path[:i], "."))
		}
		next := member(at, name)
		last := i == len(e.Path)-1
		if next == nil {
			made := any(map[string]any{})
			if last && e.List {
				made = []any{}
			} else if last {
				made = e.Value
			}
			if next, err = addMember(at, name, made, i+1); err != nil || last && !e.List {
				return false, err
			}
		} else if last && !e.List {
			if !reflect.DeepEqual(decode(*next), e.Value) {
				return false, fault.New(fault.Conflict, "%q is %.40s in it, and must be %v", strings.Join(e.Path, "."), strings.TrimSpace(string(next.Pack())), e.Value)
			}
			return true, nil
		}
		at = next
	}
	list, ok := at.Value.(*hujson.Array)
	if !ok {
		return false, fault.New(fault.Usage, "%q is not a list in it", strings.Join(e.Path, "."))
	}
	if slices.ContainsFunc(list.Elements, func(v hujson.Value) bool { return reflect.DeepEqual(decode(v), e.Value) }) {
		return true, nil
	}
	v, err := valueAt(e.Value, len(e.Path)+1)
	if err != nil {
		return false, err
	}
	var last *hujson.Value
	if n := len(list.Elements); n > 0 {
		last = &list.Elements[n-1]
	}
	follow(last, &v.BeforeExtra, &v, &list.AfterExtra, len(e.Path))
	list.Elements = append(list.Elements, v)
	return false, nil
}

// addMember adds a member at a depth of the file.
func addMember(at *hujson.Value, name string, value any, depth int) (*hujson.Value, error) {
	obj := at.Value.(*hujson.Object)
	v, err := valueAt(value, depth)
	if err != nil {
		return nil, err
	}
	v.BeforeExtra = hujson.Extra(" ")
	m := hujson.ObjectMember{Name: hujson.Value{BeforeExtra: lineAt(depth), Value: hujson.String(name)}, Value: v}
	var last *hujson.Value
	if n := len(obj.Members); n > 0 {
		last = &obj.Members[n-1].Value
	}
	follow(last, &m.Name.BeforeExtra, &m.Value, &obj.AfterExtra, depth-1)
	obj.Members = append(obj.Members, m)
	return &obj.Members[len(obj.Members)-1].Value, nil
}

// follow lays out a value that is added behind the last one of an object or list: before is
// the space before it, end that before the closing bracket, and depth the bracket's. A comment
// behind the last value stays there. A last value whose AfterExtra is not nil has a comma
// behind it.
func follow(last *hujson.Value, before *hujson.Extra, added *hujson.Value, end *hujson.Extra, depth int) {
	added.AfterExtra = nil
	if last != nil && last.AfterExtra != nil {
		added.AfterExtra = hujson.Extra{}
	}
	comment := bytes.TrimRight(*end, " \t\r\n")
	if space := (*end)[len(comment):]; last == nil || !bytes.Contains(space, []byte("\n")) {
		*end = lineAt(depth)
	} else {
		*end = slices.Clone(space)
	}
	*before = append(slices.Clone(comment), *before...)
}

// closeAfterRemoval lays out the end of an object or list whose last value was removed.
func closeAfterRemoval(gone *hujson.Value, before hujson.Extra, last *hujson.Value, end *hujson.Extra) {
	comment := bytes.TrimRight(before, " \t\r\n")
	*end = append(slices.Clone(comment), *end...)
	switch {
	case last == nil:
	case gone.AfterExtra == nil && len(bytes.TrimSpace(last.AfterExtra)) == 0:
		last.AfterExtra = nil
	case gone.AfterExtra != nil && last.AfterExtra == nil:
		last.AfterExtra = hujson.Extra{}
	}
	if last == nil && len(bytes.TrimSpace(*end)) == 0 {
		*end = nil
	}
}

func lineAt(depth int) hujson.Extra {
	return hujson.Extra("\n" + strings.Repeat(indent, depth))
}

// valueAt gives a value as it is written at a depth of the file.
func valueAt(v any, depth int) (hujson.Value, error) {
	b, err := json.MarshalIndent(v, strings.Repeat(indent, depth), indent)
	if err != nil {
		return hujson.Value{}, fault.Wrap(fault.Internal, err, "a setting cannot be encoded")
	}
	out, err := hujson.Parse(b)
	out.BeforeExtra = lineAt(depth)
	return out, err
}

func (d *jsonDocument) remove(e Edit, command string) bool {
	at := &d.root
	for _, name := range e.Path[:len(e.Path)-1] {
		if at = member(at, name); at == nil {
			return false
		}
	}
	name := e.Path[len(e.Path)-1]
	v := member(at, name)
	if v == nil {
		return false
	}
	if !e.List {
		if !reflect.DeepEqual(decode(*v), e.Value) {
			return false
		}
		dropMember(at.Value.(*hujson.Object), name)
		return true
	}
	list, ok := v.Value.(*hujson.Array)
	return ok && removeFrom(list, e.Value, command)
}

// removeFrom removes the elements of a list that equal a value or are only the command. From
// a group of hooks it removes those with the command.
func removeFrom(list *hujson.Array, value any, command string) bool {
	found := false
	for i := len(list.Elements) - 1; i >= 0; i-- {
		el := &list.Elements[i]
		if inner := member(el, "hooks"); inner != nil && !reflect.DeepEqual(decode(*el), value) {
			hooks, ok := inner.Value.(*hujson.Array)
			if !ok || !removeFrom(hooks, nil, command) {
				continue
			}
			found = true
			if len(hooks.Elements) > 0 {
				continue
			}
		} else if !reflect.DeepEqual(decode(*el), value) && !hasCommand(*el, command) {
			continue
		}
		dropElement(list, i)
		found = true
	}
	return found
}

// hasCommand reports whether a hook runs a command.
func hasCommand(v hujson.Value, command string) bool {
	m, _ := decode(v).(map[string]any)
	return command != "" && (isHook(m["command"], command) || m["bash"] == command)
}

func dropElement(list *hujson.Array, i int) {
	gone := list.Elements[i]
	if i+1 < len(list.Elements) {
		keepComment(gone.BeforeExtra, &list.Elements[i+1].BeforeExtra)
	} else {
		var last *hujson.Value
		if i > 0 {
			last = &list.Elements[i-1]
		}
		closeAfterRemoval(&gone, gone.BeforeExtra, last, &list.AfterExtra)
	}
	list.Elements = slices.Delete(list.Elements, i, i+1)
}

func dropMember(obj *hujson.Object, name string) {
	i := slices.IndexFunc(obj.Members, func(m hujson.ObjectMember) bool {
		lit, ok := m.Name.Value.(hujson.Literal)
		return ok && lit.String() == name
	})
	gone := obj.Members[i]
	if i+1 < len(obj.Members) {
		keepComment(gone.Name.BeforeExtra, &obj.Members[i+1].Name.BeforeExtra)
	} else {
		var last *hujson.Value
		if i > 0 {
			last = &obj.Members[i-1].Value
		}
		closeAfterRemoval(&gone.Value, gone.Name.BeforeExtra, last, &obj.AfterExtra)
	}
	obj.Members = slices.Delete(obj.Members, i, i+1)
}

// keepComment moves a comment before a value that is removed to the next value.
func keepComment(gone hujson.Extra, next *hujson.Extra) {
	if len(bytes.TrimSpace(gone)) > 0 {
		*next = append(slices.Clone(gone), *next...)
	}
}

func (d *jsonDocument) prune(e Edit, original document) {
	path := e.Path
	if !e.List {
		path = path[:len(path)-1]
	}
	for ; len(path) > 0; path = path[:len(path)-1] {
		v, ok := d.decoded(path...)
		if !ok {
			continue
		}
		if _, had := original.decoded(path...); had || !isEmpty(v) {
			return
		}
		at := &d.root
		for _, name := range path[:len(path)-1] {
			at = member(at, name)
		}
		dropMember(at.Value.(*hujson.Object), path[len(path)-1])
	}
}

func isEmpty(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}
