// Package agent keeps agents and their sessions, and carries out the turns of a
// session: it asks the model, makes the tool calls that the model wants, gives it their
// results, and goes on until the model is done. Models and tools are called through the
// runner alone, so that every call is decided, budgeted and recorded.
//
// Start at [Service]. A session belongs to one goroutine (session.go), which moves through the
// phases of a table (table.go). A turn has another one while it lasts (turn.go), and carries out a
// loop of steps (loop.go). Between processes, a lease grants one of them the work on a session
// (lease.go). Decisions and runs come from outside: a [GrantSource] and a [RunStarter].
package agent

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/commitment"
	"github.com/remitrun/remit/internal/tools/model"
)

// Agent is the definition of an agent, from which its sessions are made. It is recorded as JSON.
type Agent struct {
	ID           uuid.UUID               `json:"id" format:"uuid"`
	Name         string                  `json:"name"`
	SystemPrompt string                  `json:"system_prompt"`
	Model        string                  `json:"model,omitempty" doc:"As anthropic/NAME, openai/NAME or scripted:FILE; missing: the default of the settings"`
	Capabilities []CapabilityRef         `json:"capabilities" nullable:"false" doc:"In the order of their prompts"`
	Policy       string                  `json:"policy,omitempty" doc:"Narrows the permissions of its sessions: YAML or JSON"`
	Limits       Limits                  `json:"limits"`
	Commitments  []commitment.Commitment `json:"commitments,omitempty" nullable:"false" doc:"Conditions that must hold before a turn counts as done"`
	Quarantine   bool                    `json:"quarantine,omitempty" doc:"As a sub-agent it always runs in quarantine: only its answer comes back. Its parent cannot change that"`
	Answer       json.RawMessage         `json:"answer,omitempty" doc:"JSON Schema of its answer in quarantine"`
	Status       string                  `json:"status" enum:"active,deleted"`
	Version      int                     `json:"version"`
	Created      time.Time               `json:"created_at"`
	Updated      time.Time               `json:"updated_at"`
}

// CapabilityRef is a capability of an agent. In JSON it is a string if it has no
// configuration: "current_time", or {"ref": "web_fetch", "config": {...}}.
type CapabilityRef struct {
	Ref    string
	Config json.RawMessage
}

// Limits bound an agent's sessions, besides policies. Zero fields have the defaults of Options.
type Limits struct {
	Steps     int   `json:"steps,omitempty" minimum:"0" maximum:"10000" doc:"Answers of the model in one turn"`
	MaxTokens int64 `json:"max_tokens,omitempty" minimum:"0" maximum:"100000000" doc:"Tokens of one answer"`
	Output    int   `json:"output,omitempty" minimum:"0" maximum:"100000000" doc:"Bytes of a tool's output that are shown to the model at once"`
	Context   int64 `json:"context,omitempty" minimum:"0" maximum:"100000000" doc:"Tokens at which the conversation is compacted"`
	Attempts  int   `json:"attempts,omitempty" minimum:"0" maximum:"100" doc:"How often unmet commitments are given back to the model in one turn"`
}

// Session is a conversation with an agent.
type Session struct {
	ID      uuid.UUID   `json:"id" format:"uuid"`
	Agent   uuid.UUID   `json:"agent_id" format:"uuid"`
	Parent  *uuid.UUID  `json:"parent_id,omitempty" format:"uuid" doc:"The session that spawned it"`
	Title   string      `json:"title,omitempty"`
	State   State       `json:"status" enum:"idle,working,waiting,paused,failed,cancelled,ended"`
	Error   *Problem    `json:"error,omitempty" doc:"Why the last turn failed"`
	Grant   string      `json:"grant_id,omitempty" doc:"The grant under which its calls are made"`
	Run     string      `json:"run_id,omitempty" doc:"Its newest run"`
	Version int         `json:"version"`
	Last    int         `json:"messages" doc:"Number of messages"`
	Mode    string      `json:"mode,omitempty" enum:"planning,frozen" doc:"planning: calls with side effects are refused; frozen: all but those of a frozen plan"`
	Usage   model.Usage `json:"usage" doc:"Tokens, and money in millionths"`
	Created time.Time   `json:"created_at"`
	Updated time.Time   `json:"updated_at"`
}

