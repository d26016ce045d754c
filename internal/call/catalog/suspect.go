package catalog

import (
	"slices"
	"strings"
	"sync"

	"github.com/remitrun/remit/internal/base/inspect"
	"github.com/remitrun/remit/internal/base/tool"
)

// inspect returns the findings of a tool's own text, which are looked for once.
func (l *listed) inspect() []inspect.Finding {
	l.look.Do(func() {
		l.findings = slices.Concat(
			inspect.Text("title", l.said.Title), inspect.Text("description", l.said.Description), inspect.Text("version", l.said.Version),
			inspect.Schema("input_schema", l.said.Input), inspect.Schema("output_schema", l.said.Output))
	})
	return l.findings
}

// Findings are what in a tool's text should be read with care, as far as the tool
// is known without asking its source.
func (c *Catalog) Findings(id tool.ID) []inspect.Finding {
	f := c.feedOf(id)
	if f == nil {
		return nil // built in, or unknown
	}
	last, _, _ := f.state()
	if last == nil || last.tools[id] == nil {
		return nil
	}
	l := last.tools[id]
	return slices.Concat(l.inspect(), c.names().references(l))
}

// names are those of all known tools, for texts that speak of others' tools.
type names struct {
	of     []*snapshot
	source map[string]string // of IDs, and of their last parts where these are distinctive
	sight  map[string]string // IDs by how their last parts look

	mu   sync.Mutex
	refs map[*listed][]inspect.Finding
}

// names returns the known names. They are made anew when a source's
// snapshot is another.
func (c *Catalog) names() *names {
	feeds := c.all()
	of := make([]*snapshot, len(feeds))
	for i, f := range feeds {
		of[i], _, _ = f.state()
	}
	c.named.Lock()
	defer c.named.Unlock()
	if c.known == nil || !slices.Equal(of, c.known.of) {
		c.known = c.reindex(feeds, of)
	}
	return c.known
}

func (c *Catalog) reindex(feeds []*feed, of []*snapshot) *names {
	x := &names{of: of, source: map[string]string{}, sight: map[string]string{}, refs: map[*listed][]inspect.Finding{}}
	for _, id := range c.ids {
		x.source[id], x.source[strings.ReplaceAll(id, ".", "_")] = BuiltIn, BuiltIn
	}
	for _, f := range feeds {
		for _, id := range f.knownIDs() {
			x.source[id] = f.name
			leaf := leafOf(id)
			x.sight[inspect.Keys(leaf)[1]] = id
			if _, taken := x.source[leaf]; distinctive(leaf) && !taken {
				x.source[leaf] = f.name
			} else if taken && x.source[leaf] != f.name {
				x.source[leaf] = "" // of several sources: it may mean its own
			}
		}
	}
	return x
}

func leafOf(id string) string { return id[strings.LastIndexByte(id, ':')+1:] }

// distinctive reports whether a name is one that no sentence has by chance.
func distinctive(leaf string) bool {
	return len(leaf) >= 6 && strings.ContainsAny(leaf, "_-./") || len(leaf) >= 8 && strings.ToLower(leaf) != leaf && strings.ToUpper(leaf) != leaf
}

// references returns the findings about other sources' tools in a tool's text, and whether its name
// looks like one of theirs.
func (x *names) references(l *listed) []inspect.Finding {
	x.mu.Lock()
	defer x.mu.Unlock()
	refs, ok := x.refs[l]
	if !ok {
		refs = slices.Concat(x.spoken(l), x.imitated(l))
		x.refs[l] = refs
	}
	return refs
}

func (x *names) spoken(l *listed) []inspect.Finding {
	var out []inspect.Finding
	told := map[string]bool{}
	for _, text := range [...]struct{ where, s string }{{"title", l.said.Title}, {"description", l.said.Description}} {
		for word := range strings.FieldsFuncSeq(text.s, outsideID) {
			word = strings.Trim(word, "._:/@-")
			source := x.source[word]
			if source == "" || source == l.source || told[word] || len(out) >= 8 {
				continue
			}
			told[word] = true
			of := "the source " + source
			if source == BuiltIn {
				of = "Remit itself"
			}
			out = append(out, inspect.Finding{Kind: inspect.Reference, Where: text.where, Quote: word, Why: "it speaks of a tool of " + of})
		}
	}
	return out
}

func (x *names) imitated(l *listed) []inspect.Finding {
	id := string(l.said.ID)
	keys := inspect.Keys(leafOf(id))
	other := x.sight[keys[1]]
	if other == "" || strings.HasPrefix(other, l.source+":") || keys[0] == inspect.Keys(leafOf(other))[0] {
		return nil
	}
	return []inspect.Finding{{Kind: inspect.Imitation, Where: "id", Quote: id, Why: "its name looks like that of " + other}}
}

// outsideID reports whether no tool ID has this character.
func outsideID(r rune) bool {
	letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
	return !letter && !strings.ContainsRune("._:/@-", r)
}
