// Package learn writes a small policy that recorded runs need. It never allows more
// than the policies of the runs did. It is pure. Start at [Policy].
//
// It generalises several files of a folder to folder/*, and an identifier in a URL
// to *. The pattern must be covered, by its syntax, by one allow entry of every
// policy that decided; otherwise each use stays a separate entry. Arguments of
// tools are widened by the effects of the tool and the role of the argument; sinks
// of data are pinned. Every [Widening] is returned, so that a person can be shown
// it. Deny entries, limits and modes of the policies are kept, so that refused
// uses stay refused.
//
// Left out on purpose: a refused use becomes a comment and never an entry. So
// does a name that looks like a secret, or like a name that is new in each run,
// if no covered pattern matches it.
package learn

import (
	"slices"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Use is one action that was done or tried.
type Use struct {
	Action  tool.Action    // with its facts, where they are known; of kind NoAction: the tool needed nothing
	Tool    tool.ID        // "" where no tool is to be allowed for it
	Args    map[string]any // the call's arguments; nil: they are not to be bound
	Count   int            // how often; 0 counts as 1
	Refused bool           // it was not allowed: it becomes a comment
	Why     string         // why it was refused
	// Below: the files below Action.Path were read, too, as in a listing.
	Below bool
}

// Options describe the conditions of the uses.
type Options struct {
	Workspace, Home string // absolute and clean; Home may be ""
	System          string // "minimal" or "standard"; "" leaves it to Chain
	// Chain holds the policies that decided the uses. A learned policy allows
	// nothing that Chain does not allow. Empty: nothing is generalised.
	Chain policy.Chain
	// Spec describes a tool, nil if it is not known: the arguments of built-in
	// tools are bound by the resources that they name, arguments of others one by one.
	Spec func(tool.ID) *tool.Spec
	// Secret reports whether a text looks like a secret, besides what the package
	// recognises itself. May be nil.
	Secret func(string) bool
	// Exact: arguments of tools, hosts and folders are not generalised beyond the
	// values that were used. Without a chain nothing is, either way.
	Exact bool
	// Known are the tools that can be called besides the used ones.
	Known []*tool.Spec
	// Confined: processes ran whose own reading and writing is not among the
	// uses, so the chain's entries of files are kept where they can be.
	Confined bool
}

// Learned is a policy that was learned.
type Learned struct {
	Policy  []byte     // canonical YAML, with a comment for each entry
	Widened []Widening // everything that it allows beyond the uses
}

// Policy writes a policy in canonical YAML. The comment of each entry has the number
// of its uses, one example, and the uses that it newly allows. Errors have the code
// PolicyInvalid: the chain's policies cannot be written as one, or the name is not valid.
func Policy(name string, uses []Use, opt Options) (Learned, error) {
	b := &builder{opt: opt, looks: looks{opt.Secret}, notes: map[string]entry{}}
	for _, u := range uses {
		b.sort(u)
	}
	b.allFiles()
	b.allTargets()
	b.allCommands()
	b.allModels()
	b.allTools()
	slices.SortStableFunc(b.entries, func(x, y entry) int { return strings.Compare(x.text, y.text) })
	src, err := b.source(name)
	if err != nil {
		return Learned{}, err
	}
	p, err := opt.Chain.Relist(name, src, b.toolIDs(), b.asked)
	if err != nil {
		return Learned{}, err
	}
	return Learned{b.annotate(p), b.widened}, nil
}

// builder collects uses and makes entries of them.
type builder struct {
	opt     Options
	looks   looks
	files   [3]map[string]*seen // by absolute path, as fileKinds
	targets map[string]*seenTarget
	argvs   map[string]*seenCommand
	models  map[string]*seen
	tools   map[tool.ID]*seenTool
	asked   []tool.ID // tools that a person was asked about
	refused []suggestion
	left    []suggestion // uses that could not be written down
	readers []tool.ID    // used tools that only read
	widened []Widening

	entries []entry
	notes   map[string]entry // entries by the entry's place, as files.read.allow[0]
}

// seen is how often something was used, and one example.
type seen struct {
	count   int
	example string
	below   bool
	effect  policy.Effect
}

// suggestion is a line that is written as a comment.
type suggestion struct {
	section, text, why string
	count              int
}

// entry is one line to be written.
type entry struct {
	section string
	effect  policy.Effect
	text    string // YAML, from behind "- " on
	note    string
	newly   []string // further uses that it allows
}

func (u Use) times() int { return max(u.Count, 1) }

// sort puts a use where it belongs.
func (b *builder) sort(u Use) {
	if u.Action.Kind == tool.FileDelete && !b.opt.Chain.PartsDeleting() {
		u.Action.Kind = tool.FileWrite
	}
	a := u.Action
	if untold := a.Kind == tool.Command && a.Unknown != ""; untold && !u.Refused && len(b.opt.Chain) > 0 {
		b.sawUntold(u)
		return
	}
	if u.Refused || a.Unknown != "" {
		b.refuse(u)
		return
	}
	if u.Tool != "" {
		b.sawTool(u)
	}
	switch a.Kind {
	case tool.FileRead, tool.FileWrite, tool.FileDelete:
		if a.Argument != tool.NoArgument && b.effect(tool.Action{Kind: a.Kind, Path: a.Path}) == policy.Deny {
			return // the sandbox decided
		}
		b.sawFile(a.Kind, a.Path, u)
		if a.Real != "" && a.Real != a.Path {
			b.sawFile(a.Kind, a.Real, u)
		}
	case tool.Network:
		b.sawTarget(u)
	case tool.Command:
		b.sawCommand(u)
	case tool.Model:
		if b.models == nil {
			b.models = map[string]*seen{}
		}
		b.see(b.models, a.Model, tool.Action{Kind: a.Kind, Model: a.Model}, u)
	case tool.TableRead, tool.TableWrite:
		b.refuse(Use{Action: a, Count: u.Count, Why: "databases are not learned: write their section by hand"})
	}
}

// see counts a use of something, if the chain allows it by itself.
func (b *builder) see(in map[string]*seen, key string, a tool.Action, u Use) {
	effect := b.effect(a)
	if effect == policy.Deny {
		b.refuse(Use{Action: a, Count: u.Count, Why: "the policies do not allow it"})
		return
	}
	s := in[key]
	if s == nil {
		s = &seen{example: a.Subject(), effect: effect}
		in[key] = s
	}
	s.count += u.times()
	s.below = s.below || u.Below
}

// effect is the chain's decision on an action alone, without its call.
func (b *builder) effect(a tool.Action) policy.Effect {
	if len(b.opt.Chain) == 0 {
		return policy.Allow
	}
	return b.opt.Chain.DecideAction(a).Effect
}

// covers reports whether the chain allows all that a pattern matches.
func (b *builder) covers(k tool.ActionKind, pattern string) bool {
	return b.opt.Chain.Covers(k, pattern)
}

func (b *builder) refuse(u Use) {
	text := u.Action.Subject()
	if u.Action.Path != "" && u.Action.Unknown == "" {
		text = strconv.Quote(b.shown(u.Action.Path))
	}
	s := suggestion{section: u.Action.Kind.String(), text: b.looks.mask(text), why: b.looks.mask(u.Why), count: u.times()}
	if u.Action.Kind == tool.NoAction {
		s.section, s.text = "tools", string(u.Tool)
	}
	for i := range b.refused {
		if o := &b.refused[i]; o.section == s.section && o.text == s.text && o.why == s.why {
			o.count += s.count
			return
		}
	}
	b.refused = append(b.refused, s)
}

// leave notes a use that cannot become an entry.
func (b *builder) leave(k tool.ActionKind, text, why string, count int) {
	b.left = append(b.left, suggestion{k.String(), b.looks.mask(text), why, count})
}

func (b *builder) add(section string, e policy.Effect, text string, count int, example string) {
	for i := range b.entries {
		if o := &b.entries[i]; o.section == section && o.effect == e && o.text == text {
			return
		}
	}
	note := times(count)
	if example = b.looks.mask(example); example != "" && example != text && strconv.Quote(example) != text {
		note += ", as " + example
	}
	b.entries = append(b.entries, entry{section: section, effect: e, text: text, note: note})
}

// newly adds the uses that the last entry newly allows to its comment.
func (b *builder) newly(text string) {
	e := &b.entries[len(b.entries)-1]
	e.newly = append(e.newly, b.looks.mask(text))
}

// widenEntry notes that the last entry, a pattern, allows more than was used.
func (b *builder) widenEntry(k tool.ActionKind, pattern string, count int, example string) {
	const all = "everything else that the pattern matches"
	b.newly(all)
	seen := times(count)
	if example != "" {
		seen += ", as " + b.looks.mask(example)
	}
	b.widened = append(b.widened, Widening{Entry: k.String() + " " + strconv.Quote(pattern), Seen: seen, Allows: all})
}

func times(n int) string {
	switch n {
	case 0:
		return "not used by a call itself"
	case 1:
		return "used once"
	}
	return "used " + strconv.Itoa(n) + " times"
}

func (b *builder) allModels() {
	for _, m := range sorted(b.models) {
		s := b.models[m]
		b.add("models", s.effect, strconv.Quote(m), s.count, "")
	}
}

func sorted[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// sections are a document's sections in the order in which they are printed.
var sections = []string{"files.read", "files.write", "files.delete", "network", "commands", "tools", "models"}

// source writes the entries as a policy document of lists alone.
func (b *builder) source(name string) ([]byte, error) {
	var w strings.Builder
	w.WriteString("version: 1\nname: " + strconv.Quote(name) + "\n")
	if b.opt.System != "" {
		if b.opt.System != "minimal" && b.opt.System != "standard" {
			return nil, fault.New(fault.PolicyInvalid, "%q is not a valid system; expected minimal or standard", b.opt.System)
		}
		if len(b.opt.Chain) == 0 {
			w.WriteString("system: " + b.opt.System + "\n")
		}
	}
	inFiles := false
	for _, s := range sections {
		indent, key := "", s
		if rest, ok := strings.CutPrefix(s, "files."); ok {
			if !b.uses(s) {
				continue
			}
			if !inFiles {
				w.WriteString("files:\n")
			}
			indent, key, inFiles = "  ", rest, true
		}
		if !b.uses(s) && s != "tools" {
			continue
		}
		w.WriteString(indent + key + ":\n")
		b.lists(&w, s, indent+"  ")
	}
	return []byte(w.String()), nil
}

func (b *builder) uses(section string) bool {
	return slices.ContainsFunc(b.entries, func(e entry) bool { return e.section == section })
}

func (b *builder) lists(w *strings.Builder, section, indent string) {
	for _, e := range []policy.Effect{policy.Allow, policy.Ask, policy.Deny} {
		n := 0
		for _, en := range b.entries {
			if en.section != section || en.effect != e {
				continue
			}
			if n == 0 {
				w.WriteString(indent + e.String() + ":\n")
			}
			w.WriteString(indent + "  - " + strings.ReplaceAll(en.text, "\n", "\n"+indent+"    ") + "\n")
			b.notes[section+"."+e.String()+"["+strconv.Itoa(n)+"]"] = en
			n++
		}
		if n == 0 && e == policy.Allow {
			w.WriteString(indent + "allow: []\n")
		}
	}
}
