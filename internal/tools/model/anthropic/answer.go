package anthropic

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/tools/model"
)

// event is an event of the API's stream, as far as Remit reads it.
type event struct {
	Type    string `json:"type"`
	Index   int64  `json:"index"`
	Message struct {
		Model string `json:"model"`
		Usage usage  `json:"usage"`
	} `json:"message"`
	ContentBlock json.RawMessage `json:"content_block"`
	Delta        delta           `json:"delta"`
	Usage        usage           `json:"usage"`
}

// usage has the totals that the service told.
type usage struct {
	InputTokens              *int64 `json:"input_tokens"`
	OutputTokens             *int64 `json:"output_tokens"`
	CacheReadInputTokens     *int64 `json:"cache_read_input_tokens"`
	CacheCreationInputTokens *int64 `json:"cache_creation_input_tokens"`
}

type delta struct {
	Type        string `json:"type"`
	Text        string `json:"text"`
	PartialJSON string `json:"partial_json"`
	Thinking    string `json:"thinking"`
	Signature   string `json:"signature"`
	StopReason  string `json:"stop_reason"`
}

// contentBlock is the beginning of a block.
type contentBlock struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
	Input     json.RawMessage `json:"input"`
}

// answer puts an answer together from the events of its stream.
type answer struct {
	p     *Provider
	on    func(model.Delta)
	draft model.Draft // of what came in, in the order in which it came

	blocks map[int64]*block
	model  string
	stop   string // why it ended
	usage  model.Usage
	ended  bool
}

// block is a block of content.
type block struct {
	kind      string
	open      bool // more of it may come
	id, name  string
	text      strings.Builder // or arguments, or thoughts
	input     string          // of a call whose arguments come with its beginning
	signature strings.Builder
	data      string
}

func newAnswer(p *Provider, on func(model.Delta)) *answer {
	return &answer{p: p, on: on, draft: model.Draft{On: on}, blocks: map[int64]*block{}}
}

// Begun reports whether a part of the answer came in.
func (a *answer) Begun() bool { return a.draft.Begun() }

// begin takes a message's beginning. One that begins before the last was over takes
// its place. After one that was over it goes on with the answer: a block then takes
// the place of the one that has its number.
func (a *answer) begin(e *event) {
	if !a.ended {
		clear(a.blocks)
	}
	a.stop, a.ended, a.model, a.usage = "", false, e.Message.Model, model.Usage{}
	a.recount(e.Message.Usage)
}

// Take takes the next event. Events of unknown kinds carry nothing that matters here.
func (a *answer) Take(in model.Event) error {
	var e event
	if in.Name == "error" {
		return in.Refusal(a.p, a.Begun())
	}
	if err := in.Decode(&e); err != nil {
		return err
	}
	switch cmp.Or(e.Type, in.Name) {
	case "error":
		return in.Refusal(a.p, a.Begun())
	case "message":
		return a.takeWhole(in)
	case "message_start":
		a.begin(&e)
	case "content_block_start":
		return a.start(e.Index, e.ContentBlock)
	case "content_block_delta":
		return a.delta(a.blocks[e.Index], &e.Delta, len(in.Data))
	case "content_block_stop":
		if b := a.blocks[e.Index]; b != nil {
			b.open = false
		}
	case "message_delta":
		if e.Delta.StopReason != "" {
			a.stop = e.Delta.StopReason
		}
		a.recount(e.Usage)
	case "message_stop":
		a.ended = true
	default:
		if in.Whole {
			return in.NotAnswer()
		}
	}
	return nil
}

// takeWhole reads an answer in one JSON document, instead of a stream.
func (a *answer) takeWhole(in model.Event) error {
	var m struct {
		Model      string            `json:"model"`
		Usage      usage             `json:"usage"`
		Content    []json.RawMessage `json:"content"`
		StopReason string            `json:"stop_reason"`
	}
	if err := in.Decode(&m); err != nil {
		return err
	}
	a.model, a.stop, a.ended = m.Model, m.StopReason, true
	a.recount(m.Usage)
	for i, raw := range m.Content {
		if err := a.start(int64(i), raw); err != nil {
			return err
		}
	}
	return nil
}