// Problem says why a turn, or a call, failed.
type Problem struct {
	Code    string `json:"code" example:"E8010"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// Message is a message of a session.
type Message struct {
	Number  int          `json:"number" doc:"From 1, in order"`
	Created time.Time    `json:"created_at"`
	Kind    Kind         `json:"kind,omitempty" enum:"notice,summary,command" doc:"Missing: part of the conversation; notice: from Remit to the model; summary: replaces older messages; command: the result of a slash command, which is nobody's words"`
	Role    model.Role   `json:"role" enum:"user,assistant,tool"`
	Text    string       `json:"content"`
	Calls   []model.Call `json:"tool_calls,omitempty" nullable:"false"`
	CallID  string       `json:"tool_call_id,omitempty" doc:"Of a tool's result: the ID of the call"`
	Failed  bool         `json:"is_error,omitempty"`
	Usage   *model.Usage `json:"usage,omitempty" doc:"Of an answer or a summary"`
	Cut     bool         `json:"cut,omitempty" doc:"The answer ends early: max_tokens, or the model's context, is used up"`

	Reasoning []json.RawMessage `json:"-"` // see model.Message
	Covers    int               `json:"-"` // of a summary: the last message that it replaces
	Steps     int               `json:"-"` // of a summary: answers of the current turn that it replaces
	Answers   int               `json:"-"` // of a summary: answers of the whole conversation that it replaces
	Attempts  int               `json:"-"` // of a summary: notices of unmet commitments of the current turn that it replaces
	Answered  bool              `json:"-"` // of a summary: it replaces the typed answer of the current turn
}

// Kind is the kind of a message besides its role.
type Kind string

// The kinds of messages.
const (
	Spoken  Kind = ""        // part of the conversation
	Notice  Kind = "notice"  // from Remit to the model
	Summary Kind = "summary" // replaces older messages in requests to the model
	Command Kind = "command" // the result of a slash command of the user
)

// EventType is the type of an Event.
type EventType string

// The types of events, in the order in which they occur in a turn.
const (
	MessageAdded EventType = "message"       // Message was added to the conversation
	TextDelta    EventType = "text"          // Text is the next piece of the answer
	CallStarted  EventType = "tool_call"     // Call was started
	CallProgress EventType = "tool_progress" // Text is what the tool reports about Call
	CallEnded    EventType = "tool_result"   // Call has ended
	ApprovalDue  EventType = "approval"      // Call waits until a person answers Question
	StateChanged EventType = "status"        // State, and Error if it is Failed
)

// Event is something that happened in a session. A client that lost its connection goes
// on after the ID of the last event that it saw.
type Event struct {
	ID       string     `json:"id,omitempty" doc:"Opaque, as in the header Last-Event-ID"` // see Service.Events
	Type     EventType  `json:"type"`
	At       time.Time  `json:"at"`
	Message  *Message   `json:"message,omitempty"`
	Text     string     `json:"text,omitempty" doc:"The next piece of the answer"`
	Call     *CallEvent `json:"call,omitempty"`
	Question string     `json:"approval_id,omitempty"`
	State    State      `json:"status,omitempty"`
	Error    *Problem   `json:"error,omitempty"`
}

// CallEvent is a tool call while it is made.
type CallEvent struct {
	ID         string          `json:"id"` // from the model
	Name       string          `json:"name"`
	Tool       string          `json:"tool"` // the tool's ID
	Args       json.RawMessage `json:"args,omitempty"`
	Status     string          `json:"status,omitempty"` // as in runs: "completed", "denied", ...
	DurationMS float64         `json:"duration_ms,omitempty"`
	Error      *Problem        `json:"error,omitempty"`
}

// Turn is the result of a message.
type Turn struct {
	Session  Session
	Messages []Message // that the turn added, the user's own first
	Reply    string    // the text of the last answer
}

// Caller is who uses a Service, and under which grant. Its rights over agents are checked before a
// Service is called; a session that it starts gets a grant that derives from Token.
type Caller struct {
	Name  string // "user:ann"
	Token string // of the grant; "": the policies in force
	// Proven says that the grant is bound to a key, and that the caller proved to have it.
	Proven bool `json:",omitempty"`
}

// FileInfo is a file of a session, without its content.
type FileInfo struct {
	Path     string    `json:"path" example:"/notes/today.md"`
	Folder   bool      `json:"is_directory"`
	Size     int64     `json:"size_bytes"`
	Version  int       `json:"version"`
	SHA256   string    `json:"sha256,omitempty"`
	Created  time.Time `json:"created_at"`
	Modified time.Time `json:"updated_at"`
}
