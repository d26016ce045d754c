package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/near"
	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/base/tool"
)

// Label is one entry of a policy's labels: where data with the label comes from.
type Label struct {
	Name         string
	Confidential bool // else it says that the data is not trusted
	From         []FlowEntry
	But          []FlowEntry // sources of From that do not give the label
	Line         int
}

// Flow is one entry of a policy's flows: the consequences of a label.
type Flow struct {
	Label string
	Ask   []FlowEntry // of an untrusted label: needs approval
	Only  []FlowEntry // of a confidential label: all that the data may reach
	// Steered: of an untrusted label: needs approval if a value that chooses the call's effect
	// is not known to come from people or trusted data. Choose are tools whose results list
	// values that may be chosen. Text are arguments that are text, as "TOOL ARGUMENT,ARGUMENT".
	Steered []FlowEntry
	Choose  []FlowEntry
	Text    []FlowEntry
	Line    int
	only    bool // the document has a list only, perhaps an empty one
	empty   bool // the document gives it no consequence
}

// Limits reports whether the flow has a list only, which may be empty.
func (f Flow) Limits() bool { return f.only }

// FlowEntry names sources or sinks of data: a section, and a pattern of that section.
type FlowEntry struct {
	Section string // "files", "network", "commands", "tools", "secrets", "side_effects", "models" or "databases"
	Pattern string
	Line    int

	pos      fault.Pos
	effects  tool.Effects // of side_effects
	sink     bool         // of only: the files get the label when they are written, and are no source of it
	standard bool         // the document has it by the word standard
	name     *glob.Text   // of tools, secrets and databases
}

// withheld reports whether a flow with a list only withholds the entry's resources.
func (e FlowEntry) withheld() bool {
	return e.Section == "files" || e.Section == "network" || e.Section == "secrets"
}

// String prints the entry as policies write it.
func (e FlowEntry) String() string { return e.Section + " " + e.Pattern }

// Labels lists the policy's labels, in the order of the document, with those of the standard flows.
func (p *Policy) Labels() []Label { return slices.Clone(p.content().data.labels) }

// Flows lists the policy's flows, in the order of the document, with the standard ones.
func (p *Policy) Flows() []Flow { return slices.Clone(p.content().data.flows) }

// Untrusted is the label that every policy may name in flows without describing it: all that
// comes from outside, as builtinSources lists it.
const Untrusted = "untrusted"

// builtinSources are the sources of the label [Untrusted].
var builtinSources = []string{"network *", "tools mcp:*", "tools ext:*", "tools api:*", "tools wasm:*", "tools agent:*", "tools agent.recall", "tools provider.*"}

// MaxDataLabels bounds the labels of a chain.
const MaxDataLabels = 64

// dataSettings are the sections labels and flows.
type dataSettings struct {
	labels   []Label
	flows    []Flow
	standard fault.Pos // of flows: standard; zero: the document does not say so
	own      struct {  // with standard: the document's own entries
		labels []Label
		flows  []Flow
	}
	labelPos []fault.Pos
	flowPos  []fault.Pos
}

var dataLabelForm = regex.Lazy(`^[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*$`)

func (p *parser) dataLabelName(n *document.Node, path string) bool {
	if n.Text == Standard {
		p.Fail(n, path, "%q is not a valid label: it is the word for the standard flows", Standard)
		return false
	}
	if len(n.Text) > 40 || !dataLabelForm.MatchString(n.Text) {
		p.Fail(n, path, "%q is not a valid label; expected lower-case words with - or _ between them, as private", clip.Text(n.Text, 40))
		return false
	}
	return true
}

// readLabels reads the mapping labels.
func (s *dataSettings) readLabels(p *parser, n *document.Node, path string) {
	p.Each(n, path, func(key, value *document.Node, path string) {
		if !p.dataLabelName(key, path) {
			return
		}
		if len(s.labels) == MaxDataLabels {
			p.Fail(key, path, "the policy has more than %d labels", MaxDataLabels)
			return
		}
		l := Label{Name: key.Text, Line: key.Line}
		kind, before := "", p.Problems()
		p.mapping(value, path, document.Fields{
			"from": p.flowEntries(&l.From, sources, true), "but": p.flowEntries(&l.But, sources, true), "kind": p.OneOf(&kind, "untrusted", "confidential"),
		})
		if l.Confidential = kind == "confidential"; p.Problems() == before && len(l.From) == 0 && l.Name != Untrusted {
			p.Fail(key, path, "the label %q has no sources", l.Name).Hint = `write from: ["network *"], or another source of its data`
		}
		s.labels, s.labelPos = append(s.labels, l), append(s.labelPos, p.Pos(key))
	})
}

