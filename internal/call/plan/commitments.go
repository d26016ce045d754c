package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/commitment"
	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
)

var commitmentKeys = []string{"run", "exit", "cwd", "file", "json", "equals"}

// argumentOf names the argument that a key of a commitment gives to the call.
var argumentOf = map[string]string{"run": "argv", "cwd": "cwd", "file": "path", "json": "path"}

// commitments makes a step of each condition.
func (r *reader) commitments(p *Plan, n *document.Node) {
	number := 0
	r.List(commitment.Max, func(n *document.Node, field string) {
		number++
		keys := r.object(n, field, commitmentKeys)
		if keys == nil {
			return
		}
		c, ok := r.commitment(n, keys, field)
		if !ok {
			return
		}
		s := &Step{Index: len(p.Steps) + 1, ID: fmt.Sprintf("commitment-%d", number), Pos: r.Pos(n), Tool: c.Tool(), Commitment: &c, OnError: Continue,
			args: noArgs, path: field}
		if other := p.byID[s.ID]; other != nil {
			r.bad(n, field, "give that step another id", "step %d has the id %q of this commitment", other.Index, s.ID)
			return
		}
		p.byID[s.ID] = s
		r.stepDetails(s, map[string]*document.Node{"args": argumentsNode(n, keys)}, field)
		p.Steps = append(p.Steps, s)
	})(n, "commitments")
}

func (r *reader) commitment(n *document.Node, keys map[string]*document.Node, field string) (c commitment.Commitment, ok bool) {
	before := r.Problems()
	for key, read := range map[string]document.Field{
		"run": r.Strings(&c.Run, 0), "exit": document.Int(r.Reader, &c.Exit, 0, 255),
		"cwd": r.String(&c.Cwd), "file": r.String(&c.File), "json": r.String(&c.JSON),
		"equals": func(n *document.Node, path string) { c.Equals = r.values(n, path) },
	} {
		if keys[key] != nil {
			read(keys[key], document.Join(field, key))
		}
	}
	if r.Problems() > before {
		return c, false
	}
	if err := commitment.Check(fault.PlanInvalid, "", []commitment.Commitment{c}); err != nil {
		r.bad(n, field, "", "%s", fault.Message(err))
		return c, false
	}
	return c, true
}

// values reads a mapping of JSON values.
func (r *reader) values(n *document.Node, field string) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	r.Each(n, field, func(k, v *document.Node, field string) {
		b, err := canon.Marshal(v.Value())
		if err != nil {
			r.bad(v, field, "", "%v", err)
			return
		}
		out[k.Text] = b
	})
	return out
}

// argumentsNode is the arguments of the call that checks a commitment, at their places in the
// plan's source.
func argumentsNode(n *document.Node, keys map[string]*document.Node) *document.Node {
	args := &document.Node{Kind: document.Mapping, Line: n.Line, Column: n.Column}
	for _, key := range slices.Sorted(maps.Keys(argumentOf)) {
		if v := keys[key]; v != nil {
			name := &document.Node{Kind: document.String, Text: argumentOf[key], Line: v.Line, Column: v.Column}
			args.Pairs = append(args.Pairs, document.Pair{Key: name, Value: v})
		}
	}
	return args
}

// linkCommitments has commitments wait for all other steps, and for each other in order.
func linkCommitments(steps []*Step) {
	needed := make([]bool, len(steps)+1)
	var last []int // ordinary steps that no other ordinary step waits for
	for _, s := range slices.Backward(steps) {
		if s.Commitment != nil {
			continue
		}
		if !needed[s.Index] {
			last = append(last, s.Index)
		}
		for _, d := range s.deps {
			needed[d] = true
		}
	}
	for _, s := range steps {
		if s.Commitment != nil {
			s.deps = append(s.deps, last...)
			slices.Sort(s.deps)
			s.deps = slices.Compact(s.deps)
			last = []int{s.Index}
		}
	}
}

// ordinary is the steps that the source lists, without those of commitments.
func (p *Plan) ordinary() []*Step {
	n := len(p.Steps)
	for n > 0 && p.Steps[n-1].Commitment != nil {
		n--
	}
	return p.Steps[:n]
}

// commitments prints the conditions of a plan.
func (w *printer) commitments(steps []*Step) {
	if len(steps) > 0 {
		w.b.WriteString("commitments:\n")
	}
	for _, s := range steps {
		c := s.Commitment
		values := map[string]any{}
		if c.Exit != 0 {
			values["exit"] = json.Number(fmt.Sprint(c.Exit))
		}
		for key, text := range map[string]string{"cwd": c.Cwd, "file": c.File, "json": c.JSON} {
			if text != "" {
				values[key] = text
			}
		}
		if len(c.Run) > 0 {
			argv := make([]any, len(c.Run))
			for i, word := range c.Run {
				argv[i] = word
			}
			values["run"] = argv
		}
		if len(c.Equals) > 0 {
			equals := map[string]any{}
			for pointer, v := range c.Equals {
				equals[pointer], _ = canon.Decode(v) // valid: the plan was checked
			}
			values["equals"] = equals
		}
		for i, key := range sortedKeys(values) {
			lead := "    "
			if i == 0 {
				lead = "  - "
			}
			w.b.WriteString(lead + key + ":")
			w.printValue(4, values[key])
		}
	}
}
