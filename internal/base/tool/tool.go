// Package tool defines the types of tools and calls: a tool's ID and description, its
// risk and side effects, the actions that a call needs, and its result. It decides
// nothing and does nothing. Start at [Spec], [Action] and [Result].
package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
)

// Digest is a SHA-256 hash.
type Digest [sha256.Size]byte

// String prints the digest as "sha256:" and lower-case hexadecimal.
func (d Digest) String() string { return "sha256:" + hex.EncodeToString(d[:]) }

// IsZero reports whether the digest was never set.
func (d Digest) IsZero() bool { return d == Digest{} }

// Spec describes one tool.
type Spec struct {
	ID          ID
	Title       string          // a few words for people
	Description string          // for models
	Version     string          // of the tool's behaviour; part of the digest
	Source      string          // "builtin", "extension", "mcp", ...
	Input       json.RawMessage // JSON Schema (2020-12) of the arguments, closed (additionalProperties: false)
	Output      json.RawMessage // JSON Schema of the output
	Risk        Risk
	Effects     Effects // every side effect that a call may have
}

// Digest identifies the description of a tool: name, description, schemas and
// version. A changed digest makes pins of the old one void.
func (s *Spec) Digest() Digest {
	var b []byte
	for _, part := range []string{string(s.ID), s.Title, s.Description, s.Version, s.Source,
		string(s.Input), string(s.Output), s.Risk.String(), s.Effects.String()} {
		b = append(strconv.AppendInt(b, int64(len(part)), 10), ':')
		b = append(append(b, part...), ',')
	}
	return sha256.Sum256(b)
}

// Args are a call's arguments as decoded from JSON with numbers kept as
// [json.Number]: nil, bool, json.Number, string, []any and map[string]any.
type Args map[string]any

// Env describes the environment for which a tool derives the actions of a call. It
// gives no access to it.
type Env struct {
	Workspace string   // absolute, clean, with links resolved
	Home      string   // the person's home folder, or ""
	Path      []string // the trusted PATH, absolute folders in order
	Pass      []string // names of variables that commands may be given (commands.env)
	// AnyVariable: commands may be given any harmless variable, since no policy lists
	// variables (commands.env).
	AnyVariable bool
	// Values are the values that policies give variables (commands.env). Commands must
	// not be given others.
	Values map[string]string
	// Foreign: another program carries out the call, in an environment of its own, of
	// whose variables nothing is certain.
	Foreign bool
	Secrets []string // names of variables that hold stored secrets for commands
}

// Status says how a call ended.
type Status uint8

// The statuses of a call. The zero status belongs to a call that has not ended.
const (
	Pending Status = iota
	Completed
	StatusDenied
	Failed
	TimedOut
	Cancelled
	Skipped
	StatusInterrupted
)

var statusNames = [...]string{"pending", "completed", "denied", "failed", "timeout", "cancelled", "skipped", "interrupted"}

func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return fmt.Sprintf("status(%d)", uint8(s))
}

// ParseStatus reads the result of String.
func ParseStatus(s string) (Status, bool) {
	for i, n := range statusNames {
		if n == s {
			return Status(i), true
		}
	}
	return 0, false
}

// Happened is a side effect that a call really had, as its handles saw it.
type Happened struct {
	Effect Effect `json:"effect"`
	On     string `json:"on"`              // the path, URL or command
	Bytes  int64  `json:"bytes,omitempty"` // written, received, ...
	// For a connection of a confined process, Bytes and Received count the sent and
	// received bytes, Address is the dialled address, as "203.0.113.7:443", and Rule
	// is the policy's entry that allowed it. Of a command that was started with less
	// than full isolation, Rule says so: "isolation landlock".
	Received int64  `json:"received,omitempty"`
	Address  string `json:"address,omitempty"`
	Rule     string `json:"rule,omitempty"`
	Purpose  string `json:"purpose,omitempty"` // of a key's use: the signed data's own name for itself
	Place    string `json:"place,omitempty"`   // of a command: where it ran, as "worker gpu-1"; "": on this machine
}

// Further takes the place of a target in the sum of all effects of one kind and rule beyond the bound of a call's list.
const Further = "(further ones)"

// Refused is something that a call tried while it ran and was not allowed to
// do, though the call itself was allowed: a connection of a confined process.
type Refused struct {
	Action string `json:"action"` // as Action.String prints it
	Rule   string `json:"rule"`   // the deciding entry, "default", or the part of Remit that refused
	Reason string `json:"reason"`
	Count  int    `json:"count"` // how often, at least 1
}

// Result is the result of a call.
type Result struct {
	Output map[string]any // JSON-marshalable; nil for none. A failed call may have one too.
}
