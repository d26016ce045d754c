package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/tools/model"
)

// result is what a tool call came to, as the model is told.
type result struct {
	status tool.Status
	text   string
	err    error // nil where it completed
}

func (r result) message(callID string) Message {
	return Message{Message: model.Message{Role: model.ToolRole, CallID: callID, Text: r.text, Failed: r.status != tool.Completed}}
}

// resultOf tells a model what became of its call. Of a long output it is shown the
// beginning, and how to read on.
func resultOf(o runner.Outcome, chain policy.Chain, most int) result {
	r := result{status: o.Status, err: o.Err}
	if o.Status != tool.Completed {
		r.text = refusal(o, chain)
		return r
	}
	out, err := canon.Marshal(o.Output)
	switch {
	case err != nil:
		r.status, r.err = tool.Failed, fault.Wrap(fault.OutputInvalid, err, "the output cannot be written as JSON")
		r.text = errorText(r.status, r.err, nil)
	case o.Output == nil:
		r.text = "{}"
	case o.Tool == readID || len(out) <= most: // output.read bounds itself
		r.text = string(out)
	default:
		r.text = envelope(out, most)
	}
	return r
}

// cutOutput is what stands for an output that is too long to be shown.
type cutOutput struct {
	Truncated bool   `json:"truncated"`
	Bytes     int    `json:"bytes"`
	Shown     int    `json:"shown"`
	ID        string `json:"output_id"`
	How       string `json:"how"`
	Beginning string `json:"beginning"`
}

func envelope(out []byte, most int) string {
	n := whole(out, most)
	return toJSON(cutOutput{
		Truncated: true, Bytes: len(out), Shown: n, ID: outputID(out),
		How:       "call " + readName + " with this output_id and an offset to read on",
		Beginning: string(out[:n]),
	})
}

// outputID names an output by what it is, so that the same output has one name.
func outputID(out []byte) string {
	sum := sha256.Sum256(out)
	return "out_" + hex.EncodeToString(sum[:8])
}

// whole gives the most bytes, up to n, that end with a whole character.
func whole(b []byte, n int) int {
	if n >= len(b) {
		return len(b)
	}
	for n > 0 && !utf8.RuneStart(b[n]) {
		n--
	}
	return n
}

// told is an error as a model is told it.
type told struct {
	Error toldError `json:"error"`
}

type toldError struct {
	Code    string          `json:"code"`
	Status  string          `json:"status"`
	Message string          `json:"message"`
	Rule    string          `json:"rule,omitempty"`
	Also    []string        `json:"also,omitempty"`    // further reasons
	Allowed []string        `json:"allowed,omitempty"` // what the policy does allow there
	Output  json.RawMessage `json:"output,omitempty"`  // what there was before it failed
}

// maxFailedOutput bounds what is shown of a failed call's output, in bytes.
const maxFailedOutput = 4 << 10

// refusal tells why a call did not complete, so that the model can do better.
func refusal(o runner.Outcome, chain policy.Chain) string {
	e := toldError{Code: fault.CodeOf(o.Err).Error(), Status: o.Status.String(), Message: clip(fault.ForModel(o.Err), maxFailedOutput)}
	if o.Status == tool.StatusDenied && (o.Decision.Rule != nil || o.Decision.Reason != "") {
		e.Rule = o.Decision.Rule.String()
	}
	for _, r := range o.Decision.Refusals {
		if r.Reason != "" && r.Reason != o.Decision.Reason && len(e.Also) < maxAlso {
			e.Also = append(e.Also, r.Reason)
		}
	}
	if fault.CodeOf(o.Err) == fault.Denied {
		e.Allowed = instead(o.Decision, chain)
	}
	if o.Output != nil {
		if b, err := canon.Marshal(o.Output); err == nil && len(b) <= maxFailedOutput {
			e.Output = b
		} else if err == nil {
			e.Output = json.RawMessage(toJSON(string(b[:whole(b, maxFailedOutput)]) + "…"))
		}
	}
	return toJSON(told{e})
}

const maxAlso = 6

// instead lists what the policies allow where they denied something.
func instead(d policy.Decision, chain policy.Chain) []string {
	seen := map[string]bool{}
	var out []string
	for _, r := range d.Refusals {
		section, _, _ := strings.Cut(r.Action, " ")
		lines := chain.WrittenTools()
		if kind, ok := kindOf(section); ok {
			lines = chain.Written(kind)
		}
		for _, l := range lines {
			if !seen[l] && len(out) < maxAlso {
				seen[l] = true
				out = append(out, l)
			}
		}
	}
	return out
}

func kindOf(section string) (tool.ActionKind, bool) {
	for k := tool.FileRead; k <= tool.Model; k++ {
		if k.String() == section {
			return k, true
		}
	}
	return tool.NoAction, false
}

// errorText tells a model of an error that is not a call's outcome.
func errorText(status tool.Status, err error, allowed []string) string {
	return toJSON(told{toldError{
		Code: fault.CodeOf(err).Error(), Status: status.String(), Message: clip(fault.ForModel(err), maxFailedOutput), Allowed: allowed,
	}})
}

func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return s[:whole([]byte(s), most)] + "…"
}

// toJSON writes what can always be written.
func toJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return `{"error":{"code":"E9999","status":"failed","message":"the result cannot be written"}}`
	}
	return string(b)
}

// problemOf is an error for clients; nil for none.
func problemOf(err error) *Problem {
	if err == nil {
		return nil
	}
	p := &Problem{Code: fault.CodeOf(err).Error(), Message: fault.Message(err)}
	var e *fault.Error
	if errors.As(err, &e) {
		p.Message, p.Hint = e.Msg, e.Hint
	}
	return p
}
