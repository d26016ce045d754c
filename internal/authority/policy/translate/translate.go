// Package translate makes policies of the permission rules of other agents. The result allows
// nothing that the source denies, asks about or does not allow. Every rule that is not
// carried over is named with its reason. Start at [Translate].
//
// Four rules keep a translation narrow. An unclear rule allows nothing. A refusal that
// a policy cannot express makes everything of its kind ask instead of being allowed. A key or a
// value that is not known counts as such a refusal: every table is read by table, with all its
// known keys. A wildcard that fits more in a policy than in the source is narrowed where it
// allows, and widened where it refuses.
package translate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
)

// Dropped is a rule of the source that the policy does not have, or not as it was.
type Dropped struct {
	Rule   string `json:"rule"`
	Reason string `json:"reason"`
}

// Result is a translated policy.
type Result struct {
	Policy  []byte
	Dropped []Dropped
}

// MaxSource bounds a source, in bytes.
const MaxSource = 4 << 20

// translators read the rules of each agent.
var translators = map[string]func(b *builder, src []byte) error{
	"claude": (*builder).claude, "codex": (*builder).codex, "opencode": (*builder).openCode,
	"capsule": (*builder).capsule,
	"vscode":  (*builder).vsCode, "gemini": (*builder).gemini, "zed": (*builder).zed,
}

// Agents are the agents whose rules can be translated, sorted.
func Agents() []string {
	var out []string
	for name := range translators {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// Known returns an error if the rules of an agent cannot be translated.
func Known(agent string) error {
	if _, ok := translators[agent]; ok {
		return nil
	}
	return fault.New(fault.Usage, "the rules of %q are not supported", agent).WithHint("expected one of %s", strings.Join(Agents(), ", "))
}

// Translate translates the rules of an agent. File is the source's name, for messages and to
// tell formats apart.
func Translate(agent, file string, src []byte) (Result, error) {
	if err := Known(agent); err != nil {
		return Result{}, err
	}
	if len(src) > MaxSource {
		return Result{}, fault.New(fault.Usage, "the file has more than %d MiB", MaxSource>>20).At(fault.Pos{File: file})
	}
	b := &builder{file: file, name: agent}
	if err := translators[agent](b, src); err != nil {
		return Result{}, err
	}
	out := Result{Policy: b.print(), Dropped: append([]Dropped{}, b.dropped...)}
	if _, err := policy.Parse("imported.yaml", out.Policy); err != nil {
		return Result{}, fault.Wrap(fault.Usage, err, "the rules cannot be translated: %s", fault.Message(err)).At(fault.Pos{File: file})
	}
	return out, nil
}

// section is a section of a policy, by its name.
type section string

const (
	reads    section = "files.read"
	writes   section = "files.write"
	hosts    section = "network"
	commands section = "commands"
	tools    section = "tools"
	limits   section = "limits"
)

var sections = []section{reads, writes, hosts, commands, tools, limits}

// setting is a key of a section with a number.
type setting struct {
	key    string
	value  int64
	format string // of the value
}

// builtIns are the built-in tools, which a list of allowed tools must name.
var builtIns = []string{"fs.*", "http.*", "shell.run", "time.now", "random.bytes", "analyze.schema", "authority.request"}

// builder collects the entries of a policy.
type builder struct {
	file, name string
	lists      map[section]map[policy.Effect][]string
	onlyAsks   map[section]bool // a refusal could not be expressed
	settings   map[section][]setting
	only       []string // all tools that may be called, as entries of a list; nil: the built-in ones
	dropped    []Dropped
}

func (b *builder) drop(rule, reason string, args ...any) {
	d := Dropped{Rule: rule, Reason: fmt.Sprintf(reason, args...)}
	if !slices.Contains(b.dropped, d) {
		b.dropped = append(b.dropped, d)
	}
}

// add adds entries, once each, if the policy can read them. If it cannot, they are dropped: an
// allowing one is left out, for a refusing one all of its section asks.
func (b *builder) add(s section, e policy.Effect, rule string, patterns ...string) {
	for _, p := range patterns {
		if err := readable(s, e, p); err != nil {
			b.refuse(s, e, rule, "a policy cannot express it: "+fault.Message(err))
			continue
		}
		if b.lists == nil {
			b.lists = map[section]map[policy.Effect][]string{}
		}
		if b.lists[s] == nil {
			b.lists[s] = map[policy.Effect][]string{}
		}
		if !slices.Contains(b.lists[s][e], p) {
			b.lists[s][e] = append(b.lists[s][e], p)
		}
	}
}

// refuse drops a rule that cannot be expressed.
func (b *builder) refuse(s section, e policy.Effect, rule, reason string) {
	if e == policy.Allow {
		b.drop(rule, "%s; what it allows is left out", reason)
		return
	}
	if b.onlyAsks == nil {
		b.onlyAsks = map[section]bool{}
	}
	b.onlyAsks[s] = true
	b.drop(rule, "%s; so everything that %s would allow is asked about", reason, s)
}

// readable reports whether a policy reads an entry.
func readable(s section, e policy.Effect, pattern string) error {
	head, key, nested := strings.Cut(string(s), ".")
	list := fmt.Sprintf("{%s: [%s]}", e, strconv.Quote(pattern))
	if nested {
		list = fmt.Sprintf("{%s: %s}", key, list)
	}
	_, err := policy.Parse("rule.yaml", fmt.Appendf(nil, "version: 1\n%s: %s\n", head, list))
	return err
}

// print writes the policy.
func (b *builder) print() []byte {
	var w strings.Builder
	fmt.Fprintf(&w, "version: 1\nname: imported-%s\n", b.name)
	for s := range b.onlyAsks {
		if l := b.lists[s]; l != nil {
			l[policy.Ask] = append(l[policy.Ask], l[policy.Allow]...)
			delete(l, policy.Allow)
		}
	}
	if t := b.lists[tools]; len(t[policy.Allow]) > 0 { // else the built-in tools are allowed
		t[policy.Allow] = append(slices.Clone(builtIns), t[policy.Allow]...)
	}
	group := ""
	for _, s := range sections {
		lists, only := b.lists[s], s == tools && b.only != nil
		if len(lists[policy.Allow])+len(lists[policy.Ask])+len(lists[policy.Deny])+len(b.settings[s]) == 0 && !only {
			continue
		}
		head, key, nested := strings.Cut(string(s), ".")
		if head != group {
			fmt.Fprintf(&w, "%s:\n", head)
			group = head
		}
		in := "  "
		if nested {
			fmt.Fprintf(&w, "  %s:\n", key)
			in = "    "
		}
		for _, e := range []policy.Effect{policy.Allow, policy.Ask, policy.Deny} {
			if len(lists[e]) == 0 {
				continue
			}
			fmt.Fprintf(&w, "%s%s:\n", in, e)
			for _, p := range lists[e] {
				fmt.Fprintf(&w, "%s  - %s\n", in, strconv.Quote(p))
			}
		}
		if only {
			fmt.Fprintf(&w, "%sallow:\n%s  - %s\n", in, in, strings.Join(b.only, "\n"+in+"  - "))
		}
		for _, set := range b.settings[s] {
			fmt.Fprintf(&w, "%s%s: "+set.format+"\n", in, set.key, set.value)
		}
	}
	return []byte(w.String())
}
