package policy

import (
	"slices"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// sectionID numbers the sections that hold lists of entries. The zero value is
// no section.
type sectionID uint8

const (
	noSection sectionID = iota
	readSection
	writeSection
	deleteSection // if a policy does not have it, its entries for writing count
	networkSection
	commandSection
	toolSection
	modelSection
	apiSection
	databaseReadSection
	databaseWriteSection
	numSections
)

var sectionNames = [numSections]string{"none", "files.read", "files.write", "files.delete", "network", "commands", "tools", "models", "api", "databases.read", "databases.write"}

func (s sectionID) String() string { return sectionNames[s] }

// sectionNamed is the section of a name, or noSection.
func sectionNamed(name string) sectionID {
	return sectionID(max(0, slices.Index(sectionNames[:], name)))
}

// sectionOf is the section that decides a kind of action.
func sectionOf(k tool.ActionKind) sectionID {
	switch k {
	case tool.FileRead:
		return readSection
	case tool.FileWrite:
		return writeSection
	case tool.FileDelete:
		return deleteSection
	case tool.Network:
		return networkSection
	case tool.Command:
		return commandSection
	case tool.Model:
		return modelSection
	case tool.API:
		return apiSection
	case tool.TableRead:
		return databaseReadSection
	case tool.TableWrite:
		return databaseWriteSection
	}
	return noSection
}

// fileKinds are the kinds of actions that the sections of files decide.
var fileKinds = map[sectionID]tool.ActionKind{readSection: tool.FileRead, writeSection: tool.FileWrite, deleteSection: tool.FileDelete}

// pattern is the pattern of a section's entry. There is one type for files,
// networks, commands, tools, tables and names (of models and of the API). Whether a
// pattern matches is decided by boundEntry.matches.
type pattern interface {
	// String is the pattern as it prints.
	String() string
	// bind anchors the pattern in the environment of the rules.
	bind(r *Rules, e Effect) (pattern, error)
	// includes reports whether an allow entry with this pattern matches everything
	// that one with the other would. False may mean that it cannot be shown.
	includes(r *Rules, other pattern) bool
	// disjoint reports whether no action matches both patterns. False may mean that
	// it cannot be shown.
	disjoint(other pattern) bool
	// print writes the entry.
	print(w *printer, in int)
}

// parsePattern reads the text of an entry as its section does.
func parsePattern(id sectionID, text string, e Effect) (pattern, error) {
	switch id {
	case readSection, writeSection, deleteSection:
		return parseFilePattern(text, id != readSection, e)
	case networkSection:
		return parseNetworkPattern(text, e)
	case commandSection:
		return parseCommandPattern(text, e)
	case toolSection:
		return parseToolPattern(text, e)
	case modelSection:
		return parseModelPattern(text, e)
	case databaseReadSection, databaseWriteSection:
		return parseDatabasePattern(text, e)
	}
	return parseAPIPattern(text, e)
}

// section is one section's three lists.
type section struct {
	set      bool // the document mentions it
	allowSet bool // it has an allow list, perhaps an empty one
	lists    [3][]entry
}

// listNames are the lists' keys, by the effect of their entries.
var listNames = [3]string{Deny: "deny", Ask: "ask", Allow: "allow"}

// entry is one line of a list.
type entry struct {
	pos     fault.Pos
	pattern pattern // nil only where the document is refused
}

// setting makes the setting of a section: its lists and further keys.
func (s *section) setting(key string, id sectionID, settings ...setting) setting {
	return setting{key,
		func(p *parser) document.Field {
			return func(n *document.Node, path string) {
				s.set = true
				fields := p.fields(settings)
				for e, name := range listNames {
					fields[name] = func(n *document.Node, path string) {
						s.allowSet = s.allowSet || Effect(e) == Allow
						p.List(0, func(n *document.Node, path string) { p.entry(s, id, Effect(e), n, path) })(n, path)
					}
				}
				if n.Kind == document.List {
					p.Fail(n, path, "must be a mapping, not a list").Hint = "say what the list is, as in " + key + ": {allow: [...]}; a mapping can have the lists allow, ask and deny"
					return
				}
				p.mapping(n, path, fields)
			}
		},
		func(w *printer, in int) {
			if s.set {
				w.mapping(in, key, true, append([]setting{{print: s.printLists}}, settings...))
			}
		}}
}

// entry reads one entry of a list: a text, or a mapping in tools and network.
func (p *parser) entry(s *section, id sectionID, e Effect, n *document.Node, path string) {
	var pat pattern
	switch {
	case p.full:
		return // reported already
	case n.Kind == document.Mapping && id == toolSection:
		pat = p.toolEntry(e, n, path)
	case n.Kind == document.Mapping && id == networkSection && e != Deny:
		pat = p.networkEntry(e, n, path)
	default:
		pat = p.pattern(id, e, n, path)
	}
	if pat != nil {
		s.lists[e] = append(s.lists[e], entry{p.Pos(n), pat})
	}
}

// pattern reads the text of an entry. It returns nil if it is not a pattern.
func (p *parser) pattern(id sectionID, e Effect, n *document.Node, path string) pattern {
	text, ok := p.Text(n, path)
	if !ok {
		return nil
	}
	pat, err := parsePattern(id, text, e)
	if err != nil {
		p.Fail(n, path, "%s", plain(err))
		return nil
	}
	if f, ok := pat.(*filePattern); ok && !p.charge(n, path, f.added/globPart) {
		return nil
	}
	return pat
}

func (s *section) printLists(w *printer, in int) {
	for _, e := range []Effect{Allow, Ask, Deny} {
		switch {
		case len(s.lists[e]) > 0:
			w.line(in, "%s:", listNames[e])
			for i := range s.lists[e] {
				s.lists[e][i].pattern.print(w, in+1)
			}
		case e == Allow && s.allowSet:
			w.line(in, "allow: []")
		}
	}
}

// add adds an entry that the list does not have yet.
func (s *section) add(e Effect, en entry) {
	text := printed(en.pattern)
	for i := range s.lists[e] {
		if printed(s.lists[e][i].pattern) == text {
			return
		}
	}
	s.lists[e] = append(s.lists[e], en)
}

// boundSection is a section that is bound to an environment.
type boundSection struct {
	inherits bool // another policy of the chain decides
	allowSet bool
	lists    [3][]boundEntry
	index    [3]*index
	indexed  bool // one of the lists is
}

// boundEntry is a bound entry with everything prepared that a decision prints.
type boundEntry struct {
	rule    Rule
	reason  string
	effect  Effect
	admin   bool   // an ask that needs an approver of admin calls
	prefix  string // of tools: the beginning of every matching name
	pattern pattern
}

func (r *Rules) bindEntry(id sectionID, e Effect, i int, en *entry) (boundEntry, *fault.Error) {
	b := boundEntry{effect: e, rule: Rule{Policy: r.policy.Name(), File: r.policy.file, Line: en.pos.Line,
		Name: id.String() + "." + listNames[e] + "[" + strconv.Itoa(i) + "]", Pattern: en.pattern.String()}}
	var err error
	if b.pattern, err = en.pattern.bind(r, e); err != nil {
		return b, fault.New(fault.PolicyInvalid, "%v", err).At(en.pos).In(b.rule.Name)
	}
	if p, ok := en.pattern.(*tablePattern); ok && p.field != "" {
		b.rule.Name, b.rule.Pattern = p.field, p.text
	}
	if e == Allow {
		b.reason = "allowed by " + b.rule.String()
	}
	if id == toolSection {
		b.prefix, _, _ = strings.Cut(b.rule.Pattern, "*")
	}
	return b, nil
}

// facts is an action prepared for the patterns of one policy.
type facts struct {
	action *tool.Action
	path   string // of a file
	folded string
	needs  []glob.Need
	use    *tool.TableUse // of a statement
}

// matches reports whether an entry names an action. It is not a method of
// pattern because the facts would then move to the heap in every decision.
func (r *Rules) matches(b *boundEntry, f *facts) bool {
	switch p := b.pattern.(type) {
	case *filePattern:
		return p.match(f)
	case *networkPattern:
		return p.rule.Match(f.action.Target)
	case *commandPattern:
		return p.match(f.action, r.path)
	case *namePattern:
		return p.match(f.action)
	case *tablePattern:
		return f.use != nil && p.match(f.action.Database, f.use, b.effect == Deny)
	}
	return false
}
