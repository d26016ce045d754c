package remit

import (
	"encoding/json"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
)

// The codes that agents and their sessions add.
const (
	AgentInvalid      = fault.AgentInvalid      // an agent, or a message to it, is not valid
	AgentUnknown      = fault.AgentUnknown      // no agent has this ID or name
	SessionUnknown    = fault.SessionUnknown    // no session has this ID
	SessionBusy       = fault.SessionBusy       // the session is at work
	CapabilityUnknown = fault.CapabilityUnknown // no capability has this ID
	CapabilityInvalid = fault.CapabilityInvalid // a capability, or how it is configured or combined
	ModelUnknown      = fault.ModelUnknown      // no provider or model has this name
	ModelKey          = fault.ModelKey          // the key of the model's service is missing or refused
	ModelFailed       = fault.ModelFailed       // the model's service failed
	ModelContext      = fault.ModelContext      // the conversation is longer than the model takes
	ModelBusy         = fault.ModelBusy         // the model's service refuses for now
	ModelCall         = fault.ModelCall         // the model's tool call is malformed
	Stale             = fault.Stale             // somebody else changed the thing meanwhile
	NotDelegable      = fault.NotDelegable      // the policy does not say that this may be handed on
	GrantHolder       = fault.GrantHolder       // somebody else's grant is needed
)

// Agent is the definition from which sessions are made.
type Agent struct {
	ID           string
	Name         string
	SystemPrompt string
	Model        string // "provider/model", or "scripted:FILE" with a file of answers; "": the default of the settings
	Capabilities []Use  // in the order of their prompts
	Policy       string // YAML or JSON; narrows the actions of its sessions
	Limits       AgentLimits
	Commitments  []Commitment // must hold before a turn counts as done
	// Answer is the JSON Schema of the only thing that comes back from it as a sub-agent: it then
	// always runs in quarantine. nil: it does so only if it is spawned that way.
	Answer  json.RawMessage
	Version int
}

// Commitment is a condition under which work counts as done. It has exactly one of Run,
// File and JSON.
type Commitment struct {
	Run    []string       // a command and its arguments
	Exit   int            // the exit status that the command must end with
	Cwd    string         // where the command starts; "": the workspace
	File   string         // a file that must exist
	JSON   string         // a file that must have valid JSON
	Equals map[string]any // values that the JSON must have, by their JSON pointers
}

// Use is a capability that an agent has.
type Use struct {
	ID     string
	Config any // what encoding/json makes an object of; nil: nothing is configured
}

// Uses gives an agent capabilities without configuration.
func Uses(ids ...string) []Use {
	out := make([]Use, len(ids))
	for i, id := range ids {
		out[i].ID = id
	}
	return out
}

// AgentLimits bounds the sessions of an agent, besides policies. Zero fields have defaults.
type AgentLimits struct {
	Steps     int   // model calls of one turn
	MaxTokens int64 // of one answer
	Output    int   // bytes of a tool's output that the model is shown at once
	Context   int64 // tokens at which the conversation is compacted
	Attempts  int   // how often unmet commitments are given back to the model in one turn
}

// SessionState is the state of a session.
type SessionState string

// The states of sessions.
const (
	SessionIdle      SessionState = "idle"      // it waits for a message
	SessionWorking   SessionState = "working"   // a turn is under way
	SessionWaiting   SessionState = "waiting"   // a turn waits for a person's answer
	SessionPaused    SessionState = "paused"    // a turn is held, or its process ended: see AgentSession.Resume
	SessionFailed    SessionState = "failed"    // the last turn ended with an error; a message goes on
	SessionCancelled SessionState = "cancelled" // the last turn was cancelled; a message goes on
	SessionEnded     SessionState = "ended"     // it takes no more messages
)

// SessionInfo tells of a session.
type SessionInfo struct {
	ID       string
	Agent    string // the agent's ID
	Parent   string // of a sub-agent's: its parent's session
	Title    string
	State    SessionState
	Error    string // why the last turn failed, as "E8010 ..."
	Grant    string // the ID of its grant
	Run      string // its newest run
	Messages int
	Tokens   int64 // that its models used
	Money    int64 // millionths of a dollar, as far as prices are known
	Created  time.Time
}

// Message is one message of a conversation.
type Message struct {
	Number  int    // from 1
	Role    string // "user", "assistant" or "tool"
	Kind    string // "": of the conversation; "notice": Remit told the model; "summary": of compacted messages; "command": the output of a slash command
	Text    string // of a tool: its result as the model was told it
	Calls   []ToolCall
	CallID  string // of a tool's result: which call's
	Failed  bool   // of a tool's result
	Cut     bool   // of an answer: it ends early, since max_tokens or the model's context is used up
	Created time.Time
}

// ToolCall is a call that a model wants of a tool.
type ToolCall struct {
	ID       string // as the model has it
	Name     string // as the model calls the tool
	Tool     string // the tool's ID; in events
	Args     json.RawMessage
	Status   Status // in events
	Error    string // in events: why it did not complete, as "E1001 ..."
	Duration time.Duration
}

// Turn is what a message led to.
type Turn struct {
	Reply    string    // the text of the last answer
	Messages []Message // that were added, the one sent first
	Session  SessionInfo
}

// EventKind says what an [AgentEvent] tells.
type EventKind string

// The kinds of events.
const (
	EventMessage      EventKind = "message"       // Message was added to the conversation
	EventText         EventKind = "text"          // Text is a piece of the answer that is coming in
	EventToolCall     EventKind = "tool_call"     // Call began
	EventToolProgress EventKind = "tool_progress" // Call, Text
	EventToolResult   EventKind = "tool_result"   // Call ended
	EventApproval     EventKind = "approval"      // a person must answer Question
	EventState        EventKind = "status"        // State, and Error where the turn failed
)

// AgentEvent is one thing that happens during a turn.
type AgentEvent struct {
	Kind     EventKind
	Message  *Message
	Text     string
	Call     *ToolCall
	Question string // its ID, as remit approvals takes it
	State    SessionState
	Error    string
}

// SessionReplay is how the replay of a session went.
type SessionReplay struct {
	Session  string
	Runs     []string // the replay's own, one for each of the session's
	Calls    int
	Messages int       // that came out to the byte
	Mismatch *Mismatch // the first call that differs, nil if there is none
}
