// Package agent keeps agents and their sessions, and carries out the turns of a
// session: it asks the model, makes the tool calls that the model wants, gives it their
// results, and goes on until the model is done. Models and tools are called through the
// runner alone, so that every call is decided, budgeted and recorded.
//
// Start at [Service]. A session belongs to one goroutine (session.go), which moves
// through the phases of a table (table.go). A turn has another one while it lasts
// (turn.go), and carries out a loop of steps (loop.go). Between processes, a lease says
// who may work on a session (lease.go). What is decided and what runs comes from
// outside: a [GrantSource] and a [RunStarter].
package agent

import (
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
