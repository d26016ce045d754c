// Package model defines how language models are asked: conversations, offered tools,
// answers and costs. Providers are its sub-packages; all pass modeltest.Model. It opens no
// connection itself: a provider gets a [Reach]. Start at [Provider], [Request] and
// [Registry].
//
// Models are asked by the tool model.chat, whose calls are decided by the policies' models
// section, charged in tokens and money, recorded and replayed.
package model

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
)

// Role says who speaks.
type Role string

// The roles.
const (
	User      Role = "user"
	Assistant Role = "assistant"
	ToolRole  Role = "tool" // what a tool call of the assistant came to
)

// Message is one turn of a conversation. It is kept as JSON in the record.
type Message struct {
	Role  Role   `json:"role"`
	Text  string `json:"text,omitempty"`
	Calls []Call `json:"tool_calls,omitempty"` // of the assistant
	// Of a tool: which call this is the result of, and whether it failed.
	CallID string `json:"tool_call_id,omitempty"`
	Failed bool   `json:"is_error,omitempty"`
	// Reasoning is the provider's own data, to be returned unchanged with the message: nobody else
	// reads it.
	Reasoning []json.RawMessage `json:"reasoning,omitempty"`
}

// Call is a tool call that a model wants.
type Call struct {
	ID   string          `json:"id"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"` // a JSON object; see Malformed
	// Malformed says why Args are none: the model wrote no JSON object. Args are
	// then a JSON string of what it wrote. See NewCall.
	Malformed string `json:"malformed,omitempty"`
}

// Tool is a tool as a model is told of it.
type Tool struct {
	Name        string          `json:"name"` // letters, digits, _ and -, at most 64
	Description string          `json:"description,omitempty"`
	Input       json.RawMessage `json:"input"` // JSON Schema of an object
}

// Request asks a model for the next message of a conversation.
type Request struct {
	Model       string    `json:"model"` // without the provider's name
	System      string    `json:"system,omitempty"`
	Messages    []Message `json:"messages"`
	Tools       []Tool    `json:"tools,omitempty"`
	MaxTokens   int64     `json:"max_tokens,omitempty"` // of the answer; 0: the provider's default
	Temperature *float64  `json:"temperature,omitempty"`
	// Earlier is how many messages of the assistant the conversation had before
	// these, which stand in a summary now. Aside: the request is none of the
	// conversation's, as one for a summary. Services are not told of either.
	Earlier int  `json:"-"`
	Aside   bool `json:"-"`
}

// Answers is how many messages of the assistant the conversation has had.
func (r *Request) Answers() int {
	n := r.Earlier
	for i := range r.Messages {
		if r.Messages[i].Role == Assistant {
			n++
		}
	}
	return n
}

// Stop says why an answer ended.
type Stop string

// Why answers end.
const (
	StopEnd     Stop = "end"        // the model was done
	StopCalls   Stop = "tool_calls" // it wants tool calls
	StopLength  Stop = "length"     // Request.MaxTokens, or the context, is used up
	StopRefused Stop = "refused"    // it, or its provider's filter, would not answer
)

// Usage is what an answer cost.
type Usage struct {
	Input      int64 `json:"input"`  // tokens, without those from a cache
	Output     int64 `json:"output"` // tokens, reasoning included
	CacheRead  int64 `json:"cache_read,omitempty"`
	CacheWrite int64 `json:"cache_write,omitempty"`
	Money      int64 `json:"money,omitempty"` // millionths of the currency that prices are in; 0: not known
	// Estimated: the service did not say, so tokens are reckoned from the bytes
	// that went and came.
	Estimated bool `json:"estimated,omitempty"`
}

// Response is an answer.
type Response struct {
	Message Message `json:"message"`
	Stop    Stop    `json:"stop"`
	Usage   Usage   `json:"usage"`
	Model   string  `json:"model,omitempty"` // as the provider names it
}

// Delta is a piece of an answer as it comes in.
type Delta struct {
	Text string // of the answer
	Call *Call  // a tool call that is complete
}

// Limits are the known limits of a model.
type Limits struct {
	Context   int64   // tokens that a request and its answer may have together; 0: not known
	MaxOutput int64   // tokens of an answer; 0: not known
	Prices    *Prices // nil: not known
}

// Endpoint is where a provider's service is, and how requests are signed. The key
// is put in by the transport as a request leaves: a provider never sees it.
type Endpoint struct {
	Base   string // URL, without a last slash; "": the provider needs no network
	Header string // that carries the key, as "X-Api-Key" or "Authorization"
	Prefix string // before the key, as "Bearer "
	Key    string // the variable, or the stored secret, that holds it; "": none is sent
}

// Reach is all that a provider can reach while it answers one request. It ends
// with the call that it belongs to.
type Reach struct {
	// HTTP sends requests to the provider's Endpoint, and to nothing else.
	HTTP http.RoundTripper
	// File reads a file of at most so many bytes, as far as the call may: for
	// providers whose models are files.
	File func(name string, most int64) ([]byte, error)
}

// ErrUnreached is what an error of Reach.HTTP is where no service saw the request,
// so that it can be sent again.
var ErrUnreached = errors.New("no service was reached")

// Provider serves models of one service. It is safe for concurrent use.
type Provider interface {
	// Name is what its models' IDs begin with, before the first slash or colon:
	// "anthropic", "openai", "scripted".
	Name() string
	// Endpoint is where requests go; the Reach that Chat is given leads nowhere
	// else.
	Endpoint() Endpoint
	// Limits returns the known limits of a model, the zero Limits if there are none.
	Limits(name string) Limits
	// Chat asks for the next message, and tells of the answer as it comes in; on may be nil. It
	// retries where a retry can help, and never after on got a part. Errors are fault.ModelFailed,
	// ModelKey, ModelBusy, ModelContext, ModelUnknown, ModelCall (the answer ends within a tool
	// call), ctx's, or what the Reach gave. An answer that was cut off is an error, never part of
	// an answer; the Response then has nothing but the Usage that it cost.
	Chat(ctx context.Context, via Reach, r Request, on func(Delta)) (Response, error)
}
