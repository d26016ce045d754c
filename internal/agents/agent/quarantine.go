package agent

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/schema"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/tools/model"
	"github.com/remitrun/remit/internal/tools/typed"
)

// A quarantined sub-agent has a context of its own. All that its parent gets of it is its answer:
// values that choose too little to carry an order, and references to the others.

// answerID is the quarantined session's own tool that takes its answer; answerName is its name
// for models.
const (
	answerID   = tool.ID("agent.answer")
	answerName = "answer"
)

// Bounds of an answer.
const (
	maxAnswerSchema = 16 << 10 // bytes
	maxAnswerValues = 64       // values that have no others in them
	maxAnswerTexts  = 8        // dates and short IDs that the parent sees; further ones are references
	maxAnswerNumber = 1 << 53
	maxNumberText   = 24 // bytes
)

const answerPrompt = "You are in quarantine: whoever gave you this task sees nothing that you write. Call the tool " + answerName + " with your answer, as its schema asks, and end then."

// checkAnswer checks the schema of a quarantined sub-agent's answer. Errors have the code.
func checkAnswer(code fault.Code, quarantine bool, src json.RawMessage) error {
	bad := func(format string, args ...any) *fault.Error { return fault.New(code, format, args...).In("answer") }
	switch {
	case !quarantine && src == nil:
		return nil
	case !quarantine:
		return bad("only a quarantined sub-agent has a schema for its answer").WithHint("add quarantine: true")
	case src == nil:
		return bad("a quarantined sub-agent needs a schema for its answer")
	case len(src) > maxAnswerSchema:
		return bad("the schema of an answer has at most %d bytes", maxAnswerSchema)
	}
	if _, err := schema.Compile("the answer", src); err != nil {
		return bad("%v", err)
	}
	var root struct {
		Type any `json:"type"`
	}
	if err := json.Unmarshal(src, &root); err != nil || root.Type != "object" {
		return bad(`the schema of an answer must have "type": "object"`)
	}
	return nil
}

// demandQuarantine adds to a request what the agent's definition demands. The request cannot
// loosen it.
func demandQuarantine(a *Agent, q *capability.SpawnRequest) error {
	if a.Quarantine && q.Answer != nil {
		return fault.New(fault.ArgsInvalid, "the agent %q always runs in quarantine, with an answer of its own", a.Name).In("answer").WithHint("leave answer out")
	}
	if a.Quarantine {
		q.Quarantine, q.Answer = true, a.Answer
	}
	return checkAnswer(fault.ArgsInvalid, q.Quarantine, q.Answer)
}

// newAnswer makes the tool that takes an answer. The runner checks it with the schema.
func newAnswer(src json.RawMessage) permit.Tool {
	return typed.Func(tool.Spec{
		ID: answerID, Title: "Answer", Version: "1", Source: "builtin", Risk: tool.Low,
		Description: "Gives your answer to whoever gave you the task. The last one counts.",
		Input:       src, Output: typed.Object(`"answer":{"type":"object"}`, "answer"),
	}, func(_ context.Context, _ permit.Permit, a map[string]any) (map[string]any, error) {
		if n := countValues(a); n > maxAnswerValues {
			return nil, fault.New(fault.ArgsInvalid, "the answer has %d values; the maximum is %d", n, maxAnswerValues)
		}
		return map[string]any{"answer": a}, nil
	})
}

// countValues counts the values of an answer. Empty objects and lists count: a row of them can
// spell a text.
func countValues(v any) (n int) {
	switch v := v.(type) {
	case map[string]any:
		for _, one := range v {
			n += countValues(one)
		}
	case []any:
		for _, one := range v {
			n += countValues(one)
		}
	}
	return max(n, 1)
}

// canonical is a JSON text as the record gives it back; nil: there is none.
func canonical(src json.RawMessage) json.RawMessage {
	v, err := canon.Decode(src)
	if err != nil {
		return nil
	}
	b, err := canon.Marshal(v)
	if err != nil {
		return nil
	}
	return b
}

// quarantined reports whether the session gives a typed answer and nothing else.
func (set *setup) quarantined() bool { return set.answer != nil }

// owesAnswer reports whether the session must still call the tool of its answer in this turn.
func (l *loop) owesAnswer() bool { return l.set.quarantined() && !l.conv.answered() }

// answered reports whether the tool of a typed answer accepted one in the current turn.
func (c *conversation) answered() bool {
	var calls map[string]bool // of the last answer of the model: a provider may use an ID again
	for _, e := range c.turn() {
		if e.Role == model.Assistant {
			calls = map[string]bool{}
		}
		for _, k := range e.Calls {
			calls[k.ID] = k.Name == answerName
		}
		if e.Kind == Summary && e.Answered || e.Role == model.ToolRole && calls[e.CallID] && !e.Failed {
			return true
		}
	}
	return false
}

// answered describes a quarantined sub-agent: the code of its error, or its answer. With the
// answer, the parent's context gets the child's confidential labels.
func (c *children) answered(ctx context.Context, out capability.Child, r store.SessionRecord, d sessionDoc) (capability.Child, error) {
	if d.Error != nil {
		out.Error = d.Error.Code
	}
	if out.Status != "idle" {
		return out, nil
	}
	from := outputs{c.svc.o.Record, c.parent}
	number, err := from.lastAnswer(ctx, r.ID)
	if number == 0 || err != nil {
		return out, err
	}
	answer, _, err := from.answer(ctx, r.ID, number)
	if errors.Is(err, fault.NotFound) { // it was erased
		out.Error, err = fault.NotFound.Error(), nil
		return out, err
	}
	if err != nil {
		return out, err
	}
	var chain policy.Chain
	if act := c.svc.activation(c.parent); act != nil {
		chain = act.run.Chain()
	}
	if _, err := c.svc.o.Runs.Labels(ctx, c.parent, chain); err != nil {
		return out, err
	}
	l := newLowering(d.Child.Answer, answerIDOf(r.ID, number))
	out.Answer, _ = l.value(answer.Value, "").(map[string]any)
	return out, nil
}