// flowsSetting makes the setting flows.
func (s *dataSettings) flowsSetting() setting {
	return setting{"flows", func(p *parser) document.Field {
		return func(n *document.Node, path string) {
			if n.Kind != document.Mapping {
				s.flowsWord(p, n, path)
				return
			}
			p.Each(n, path, func(key, value *document.Node, path string) {
				if key.Text == Standard {
					s.flowsWord(p, value, path)
					return
				}
				if hint := meant(key.Text, []string{Standard}); hint != "" && value.Kind != document.Mapping {
					p.Fail(key, path, "%q is not a label with a flow", key.Text).Hint = hint
					return
				}
				if !p.dataLabelName(key, path) {
					return
				}
				f := Flow{Label: key.Text, Line: key.Line}
				before := p.Problems()
				p.mapping(value, path, document.Fields{"ask": p.flowEntries(&f.Ask, asks, true),
					"ask_steered": p.flowEntries(&f.Steered, asks, true), "choose": p.flowEntries(&f.Choose, []string{"tools"}, false), "text": p.textEntries(&f.Text),
					"only": func(n *document.Node, path string) {
						f.only = true
						p.flowEntries(&f.Only, sinks, false)(n, path)
					}})
				f.empty = p.Problems() == before && len(f.Ask)+len(f.Steered) == 0 && !f.only
				s.flows, s.flowPos = append(s.flows, f), append(s.flowPos, p.Pos(key))
			})
		}
	}, s.printFlows}
}

// check refuses flows of unknown labels, and consequences that do not fit the label's kind.
func (s *dataSettings) check(p *parser, path string, inherit bool) {
	for i, f := range s.flows {
		at := slices.IndexFunc(s.labels, func(l Label) bool { return l.Name == f.Label })
		field := path + "flows." + f.Label
		fail := func(hint, format string, args ...any) {
			n := &document.Node{Line: s.flowPos[i].Line, Column: s.flowPos[i].Column}
			p.Fail(n, field, format, args...).Hint = hint
		}
		switch confidential := at >= 0 && s.labels[at].Confidential; {
		case at < 0 && f.Label != Untrusted && !inherit:
			names := []string{Untrusted}
			for _, l := range s.labels {
				names = append(names, l.Name)
			}
			hint := "describe it in labels"
			if best := near.Word(f.Label, names); best != "" {
				hint = fmt.Sprintf("did you mean %q?", best)
			}
			fail(hint, "the policy has no label %q", f.Label)
		case f.only && at >= 0 && !confidential, f.only && f.Label == Untrusted:
			fail("add kind: confidential to the label, or write ask", "only is for confidential labels, and %q is untrusted", f.Label)
		case f.only && at >= 0 && slices.ContainsFunc(s.labels[at].But, FlowEntry.withheld):
			fail("name the sources in from so that they leave it out, or except a tool or a command", "only withholds all of from, so but cannot except files, hosts or secrets of %q", f.Label)
		case len(f.Ask)+len(f.Steered) > 0 && confidential:
			fail("write only: [...], or remove kind: confidential from the label", "ask is for untrusted labels, and %q is confidential", f.Label)
		case f.Label == Untrusted && s.standard != (fault.Pos{}) && len(f.Choose)+len(f.Text) > 0:
		case f.empty:
			fail("write ask: [...] for data that is not trusted, or only: [...] for data that is confidential", "the flow of %q has no consequence", f.Label)
		case len(f.Steered) == 0 && len(f.Choose)+len(f.Text) > 0:
			fail("add ask_steered: [...]", "choose and text are for flows with ask_steered")
		}
	}
}

// The sections of entries: of sources, of the questions of an untrusted label, and of the places
// that data of a confidential label may reach.
var (
	sources = []string{"files", "network", "tools", "commands", "secrets", "databases"}
	asks    = []string{"files", "network", "tools", "commands", "side_effects", "models", "databases"}
	sinks   = []string{"files", "network", "tools", "commands", "models", "databases"}
)

func (p *parser) flowEntries(into *[]FlowEntry, sections []string, wide bool) document.Field {
	return p.List(0, func(n *document.Node, path string) {
		text, ok := p.Text(n, path)
		if !ok {
			return
		}
		e, err := parseFlowEntry(text, sections, wide)
		if err != nil {
			p.Fail(n, path, "%s", plain(err))
			return
		}
		e.Line, e.pos = n.Line, p.Pos(n)
		*into = append(*into, e)
	})
}

