package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/remitrun/remit/internal/base/fault"
)

// tomlDocument is a configuration in TOML. It is changed by whole lines, so that everything else
// stays as its owner wrote it. A change with any other effect than the intended one is refused.
type tomlDocument struct {
	text []byte
	tree map[string]any
}

func parseTOML(src []byte) (*tomlDocument, error) {
	d := &tomlDocument{text: bytes.Clone(src), tree: map[string]any{}}
	if err := toml.Unmarshal(src, &d.tree); err != nil {
		return nil, fault.New(fault.Usage, "it is not valid TOML: %v", err)
	}
	return d, nil
}

func (d *tomlDocument) bytes() []byte { return d.text }

func (d *tomlDocument) decoded(path ...string) (v any, ok bool) {
	v = any(d.tree)
	for _, name := range path {
		table, _ := v.(map[string]any)
		if v, ok = table[name]; !ok {
			return nil, false
		}
	}
	return plainTOML(v), true
}

// plainTOML gives a value of TOML as it would be read from JSON.
func plainTOML(v any) any {
	b, err := json.Marshal(v)
	var out any
	if err != nil || json.Unmarshal(b, &out) != nil {
		return v // an infinite number: equal to nothing that Remit writes
	}
	return out
}

// apply makes an edit of a table at the top of the file.
func (d *tomlDocument) apply(e Edit) (had bool, err error) {
	now, there := d.decoded(e.Path...)
	if has(d, e) {
		return true, nil
	}
	if there && !e.List {
		return false, fault.New(fault.Conflict, "%q is %.40s in it, and must be %v", strings.Join(e.Path, "."), fmt.Sprint(now), e.Value)
	}
	if _, there := d.tree[e.Path[0]]; !there || e.List {
		return false, d.become(withBlock(d.text, block(e)), e, true)
	}
	var out []byte
	headed, parted := false, false // its own line; only lines of tables below it
	for line := range bytes.Lines(d.text) {
		out = append(out, line...)
		head, _, _ := strings.Cut(string(line), "#")
		if head = strings.TrimSpace(head); !headed && head == "["+e.Path[0]+"]" {
			out, headed = append(out, memberLine(e.Path[1], e.Value)...), true
		}
		parted = parted || strings.HasPrefix(strings.TrimLeft(head, "["), e.Path[0]+".") && strings.HasPrefix(head, "[")
	}
	if !headed && parted {
		out = withBlock(out, block(e))
	}
	return false, d.become(out, e, true)
}

// block writes an edit as lines of TOML.
func block(e Edit) string {
	if !e.List {
		return fmt.Sprintf("[%s]\n%s", e.Path[0], memberLine(e.Path[1], e.Value))
	}
	name := strings.Join(e.Path, ".")
	group, _ := e.Value.(map[string]any)
	out := "[[" + name + "]]\n"
	for _, key := range slices.Sorted(maps.Keys(group)) {
		if key != "hooks" {
			out += memberLine(key, group[key])
		}
	}
	hooks, _ := group["hooks"].([]any)
	for _, h := range hooks {
		out += "[[" + name + ".hooks]]\n"
		hook, _ := h.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(hook)) {
			out += memberLine(key, hook[key])
		}
	}
	return out
}

func memberLine(key string, v any) string {
	b, err := json.Marshal(v) // texts, numbers and truth values are written alike in TOML
	if err != nil {
		b = []byte(`""`)
	}
	return fmt.Sprintf("%s = %s\n", key, b)
}

// remove takes out the lines of an edit as apply wrote them.
func (d *tomlDocument) remove(e Edit, _ string) bool {
	lines := memberLine(e.Path[1], e.Value)
	if e.List {
		lines = block(e)
	}
	return d.cut(lines, func(text []byte) bool { return d.become(text, e, false) == nil })
}

// prune takes out the line of a table without members that the original did not have.
func (d *tomlDocument) prune(e Edit, original document) {
	v, there := d.decoded(e.Path[0])
	if _, had := original.decoded(e.Path[0]); !there || had || !isEmpty(v) {
		return
	}
	d.cut("["+e.Path[0]+"]\n", func(text []byte) bool {
		after, err := parseTOML(text)
		if err != nil {
			return false
		}
		without := maps.Clone(d.tree)
		delete(without, e.Path[0])
		if !reflect.DeepEqual(plainTOML(without), plainTOML(after.tree)) {
			return false
		}
		*d = *after
		return true
	})
}

// cut takes lines out where that is accepted. It reports whether there was such a place.
func (d *tomlDocument) cut(lines string, accept func(text []byte) bool) bool {
	for at := 0; ; at++ {
		i := bytes.Index(d.text[at:], []byte(lines))
		if i < 0 {
			return false
		}
		at += i
		if (at == 0 || d.text[at-1] == '\n') && accept(slices.Concat(d.text[:at], d.text[at+len(lines):])) {
			return true
		}
	}
}

// become takes a new text if an edit makes the old one's settings those of the new one, or,
// for a removal, the new one's those of the old one.
func (d *tomlDocument) become(text []byte, e Edit, added bool) error {
	after, err := parseTOML(text)
	if err == nil {
		from, to := d, after
		if !added {
			from, to = after, d
		}
		if reflect.DeepEqual(settled(from.tree, e), plainTOML(to.tree)) {
			*d = *after
			return nil
		}
	}
	return fault.New(fault.Usage, "it is written in a form that cannot be edited").WithHint("add these lines by hand:\n%s", block(e))
}

// settled gives settings with an edit.
func settled(tree map[string]any, e Edit) any {
	out, _ := plainTOML(tree).(map[string]any)
	table, ok := out[e.Path[0]].(map[string]any)
	if !ok {
		table = map[string]any{}
		out[e.Path[0]] = table
	}
	if !e.List {
		table[e.Path[1]] = e.Value
		return out
	}
	list, _ := table[e.Path[1]].([]any)
	table[e.Path[1]] = append(list, e.Value)
	return out
}