// answerIDOf names the answer of a message.
func answerIDOf(child uuid.UUID, number int) string { return withheldID(child, strconv.Itoa(number)) }

// lastAnswer finds the message with the answer of a sub-agent's last turn; 0: there is none.
func (o outputs) lastAnswer(ctx context.Context, child uuid.UUID) (int, error) {
	done := map[string]bool{}
	for r, err := range o.record.Messages(ctx, child, 0, true) {
		if err != nil {
			return 0, err
		}
		m, err := decode(r)
		if err != nil {
			return 0, err
		}
		switch {
		case m.Role == model.ToolRole && !m.Failed:
			done[m.CallID] = true
		case m.Role == model.User && m.Kind == Spoken:
			return 0, nil
		case slices.ContainsFunc(m.Calls, func(k model.Call) bool { return k.Name == answerName && done[k.ID] }):
			return m.Number, nil
		case m.Role == model.Assistant:
			clear(done) // a provider may use an ID again
		}
	}
	return 0, nil
}

// answer loads the answer that a message of a sub-agent gave: the last one that was accepted.
func (o outputs) answer(ctx context.Context, child uuid.UUID, number int) (runner.StoredOutput, []byte, error) {
	for r, err := range o.record.Messages(ctx, child, number, false) {
		if err != nil {
			return runner.StoredOutput{}, nil, err
		}
		m, err := decode(r)
		if err != nil || m.Number != number {
			return runner.StoredOutput{}, nil, err
		}
		for _, k := range slices.Backward(m.Calls) {
			if k.Name != answerName {
				continue
			}
			out, b, err := o.load(ctx, child, StepOf(number, k.ID), func([]byte) bool { return true })
			if b == nil && err == nil {
				continue
			}
			all, _ := out.Value.(map[string]any)
			out.Value, out.Withheld = all["answer"], true
			return out, b, err
		}
		break
	}
	return runner.StoredOutput{}, nil, nil
}

// answers finds an answer of the quarantined sub-agents of a session by its ID.
func (o outputs) answers(ctx context.Context, session uuid.UUID, id string) (runner.StoredOutput, []byte, error) {
	list, err := o.record.Sessions(ctx, store.SessionFilter{Parent: session, Deleted: true, PageFilter: store.PageFilter{Limit: maxChildren}})
	for _, r := range list {
		number := 1
		for number <= r.Last && answerIDOf(r.ID, number) != id {
			number++
		}
		if number > r.Last {
			continue
		}
		if r.Deleted {
			return runner.StoredOutput{}, nil, fault.New(fault.NotFound, "the output %.100q is gone: the session of the sub-agent that gave it was deleted", id)
		}
		if d, err := readSession(r); err != nil || d.Child == nil || !d.Child.Quarantine {
			return runner.StoredOutput{}, nil, err
		}
		return o.answer(ctx, r.ID, number)
	}
	return runner.StoredOutput{}, nil, err
}

// contextLabels are the labels with which a call was decided, and those that it added.
func (o outputs) contextLabels(ctx context.Context, c *ledger.Call) ([]string, error) {
	p, ok := c.Parts[ledger.PartFlow]
	if !ok {
		return nil, nil
	}
	var f ledger.CallFlow
	b, err := o.record.Load(ctx, p)
	if err == nil {
		err = json.Unmarshal(b, &f)
	}
	if err != nil {
		return nil, fault.Wrap(fault.StoreCorrupt, err, "the labels of call %d cannot be read", c.Index)
	}
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(f.Context, c.Labels)))), nil
}

// lowering extracts the parts of an answer that its reader may see.
type lowering struct {
	output string // the ID of the answer
	names  map[string]bool
	enums  map[string]bool
	texts  int
}

// newLowering reads the names of members and the texts to choose from out of a schema.
func newLowering(src json.RawMessage, output string) *lowering {
	l := &lowering{output: output, names: map[string]bool{}, enums: map[string]bool{}}
	if doc, err := canon.Decode(src); err == nil {
		l.read(doc)
	}
	return l
}

func (l *lowering) read(v any) {
	switch v := v.(type) {
	case map[string]any:
		if named, ok := v["properties"].(map[string]any); ok {
			for name := range named {
				l.names[name] = true
			}
		}
		if list, ok := v["enum"].([]any); ok {
			for _, one := range list {
				l.choice(one)
			}
		}
		l.choice(v["const"])
		for _, one := range v {
			l.read(one)
		}
	case []any:
		for _, one := range v {
			l.read(one)
		}
	}
}

func (l *lowering) choice(v any) {
	if s, ok := v.(string); ok {
		l.enums[s] = true
	}
}

// value gives a value as its reader may see it. Members without a name in the schema are left out.
func (l *lowering) value(v any, at string) any {
	switch v := v.(type) {
	case nil, bool:
		return v
	case map[string]any:
		out := map[string]any{}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if l.names[k] {
				out[k] = l.value(v[k], canon.Below(at, k))
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = l.value(v[i], canon.Below(at, strconv.Itoa(i)))
		}
		return out
	case json.Number:
		if x, err := v.Float64(); err == nil && math.Abs(x) <= maxAnswerNumber && len(v) <= maxNumberText {
			return v
		}
	case string:
		if l.enums[v] {
			return v
		}
		if l.texts < maxAnswerTexts && policy.Free(v) && strings.TrimSpace(v) == v { // spaces can spell a text
			l.texts++
			return v
		}
	}
	return map[string]any{"$output": l.output, "at": at}
}
