// Package agent runs agents: it keeps agents and their sessions, and carries out
// the loop of a session's turn: ask the model, make the tool calls that it wants,
// give it their results, until it is done. Models and tools are called through
// the runner alone, so that every call is decided, budgeted and recorded. Start
// at [Service]; then read service.go, turn.go and loop.go in this order.
package agent

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/tools/model"
)

// Agent is what sessions are made of. It is kept as JSON.
type Agent struct {
	ID           uuid.UUID       `json:"id"`
	Name         string          `json:"name"`
	SystemPrompt string          `json:"system_prompt"`
	Model        string          `json:"model,omitempty"`  // "provider/model" or "scripted:FILE"; "": the default of the settings
	Capabilities []CapabilityRef `json:"capabilities"`     // in order: the prompt parts' order
	Policy       string          `json:"policy,omitempty"` // YAML or JSON; narrows what its sessions may do
	Limits       Limits          `json:"limits"`
	Status       string          `json:"status"` // "active" or "deleted"
	Version      int             `json:"version"`
	Created      time.Time       `json:"created_at"`
	Updated      time.Time       `json:"updated_at"`
}

// CapabilityRef is a capability that an agent has. In JSON it is a plain string
// where it has no configuration: "current_time", or {"ref": "web_fetch",
// "config": {...}}.
type CapabilityRef struct {
	Ref    string
	Config json.RawMessage
}

// Limits bounds what an agent's sessions do, besides policies. Zero fields have
// the defaults that New's Options say.
type Limits struct {
	Steps     int   `json:"steps,omitempty"`      // model calls of one turn
	MaxTokens int64 `json:"max_tokens,omitempty"` // of one answer
	Output    int   `json:"output,omitempty"`     // bytes of a tool's output that the model is shown at once
	Context   int64 `json:"context,omitempty"`    // tokens at which the conversation is compacted
}

// State says what a session is doing.
type State string

// The states of a session.
const (
	Idle      State = "idle"      // it waits for a message
	Working   State = "working"   // a turn is under way
	Waiting   State = "waiting"   // a turn waits for a person's approval
	Paused    State = "paused"    // a turn is held until Resume
	Failed    State = "failed"    // the last turn ended with an error; a message goes on
	Cancelled State = "cancelled" // the last turn was cancelled; a message goes on
	Ended     State = "ended"     // it takes no more messages
)

// Session is a conversation with an agent, as it is kept.
type Session struct {
	ID      uuid.UUID   `json:"id"`
	Agent   uuid.UUID   `json:"agent_id"`
	Parent  *uuid.UUID  `json:"parent_id,omitempty"`
	Title   string      `json:"title,omitempty"`
	State   State       `json:"status"`
	Error   *Problem    `json:"error,omitempty"` // why the last turn failed
	Grant   string      `json:"grant_id,omitempty"`
	Run     string      `json:"run_id,omitempty"` // its newest run
	Version int         `json:"version"`
	Last    int         `json:"messages"` // how many messages it has
	Usage   model.Usage `json:"usage"`
	Created time.Time   `json:"created_at"`
	Updated time.Time   `json:"updated_at"`
}

