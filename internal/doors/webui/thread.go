package webui

import (
	"encoding/json"
	"net/url"
	"strconv"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/base/markdown"
	"github.com/remitrun/remit/internal/doors/httpapi"
)

// thread is a part of a conversation.
type thread struct {
	Entries []entry
	From    int // number of its first message; 0: it has none
	To      int // of its last message

	Asker, Answerer string // the names of both sides
	Prefix          string // of the IDs of its messages on the page
}

// entry is a message, with the tool calls that it makes.
type entry struct {
	agent.Message
	HTML  any // of an answer: what package markdown made of it
	Calls []toolCard
}

// toolCard is a tool call in a conversation.
type toolCard struct {
	ID     string // within the page
	Name   string // that the model calls the tool by
	State  string
	Args   []value
	Output []value
	Made   *agent.MessageCall // nil: it is not recorded yet, or in another session
	Path   string             // of the call's page; "": it has none
	Chain  *chain             // nil: not known
}

// chain is why a call could be made: the agent, its capability with the tool, and the grant.
type chain struct {
	Agent, AgentName string
	Capability       string // that brings the tool, as the agent is now
	Grant            uuid.UUID
}

// chained says for each call which capability brings its tool.
func (t *thread) chained(x *exchange, s agent.Session, name string) {
	grant, err := uuid.Parse(s.Grant)
	var now agent.Effective
	if err != nil || x.api.get("/v1/agents/"+s.Agent.String()+"/effective", nil, &now) != nil {
		return // the grant may not allow it; the conversation is still right
	}
	brings := map[string]string{}
	for _, o := range now.Tools {
		brings[o.Name] = o.Capability
	}
	for _, e := range t.Entries {
		for i, c := range e.Calls {
			if c.Made != nil && brings[c.Name] != "" {
				e.Calls[i].Chain = &chain{s.Agent.String(), name, brings[c.Name], grant}
			}
		}
	}
}

// About is the most telling argument of the call.
func (c toolCard) About() string { return aboutOfValues(c.Args) }

// threadOf reads at most so many messages of a session from a number on.
func (x *exchange) threadOf(s agent.Session, from, most int) (thread, error) {
	var list httpapi.MessageList
	path := "/v1/sessions/" + s.ID.String()
	if err := x.api.get(path+"/messages", url.Values{"from": {strconv.Itoa(max(from, 1))}, "limit": {strconv.Itoa(most)}}, &list); err != nil {
		return thread{}, err
	}
	if len(list.Items) == 0 {
		return thread{}, nil
	}
	t := thread{Asker: "You", Answerer: "Agent", From: list.Items[0].Number, To: list.Items[len(list.Items)-1].Number}
	var calls httpapi.MessageCallList
	if err := x.api.get(path+"/calls", url.Values{"from": {strconv.Itoa(t.From)}, "to": {strconv.Itoa(t.To)}}, &calls); err != nil {
		return thread{}, err
	}
	made := map[string]*agent.MessageCall{}
	for i, c := range calls.Items {
		made[agent.StepOf(c.Message, c.CallID)] = &calls.Items[i] // a later one is the repeated one
	}
	t.Entries = entriesOf(s, list.Items, made)
	return t, nil
}

// entriesOf puts the results of tool calls beside the calls.
func entriesOf(s agent.Session, messages []agent.Message, made map[string]*agent.MessageCall) []entry {
	var out []entry
	cards := map[string][2]int{} // where the card of a call is, by the call's ID
	for _, m := range messages {
		if m.Role == "tool" {
			at, known := cards[m.CallID]
			if !known { // its call is on the page before
				out = append(out, entry{Message: m, Calls: []toolCard{{ID: s.ID.String() + "-" + strconv.Itoa(m.Number), Name: "result of an earlier call", State: resultState(m), Output: valuesOf(resultOf(m))}}})
				continue
			}
			card := &out[at[0]].Calls[at[1]]
			card.Output = valuesOf(resultOf(m))
			if card.Made == nil {
				card.State = resultState(m)
			}
			continue
		}
		e := entry{Message: m}
		if m.Role == "assistant" {
			e.HTML = markdown.HTML(m.Text)
		}
		for i, c := range m.Calls {
			cards[c.ID] = [2]int{len(out), i}
			card := newToolCard(s, c.Name, c.Args, made[agent.StepOf(m.Number, c.ID)])
			card.ID = s.ID.String() + "-" + strconv.Itoa(m.Number) + "-" + strconv.Itoa(i)
			e.Calls = append(e.Calls, card)
		}
		out = append(out, e)
	}
	return out
}

func newToolCard(s agent.Session, name string, args json.RawMessage, made *agent.MessageCall) toolCard {
	c := toolCard{Name: name, Args: valuesOf(args), Made: made, State: "interrupted"}
	switch {
	case made != nil:
		c.State, c.Path = made.Status, "/ui/runs/"+made.Run+"/calls/"+strconv.Itoa(made.Index)
	case s.State == agent.Waiting:
		c.State = "waiting"
	case s.State == agent.Working || s.State == agent.Paused:
		c.State = "pending"
	}
	return c
}

// resultState is the state of a call of which only the result is known.
func resultState(m agent.Message) string {
	if m.Failed {
		return "failed"
	}
	return "completed"
}

// resultOf is the text of a result as JSON.
func resultOf(m agent.Message) json.RawMessage {
	if raw := json.RawMessage(m.Text); json.Valid(raw) {
		return raw
	}
	b, err := json.Marshal(m.Text)
	if err != nil { // a text always can be
		return nil
	}
	return b
}