// recount takes totals; missing ones keep their value.
func (a *answer) recount(u usage) {
	for _, f := range []struct{ into, told *int64 }{
		{&a.usage.Input, u.InputTokens}, {&a.usage.Output, u.OutputTokens},
		{&a.usage.CacheRead, u.CacheReadInputTokens}, {&a.usage.CacheWrite, u.CacheCreationInputTokens},
	} {
		if f.told != nil {
			*f.into = *f.told
		}
	}
}

func (a *answer) start(index int64, raw json.RawMessage) error {
	var c contentBlock
	if err := (model.Event{Data: raw}).Decode(&c); err != nil {
		return err
	}
	b := &block{kind: c.Type, open: true, id: c.ID, name: c.Name, data: c.Data}
	a.blocks[index] = b
	switch c.Type {
	case "text":
		b.text.WriteString(c.Text)
		return a.draft.Text(c.Text)
	case "thinking":
		b.text.WriteString(c.Thinking)
		b.signature.WriteString(c.Signature)
	case "tool_use":
		b.input = string(c.Input)
	}
	return a.draft.Count(len(raw))
}

// delta extends a block; size is that of the event.
func (a *answer) delta(b *block, d *delta, size int) error {
	if b == nil || !b.open {
		return fault.New(fault.ModelFailed, "the service extended a part of the answer that it never began").WithHint("ask again")
	}
	switch {
	case b.kind == "text" && d.Type == "text_delta":
		b.text.WriteString(d.Text)
		return a.draft.Text(d.Text)
	case b.kind == "tool_use" && d.Type == "input_json_delta":
		b.text.WriteString(d.PartialJSON)
		return a.draft.Count(len(d.PartialJSON))
	case b.kind == "thinking":
		b.text.WriteString(d.Thinking)
		b.signature.WriteString(d.Signature)
		return a.draft.Count(len(d.Thinking) + len(d.Signature))
	}
	return a.draft.Count(size)
}

// add adds what a block came to.
func (b *block) add(to *model.Draft) error {
	switch b.kind {
	case "text":
		return to.Text(b.text.String())
	case "tool_use":
		p, err := to.Call(b.id, b.name)
		if err != nil {
			return err
		}
		args := b.text.String()
		if args == "" && b.input != "null" {
			args = b.input
		}
		return to.Args(p, args)
	case "thinking":
		return think(to, map[string]string{"type": b.kind, "thinking": b.text.String(), "signature": b.signature.String()})
	case "redacted_thinking":
		return think(to, map[string]string{"type": b.kind, "data": b.data})
	}
	return nil
}

func think(to *model.Draft, v map[string]string) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return to.Reasoning(string(raw))
}

// finish returns the answer, if it is whole.
func (a *answer) finish() (model.Response, error) {
	left := model.Response{Usage: a.usage}
	if a.stop == "" { // later events say nothing more
		return left, model.Cut(a.Begun())
	}
	var whole model.Draft
	for _, i := range slices.Sorted(maps.Keys(a.blocks)) {
		if err := a.blocks[i].add(&whole); err != nil {
			return left, err
		}
	}
	stop := model.StopEnd
	switch a.stop {
	case "tool_use":
		stop = model.StopCalls
	case "max_tokens", "model_context_window_exceeded":
		stop = model.StopLength
	case "refusal":
		stop = model.StopRefused
	}
	m, stop, err := whole.Finish(stop)
	if err != nil {
		return left, err
	}
	for i := range m.Calls {
		if a.on != nil {
			a.on(model.Delta{Call: &m.Calls[i]})
		}
	}
	return model.Response{Message: m, Stop: stop, Usage: a.usage, Model: a.model}, nil
}
