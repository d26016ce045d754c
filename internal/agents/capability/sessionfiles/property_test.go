package sessionfiles_test

import (
	"context"
	"encoding/json"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

func contextOf() context.Context { return context.Background() }

// model is what the session's files ought to be: a map.
type model struct {
	content map[string]string
	version map[string]int
	folders map[string]bool
}

func (m *model) folder(p string) bool { return p == "/" || m.folders[p] }

func (m *model) belowFile(p string) bool {
	for at := path.Dir(p); at != "/"; at = path.Dir(at) {
		if _, ok := m.content[at]; ok {
			return true
		}
	}
	return false
}

func keys(m map[string]string) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// TestAgainstAMap makes calls at random, and holds what the tools say against a
// map from paths to contents. Folders are made with files and go with a recursive
// delete.
func TestAgainstAMap(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(t, nil)
		m := &model{map[string]string{}, map[string]int{}, map[string]bool{}}
		names := rapid.SampledFrom([]string{"/a", "/b", "/d/a", "/d/e/f", "d/../a", "/d//e/./f", "/../b", "/a/x"})
		text := rapid.SampledFrom([]string{"", "x", "xx y", "line\nline two\n", "€uro x", "y\x00"})
		r.Repeat(map[string]func(*rapid.T){
			"write": func(r *rapid.T) { m.write(r, w, names.Draw(r, "path"), text.Draw(r, "text")) },
			"edit": func(r *rapid.T) {
				m.edit(r, w, names.Draw(r, "path"), rapid.SampledFrom([]string{"x", "line", "€"}).Draw(r, "old"), rapid.Bool().Draw(r, "all"))
			},
			"delete": func(r *rapid.T) { m.remove(r, w, names.Draw(r, "path")) },
			"":       func(r *rapid.T) { m.check(r, w) },
		})
	})
}

func (m *model) write(r *rapid.T, w *world, name, text string) {
	p := path.Clean("/" + name)
	args := tool.Args{"path": name, "content": text}
	guard := rapid.IntRange(-1, 3).Draw(r, "guard")
	if guard >= 0 {
		args["if_version"] = json.Number(strconv.Itoa(guard))
	}
	_, there := m.content[p]
	now := 0
	if there {
		now = m.version[p]
	}
	out, err := w.run("write_file", args)
	switch {
	case m.folder(p), m.belowFile(p):
		if err == nil {
			r.Fatalf("%s was written over or below what is there: %v", p, out)
		}
	case guard >= 0 && guard != now:
		if fault.CodeOf(err) != fault.Conflict {
			r.Fatalf("%s at %d was written for %d: %v, %v", p, now, guard, out, err)
		}
	default:
		m.content[p] = text
		m.version[p]++
		for at := path.Dir(p); at != "/"; at = path.Dir(at) {
			m.folders[at] = true
		}
		if err != nil || out["created"] == there || out["version"] != m.version[p] || out["size_bytes"] != int64(len(text)) {
			r.Fatalf("writing %s (there: %v, version %d): %v, %v", p, there, m.version[p], out, err)
		}
	}
}

func (m *model) edit(r *rapid.T, w *world, name, old string, all bool) {
	p := path.Clean("/" + name)
	before, there := m.content[p]
	out, err := w.run("edit_file", tool.Args{"path": name, "old_string": old, "new_string": "<" + old + ">", "replace_all": all})
	n := strings.Count(before, old)
	if there && !strings.Contains(before, "\x00") && (n == 1 || n > 1 && all) {
		m.content[p] = strings.ReplaceAll(before, old, "<"+old+">")
		m.version[p]++
		if err != nil || out["replacements"] != n || out["version"] != m.version[p] {
			r.Fatalf("editing %s: %v, %v; want %d replacements", p, out, err, n)
		}
		return
	}
	if err == nil {
		r.Fatalf("editing %s (%q) gave %v", p, before, out)
	}
}

func (m *model) remove(r *rapid.T, w *world, name string) {
	p := path.Clean("/" + name)
	gone := slices.DeleteFunc(keys(m.content), func(k string) bool { return k != p && !strings.HasPrefix(k, p+"/") })
	out, err := w.run("delete_file", tool.Args{"path": name, "recursive": true})
	if err != nil || len(gone) > 0 && out["deleted"] != true {
		r.Fatalf("deleting %s: %v, %v; it holds %v", p, out, err, gone)
	}
	for _, k := range gone {
		delete(m.content, k)
	}
	for k := range m.folders {
		if k == p || strings.HasPrefix(k, p+"/") {
			delete(m.folders, k)
		}
	}
}

// check compares everything that is there with the map.
func (m *model) check(r *rapid.T, w *world) {
	all, err := w.files.All(contextOf(), w.p, "/")
	if err != nil {
		r.Fatal(err)
	}
	var found []string
	for _, f := range all {
		found = append(found, f.Path)
	}
	if want := keys(m.content); !slices.Equal(found, want) {
		r.Fatalf("there is %v, want %v", found, want)
	}
	for name, text := range m.content {
		res, err := permittest.Run(contextOf(), w.tools["read_file"], w.p, tool.Args{"path": name})
		if err != nil || res.Output["version"] != m.version[name] || res.Output["encoding"] == "text" && res.Output["content"] != text {
			r.Fatalf("%s is %v, %v; want %q at %d", name, res.Output, err, text, m.version[name])
		}
	}
}
