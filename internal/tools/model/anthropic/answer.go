package anthropic

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/tools/model"
)

// answer puts an answer together from the events of its stream.
type answer struct {
	on    func(model.Delta)
	draft model.Draft // of what came in, in the order in which it came

	blocks map[int64]*block
	model  string
	stop   sdk.StopReason
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

func newAnswer(on func(model.Delta)) *answer {
	return &answer{on: on, draft: model.Draft{On: on}, blocks: map[int64]*block{}}
}

func (a *answer) begun() bool { return a.draft.Begun() }

// begin takes a message's beginning. One that begins before the last was over takes
// its place. After one that was over it goes on with the answer: a block then takes
// the place of the one that has its number.
func (a *answer) begin(m *sdk.Message) {
	if !a.ended {
		clear(a.blocks)
	}
	a.stop, a.ended, a.model = "", false, m.Model
	u := m.Usage
	a.usage = model.Usage{Input: u.InputTokens, Output: u.OutputTokens, CacheRead: u.CacheReadInputTokens, CacheWrite: u.CacheCreationInputTokens}
}

// take takes the next event. Those of kinds that are not known say nothing that
// matters here.
func (a *answer) take(e sdk.MessageStreamEventUnion) error {
	switch e.Type {
	case "message_start":
		a.begin(&e.Message)
	case "content_block_start":
		return a.start(e.Index, &e.ContentBlock)
	case "content_block_delta":
		return a.delta(a.blocks[e.Index], &e)
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
	}
	return nil
}

// recount takes the totals of a message's end; those that are not told stay.
func (a *answer) recount(u sdk.MessageDeltaUsage) {
	for _, f := range []struct {
		into *int64
		told bool
		n    int64
	}{
		{&a.usage.Input, u.JSON.InputTokens.Valid(), u.InputTokens},
		{&a.usage.Output, u.JSON.OutputTokens.Valid(), u.OutputTokens},
		{&a.usage.CacheRead, u.JSON.CacheReadInputTokens.Valid(), u.CacheReadInputTokens},
		{&a.usage.CacheWrite, u.JSON.CacheCreationInputTokens.Valid(), u.CacheCreationInputTokens},
	} {
		if f.told {
			*f.into = f.n
		}
	}
}

func (a *answer) start(index int64, c *sdk.ContentBlockStartEventContentBlockUnion) error {
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
		b.input = c.JSON.Input.Raw()
	}
	return a.draft.Count(len(c.RawJSON()))
}

func (a *answer) delta(b *block, e *sdk.MessageStreamEventUnion) error {
	if b == nil || !b.open {
		return fault.New(fault.ModelFailed, "the service extended a part of the answer that it never began").WithHint("ask again")
	}
	switch d := e.Delta; {
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
	return a.draft.Count(len(e.RawJSON()))
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
	if a.stop == "" { // what comes after it says nothing more
		return left, model.Cut(a.begun())
	}
	var whole model.Draft
	for _, i := range slices.Sorted(maps.Keys(a.blocks)) {
		if err := a.blocks[i].add(&whole); err != nil {
			return left, err
		}
	}
	stop := model.StopEnd
	switch a.stop {
	case sdk.StopReasonToolUse:
		stop = model.StopCalls
	case sdk.StopReasonMaxTokens, "model_context_window_exceeded":
		stop = model.StopLength
	case sdk.StopReasonRefusal:
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
