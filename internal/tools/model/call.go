package model

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
)

// Bounds of a tool call written by a model, in bytes.
const (
	maxCallName = 256
	maxCallID   = 512
)

// NewCall makes a tool call of what a model wrote. Arguments that are complete
// but no JSON object make a Malformed call, which is the model's to mend. None at
// all are an empty object.
func NewCall(id, name, args string) Call {
	c := Call{ID: id, Name: name, Args: json.RawMessage(args)}
	if strings.TrimSpace(args) == "" {
		c.Args = json.RawMessage("{}")
		args = "{}"
	}
	v, err := canon.Decode([]byte(args))
	if err == nil {
		_, err = canon.Marshal(v) // a decoded number can still be too large for the record: 1e999
	}
	switch {
	case err != nil:
		c.Malformed = err.Error()
	case !isObject(v):
		c.Malformed = "the arguments are not a JSON object"
	case !fit(name, maxCallName):
		c.Malformed = "the tool's name cannot be one"
	}
	if !fit(name, maxCallName) {
		c.Name = strings.ToValidUTF8(clip.Prefix(name, maxCallName), "\uFFFD")
	}
	if c.Malformed == "" {
		var b bytes.Buffer
		if json.Compact(&b, []byte(args)) == nil { // as it is kept
			c.Args = b.Bytes()
		}
		return c
	}
	raw, err := json.Marshal(strings.ToValidUTF8(args, "\uFFFD"))
	if err != nil {
		raw = []byte(`""`) // a text can always be written
	}
	c.Args = raw
	return c
}

func isObject(v any) bool {
	_, ok := v.(map[string]any)
	return ok
}

// fit reports whether a name that a model gave can stand in records and messages.
func fit(s string, most int) bool {
	return s != "" && len(s) <= most && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// CutOff reports whether arguments are the beginning of JSON that goes on.
func CutOff(args string) bool {
	if strings.TrimSpace(args) == "" {
		return false
	}
	var v json.RawMessage
	return errors.Is(json.NewDecoder(strings.NewReader(args)).Decode(&v), io.ErrUnexpectedEOF)
}

// Calls gives each tool call of an answer its own ID: some services leave
// them out, or give the same to two.
func Calls(list []Call) []Call {
	seen := map[string]bool{}
	for i := range list {
		if id := list[i].ID; fit(id, maxCallID) && !seen[id] {
			seen[id] = true
		} else {
			list[i].ID = ""
		}
	}
	next := 0
	for i := range list {
		for list[i].ID == "" {
			next++
			if id := fmt.Sprintf("call_%d", next); !seen[id] {
				list[i].ID, seen[id] = id, true
			}
		}
	}
	return list
}

// Check refuses a request that no service could answer sensibly. Errors are
// fault.ArgsInvalid and name the field.
func (r Request) Check() error {
	bad := func(field, format string, args ...any) error {
		return fault.New(fault.ArgsInvalid, format, args...).In(field)
	}
	if len(r.Messages) == 0 {
		return bad("messages", "the conversation is empty")
	}
	if r.Messages[0].Role == Assistant {
		return bad("messages[0].role", "a conversation does not begin with the assistant")
	}
	open := map[string]bool{}
	for i, m := range r.Messages {
		field := fmt.Sprintf("messages[%d]", i)
		switch {
		case m.Role != User && m.Role != Assistant && m.Role != ToolRole:
			return bad(field+".role", "%.40q is not a valid role; expected user, assistant or tool", m.Role)
		case m.Role == ToolRole && !open[m.CallID]:
			return bad(field+".tool_call_id", "%.80q does not match an open tool call", m.CallID)
		case m.Role == ToolRole:
			delete(open, m.CallID)
			continue
		case len(open) > 0:
			return bad(field, "the previous tool calls have no results yet")
		case m.Role == User && len(m.Calls) > 0:
			return bad(field+".tool_calls", "only the assistant calls tools")
		}
		for _, c := range m.Calls {
			open[c.ID] = true
		}
	}
	if len(open) > 0 {
		return bad("messages", "the last tool calls have no result")
	}
	return nil
}

// cleanPath returns the shortest spelling of a path with slashes.
func cleanPath(name string) string { return path.Clean(name) }

// SafeID returns an ID of a tool call that every service accepts: letters, digits,
// _ and -, at most 64. One that is such already stays as it is.
func SafeID(id string) string {
	if safe(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:16])
}

// SafeName returns a tool's name that every service accepts.
func SafeName(name string) string {
	if safe(name) {
		return name
	}
	out := []byte(name[:min(len(name), maxName)])
	for i, c := range out {
		if !word(c) {
			out[i] = '_'
		}
	}
	return cmp.Or(string(out), "unnamed")
}

// maxName is how long names of tools and IDs of calls may be that services take.
const maxName = 64

func safe(s string) bool {
	for i := range len(s) {
		if !word(s[i]) {
			return false
		}
	}
	return s != "" && len(s) <= maxName
}

func word(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}
