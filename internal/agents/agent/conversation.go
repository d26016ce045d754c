package agent

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"iter"
	"slices"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/tools/model"
)

// messageDoc is a message as it is recorded, without its number and time, which the
// record has. A replay makes the same bytes again.
type messageDoc struct {
	Kind Kind `json:"kind,omitempty"`
	model.Message
	Usage  *model.Usage `json:"usage,omitempty"`
	Cut    bool         `json:"cut,omitempty"`
	Covers int          `json:"covers,omitempty"`
	Steps  int          `json:"steps,omitempty"`

	Answers  int  `json:"answers,omitempty"`
	Attempts int  `json:"attempts,omitempty"`
	Answered bool `json:"answered,omitempty"`
}

// encode gives the document of a message.
func encode(m Message) ([]byte, error) {
	b, err := json.Marshal(messageDoc{m.Kind, m.forModel(), m.Usage, m.Cut, m.Covers, m.Steps, m.Answers, m.Attempts, m.Answered})
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "a message cannot be written as JSON")
	}
	return b, nil
}

// decode reads a message of the record.
func decode(r store.MessageRecord) (Message, error) {
	var k messageDoc
	if err := json.Unmarshal(r.Doc, &k); err != nil {
		return Message{}, fault.Wrap(fault.StoreCorrupt, err, "message %d cannot be read", r.Number)
	}
	m := messageFrom(k.Message)
	m.Number, m.Created, m.Kind, m.Usage, m.Cut, m.Covers, m.Steps, m.Answers, m.Attempts, m.Answered = r.Number, r.At, k.Kind, k.Usage, k.Cut, k.Covers, k.Steps, k.Answers, k.Attempts, k.Answered
	return m, nil
}

// messageFrom gives a message of a session from one of a model.
func messageFrom(m model.Message) Message {
	return Message{Role: m.Role, Text: m.Text, Calls: m.Calls, CallID: m.CallID, Failed: m.Failed, Reasoning: m.Reasoning}
}

// forModel gives the message as models take it.
func (m *Message) forModel() model.Message {
	return model.Message{Role: m.Role, Text: m.Text, Calls: m.Calls, CallID: m.CallID, Failed: m.Failed, Reasoning: m.Reasoning}
}

// size is how many bytes of text the message has.
func (m *Message) size() int {
	said := m.forModel()
	return said.Size()
}

// conversation is the model's view: the newest summary, if there is one, and every message that it
// does not replace.
type conversation struct {
	last    int        // number of the last message
	lastRun ledger.Seq // the run that it belongs to; 0: none
	view    []entry
	// write adds documents to the record after a message. In a replay it compares them
	// with the record.
	write func(ctx context.Context, after int, docs [][]byte) ([]store.MessageRecord, error)
}

type entry struct {
	Message
	sum [32]byte // of its document
}

// messageReader reads the messages of sessions.
type messageReader interface {
	Messages(ctx context.Context, session uuid.UUID, from int, reverse bool) iter.Seq2[store.MessageRecord, error]
}

// load reads the end of a conversation up to a message (0: the last). It reads backwards and stops
// at messages that a summary replaces, so that a long conversation costs no more than the model's
// view of it.
func load(ctx context.Context, from messageReader, session uuid.UUID, upTo int) (*conversation, error) {
	c := &conversation{}
	floor, summarised := 0, false
	for r, err := range from.Messages(ctx, session, upTo, true) {
		if err != nil {
			return nil, err
		}
		if r.Number <= floor {
			break
		}
		m, err := decode(r)
		if err != nil {
			return nil, err
		}
		if c.last == 0 {
			c.last, c.lastRun = r.Number, r.Run
		}
		if m.Kind == Summary {
			if summarised {
				continue
			}
			summarised, floor = true, m.Covers
		}
		if n := len(c.view); n == cap(c.view) && n >= 1024 {
			c.view = slices.Grow(c.view, r.Number-floor) // more cannot come
		}
		c.view = append(c.view, entry{m, sha256.Sum256(r.Doc)})
	}
	slices.Reverse(c.view)
	c.order()
	return c, nil
}