// parseFlowEntry reads "SECTION PATTERN". Wide patterns match as in deny lists: they include every
// spelling that a file system or a host may take for the same name.
func parseFlowEntry(text string, sections []string, wide bool) (FlowEntry, error) {
	section, pattern, ok := strings.Cut(text, " ")
	e := FlowEntry{Section: section, Pattern: strings.TrimSpace(pattern)}
	if !ok || e.Pattern == "" || !slices.Contains(sections, section) {
		return e, fmt.Errorf("%q is not a valid entry; expected one of %s and a pattern, as %q", clip.Text(text, 60), strings.Join(sections, ", "), "network *")
	}
	var err error
	switch section {
	case "side_effects":
		if e.effects = effectsOf(e.Pattern); e.effects == 0 {
			err = fmt.Errorf("%q is not a side effect: %s", clip.Text(e.Pattern, 40), suggestEffect(e.Pattern))
		}
	case "tools":
		e.name, err = compileToolName(e.Pattern, wide)
	case "secrets", "databases":
		if strings.Trim(e.Pattern, "abcdefghijklmnopqrstuvwxyz0123456789-_*") != "" {
			return e, fmt.Errorf("%q is not a valid name; expected lower-case words, with * as a wildcard", clip.Text(e.Pattern, 40))
		}
		e.name, err = glob.CompileName(e.Pattern, ':', true)
	default:
		_, err = e.pattern(wide)
	}
	return e, err
}

// pattern reads the pattern of an entry as its section of the policy does.
func (e *FlowEntry) pattern(wide bool) (pattern, error) {
	effect := Allow
	if wide {
		effect = Deny
	}
	switch e.Section {
	case "files":
		return parseFilePattern(e.Pattern, !wide, effect)
	case "network":
		text := e.Pattern
		if rest, ok := strings.CutSuffix(text, "**"); ok && (rest == "" || strings.HasSuffix(rest, " ")) {
			text = rest + "*" // ** is every host, as elsewhere every path
		}
		rule, err := target.ParseRule(text, wide)
		if err != nil {
			return nil, err
		}
		return &networkPattern{text: text, rule: rule}, nil
	case "commands":
		return parseCommandPattern(e.Pattern, effect)
	case "models":
		return parseModelPattern(e.Pattern, effect)
	}
	return nil, fmt.Errorf("%q has no pattern", e.Section)
}

func flowTexts(list []FlowEntry) []string {
	out := []string{}
	for _, e := range list {
		out = append(out, e.String())
	}
	return out
}

func (s *dataSettings) printLabels(w *printer, in int) {
	labels := s.labels
	if s.standard != (fault.Pos{}) {
		labels = s.own.labels
	}
	if len(labels) == 0 {
		return
	}
	w.line(in, "labels:")
	for _, l := range labels {
		w.line(in+1, "%s:", l.Name)
		w.line(in+2, "from: %s", quoteAll(flowTexts(l.From)))
		if len(l.But) > 0 {
			w.line(in+2, "but: %s", quoteAll(flowTexts(l.But)))
		}
		if l.Confidential {
			w.line(in+2, "kind: confidential")
		}
	}
}

func (s *dataSettings) printFlows(w *printer, in int) {
	flows := s.flows
	if s.standard != (fault.Pos{}) {
		flows = s.own.flows
		if len(flows) == 0 {
			w.line(in, "flows: %s", Standard)
			return
		}
	}
	if len(flows) == 0 {
		return
	}
	w.line(in, "flows:")
	if s.standard != (fault.Pos{}) {
		w.line(in+1, "%s: true", Standard)
	}
	for _, f := range flows {
		w.line(in+1, "%s:", f.Label)
		if len(f.Ask) > 0 {
			w.line(in+2, "ask: %s", quoteAll(flowTexts(f.Ask)))
		}
		for _, list := range []struct {
			name    string
			entries []FlowEntry
		}{{"ask_steered", f.Steered}, {"choose", f.Choose}, {"text", f.Text}} {
			if len(list.entries) > 0 {
				w.line(in+2, "%s: %s", list.name, quoteAll(flowTexts(list.entries)))
			}
		}
		if f.only {
			w.line(in+2, "only: %s", quoteAll(flowTexts(f.Only)))
		}
	}
}

// labelled reports whether the document has a section of labels of data.
func (s *dataSettings) labelled() bool {
	var w printer
	s.printLabels(&w, 0)
	return w.b.Len() > 0
}

// PrintFlows writes the policy's labels and flows, those of the word standard included.
func (p *Policy) PrintFlows() []byte {
	s := p.content().data
	s.standard = fault.Pos{}
	w := &printer{}
	s.printLabels(w, 0)
	s.printFlows(w, 0)
	return w.b.Bytes()
}

// same reports whether two documents have the same labels.
func (s *dataSettings) same(other *dataSettings) bool {
	var a, b printer
	s.printLabels(&a, 0)
	other.printLabels(&b, 0)
	return a.b.String() == b.b.String()
}

// HasFlows reports whether a policy of the chain has labels or flows.
func (c Chain) HasFlows() bool {
	return slices.ContainsFunc(c, func(r *Rules) bool { return r != nil && r.policy != nil && r.policy.content().data.used() })
}