// Problem is an error for people and programs.
type Problem struct {
	Code    string `json:"code"` // "E8010"
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// Message is a message of a session, as clients see it.
type Message struct {
	Number  int       `json:"number"` // from 1, in order
	Created time.Time `json:"created_at"`
	Kind    Kind      `json:"kind,omitempty"`
	model.Message
	Usage  *model.Usage `json:"usage,omitempty"`  // of an answer, or of a summary
	Cut    bool         `json:"cut,omitempty"`    // an answer or summary that ends early: max_tokens, or the context, is used up
	Covers int          `json:"covers,omitempty"` // of a summary: it stands for the messages up to this number
	Steps  int          `json:"steps,omitempty"`  // of a summary: how many answers of the turn under way it covers
	// Answers is of a summary how many answers of the whole conversation it covers.
	Answers int `json:"answers,omitempty"`
}

// Kind says what a message is besides its role.
type Kind string

// The kinds of messages.
const (
	Spoken  Kind = ""        // of the conversation
	Notice  Kind = "notice"  // Remit told the model something
	Summary Kind = "summary" // what was compacted: the model is given it in place of what it covers
)

// EventType says what an Event tells.
type EventType string

// The types of events, in the order in which a turn has them.
const (
	MessageAdded EventType = "message"       // Message: a message was added to the conversation
	TextDelta    EventType = "text"          // Text: a piece of the answer that is coming in
	CallStarted  EventType = "tool_call"     // Call: a tool call was begun
	CallProgress EventType = "tool_progress" // Call, Text
	CallEnded    EventType = "tool_result"   // Call
	ApprovalDue  EventType = "approval"      // Call, Question: a person must answer
	StateChanged EventType = "status"        // State, and Error where it is Failed
)

// Event is one thing that happened in a session. Durable ones have a message number
// from which a client that was cut off can go on.
type Event struct {
	ID       string     `json:"id"` // opaque; of one session ordered; see Service.Events
	Type     EventType  `json:"type"`
	At       time.Time  `json:"at"`
	Message  *Message   `json:"message,omitempty"`
	Text     string     `json:"text,omitempty"`
	Call     *CallEvent `json:"call,omitempty"`
	Question string     `json:"approval_id,omitempty"`
	State    State      `json:"status,omitempty"`
	Error    *Problem   `json:"error,omitempty"`
}

// CallEvent is a tool call as clients see it while it runs.
type CallEvent struct {
	ID       string          `json:"id"` // as the model gave it
	Name     string          `json:"name"`
	Tool     string          `json:"tool"` // the tool's ID
	Args     json.RawMessage `json:"args,omitempty"`
	Status   string          `json:"status,omitempty"` // as runs tell it: "completed", "denied", ...
	Duration time.Duration   `json:"duration_ns,omitempty"`
	Error    *Problem        `json:"error,omitempty"`
}

// Turn is what a message led to.
type Turn struct {
	Session  Session
	Messages []Message // that were added, the user's own first
	Reply    string    // the text of the last answer
}

// Caller is who asks, and under which authority. What it may do with agents is
// decided by whoever serves it; a session that it begins gets a grant that derives
// from Grant.
type Caller struct {
	Name  string // "user:ann"
	Token string // the grant, as text; "": the policies that hold here
}

// API is what surfaces use of a Service.
type API interface {
	CreateAgent(ctx context.Context, by Caller, a Agent) (Agent, error)
	// UpdateAgent changes an agent; ifVersion 0 changes it whatever its version is.
	UpdateAgent(ctx context.Context, by Caller, id string, ifVersion int, change func(*Agent) error) (Agent, error)
	Agent(ctx context.Context, id string) (Agent, error)
	Agents(ctx context.Context, before uuid.UUID, limit int) ([]Agent, error)
	DeleteAgent(ctx context.Context, by Caller, id string) error

	CreateSession(ctx context.Context, by Caller, agent, title string) (Session, error)
	Session(ctx context.Context, id string) (Session, error)
	Sessions(ctx context.Context, agent string, before uuid.UUID, limit int) ([]Session, error)
	DeleteSession(ctx context.Context, by Caller, id string) error // stops it, and ends it for good
	// Fork makes a session that begins with another's conversation up to a message.
	Fork(ctx context.Context, by Caller, id string, upTo int) (Session, error)

	// Send adds a message and carries out the turn; on is told of what happens and
	// may be nil. It ends with ctx.
	Send(ctx context.Context, by Caller, id, text string, on func(Event)) (Turn, error)
	// Start is Send that returns once the message is kept; the turn goes on.
	Start(ctx context.Context, by Caller, id, text string) (Message, error)
	Messages(ctx context.Context, id string, from, limit int) ([]Message, error)
	// Events tells of what happens in a session, beginning after the event with the
	// ID last (what a client saw last; "": from now on), until ctx ends. Events are
	// dropped for no one: what was missed is told from the record first; pieces of
	// text that are past are told as the message that they became.
	Events(ctx context.Context, id, last string, on func(Event) error) error

	Cancel(ctx context.Context, by Caller, id string) (Session, error) // the turn that is under way
	Pause(ctx context.Context, by Caller, id string) (Session, error)  // before the next step
	Resume(ctx context.Context, by Caller, id string) (Session, error) // a paused, waiting or interrupted turn

	Files(ctx context.Context, id string) ([]FileInfo, error)
	ReadFile(ctx context.Context, id, path string) ([]byte, FileInfo, error)
	WriteFile(ctx context.Context, by Caller, id, path string, content []byte, ifVersion int) (FileInfo, error)
	DeleteFile(ctx context.Context, by Caller, id, path string, recursive bool) error
}

// FileInfo is a file of a session, as clients see it.
type FileInfo struct {
	Path     string    `json:"path"`
	Folder   bool      `json:"is_directory"`
	Size     int64     `json:"size_bytes"`
	Version  int       `json:"version"`
	SHA256   string    `json:"sha256,omitempty"`
	Created  time.Time `json:"created_at"`
	Modified time.Time `json:"updated_at"`
}