// SpokenIn gives the messages of the user in a session, oldest first.
func SpokenIn(ctx context.Context, from messageReader, session uuid.UUID) ([]Message, error) {
	var out []Message
	for r, err := range from.Messages(ctx, session, 0, false) {
		if err != nil {
			return nil, err
		}
		m, err := decode(r)
		if err != nil {
			return nil, err
		}
		if m.Role == model.User && m.Kind == Spoken {
			out = append(out, m)
		}
	}
	return out, nil
}

// order puts the newest summary first and drops the messages that it replaces.
func (c *conversation) order() {
	at := -1
	for i := range c.view {
		if c.view[i].Kind == Summary {
			at = i
		}
	}
	if at < 0 {
		return
	}
	s := c.view[at]
	view := []entry{s}
	for i, e := range c.view {
		if i != at && e.Kind != Summary && e.Number > s.Covers {
			view = append(view, e)
		}
	}
	c.view = view
}

// add adds messages to the record and to the view, all or none.
func (c *conversation) add(ctx context.Context, ms ...Message) ([]Message, error) {
	docs := make([][]byte, len(ms))
	for i, m := range ms {
		var err error
		if docs[i], err = encode(m); err != nil {
			return nil, err
		}
	}
	recs, err := c.write(ctx, c.last, docs)
	if err != nil {
		return nil, err
	}
	for i, r := range recs {
		ms[i].Number, ms[i].Created = r.Number, r.At
		c.view = append(c.view, entry{ms[i], sha256.Sum256(docs[i])})
		c.last, c.lastRun = r.Number, r.Run
		if ms[i].Kind == Summary {
			c.order()
		}
	}
	return ms, nil
}

// digest identifies the model's view of the conversation.
func (c *conversation) digest() tool.Digest {
	h := sha256.New()
	for i := range c.view {
		h.Write(c.view[i].sum[:])
	}
	return tool.Digest(h.Sum(nil))
}

// latest is the last message that is not a summary; nil: there is none.
func (c *conversation) latest() *Message {
	for i := len(c.view) - 1; i >= 0; i-- {
		if c.view[i].Kind != Summary {
			return &c.view[i].Message
		}
	}
	return nil
}

// open gives the tool calls of the last answer that have no result yet, and the number
// of that answer.
func (c *conversation) open() (int, []model.Call) {
	done := map[string]bool{}
	for i := len(c.view) - 1; i >= 0; i-- {
		switch m := &c.view[i].Message; {
		case m.Role == model.ToolRole:
			done[m.CallID] = true
		case m.Role == model.Assistant:
			return m.Number, slices.DeleteFunc(slices.Clone(m.Calls), func(k model.Call) bool { return done[k.ID] })
		case m.Kind == Spoken:
			return 0, nil
		}
	}
	return 0, nil
}

// turn is the part of the view after the last message of the user.
func (c *conversation) turn() []entry {
	for i := len(c.view) - 1; i >= 0; i-- {
		if c.view[i].Role == model.User && c.view[i].Kind == Spoken {
			return c.view[i+1:]
		}
	}
	return c.view
}

// steps counts the answers of the model in the current turn.
func (c *conversation) steps() int {
	n := 0
	for _, e := range c.turn() {
		switch {
		case e.Kind == Summary:
			n += e.Steps
		case e.Role == model.Assistant:
			n++
		}
	}
	return n
}

const summaryHead = "This is a summary of the conversation so far, in place of its older messages:\n\n"

// messages is the view as it is sent to the model.
func (c *conversation) messages() []model.Message {
	out := make([]model.Message, len(c.view))
	for i := range c.view {
		out[i] = c.view[i].forModel()
		if c.view[i].Kind == Summary {
			out[i] = model.Message{Role: model.User, Text: summaryHead + out[i].Text}
		}
		if c.view[i].Kind == Command {
			out[i].Text = commandHead + toJSON(out[i].Text)
		}
	}
	return out
}
