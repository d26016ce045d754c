package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/redact"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/tools/model"
)

// result is the result of a tool call, as the model gets it.
type result struct {
	status tool.Status
	text   string
	err    error // nil where it completed
}

func (r result) message(callID string) Message {
	return Message{Role: model.ToolRole, CallID: callID, Text: r.text, Failed: r.status != tool.Completed}
}

// resultOf makes the result of a call from its outcome. Of a long output the model gets
// the beginning, and how to read the rest.
// Known formats of keys are masked in it, unless the policies show them.
func resultOf(o runner.Outcome, chain policy.Chain, most int) result {
	r := plainResult(o, chain, most)
	if !o.ShowsKeys {
		r.text, _ = redact.Keys(r.text)
	}
	return r
}

func plainResult(o runner.Outcome, chain policy.Chain, most int) result {
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
	case o.Tool == readID: // it bounds itself
		r.text = string(out)
	case pictured(o.Output) != nil:
		if r.text = toJSON(pictured(o.Output)); len(r.text) > most {
			r.text = envelope(out, most)
		}
	case len(out) <= most && strings.HasPrefix(string(o.Tool), "mcp:") && o.Output["_meta"] != nil:
		said := maps.Clone(o.Output)
		delete(said, "_meta") // is for clients, not for models
		r.text = toJSON(said)
	case len(out) <= most:
		r.text = string(out)
	default:
		r.text = envelope(out, most)
	}
	return r
}

// pictured is an output without the bytes of its pictures and documents, which are of no use to
// a model as text; nil: it has none. The record has them.
func pictured(out map[string]any) map[string]any {
	const left = "(left out; the record has it)"
	var clean map[string]any
	media, _ := out["media_type"].(string)
	if _, ok := out["content_base64"]; ok && (media == "image/png" || media == "application/pdf") {
		clean = maps.Clone(out)
		clean["content_base64"] = left
	}
	if images, ok := out["images"].([]any); ok && clean == nil {
		list := make([]any, len(images))
		for i, one := range images {
			list[i] = one
			if part, ok := one.(map[string]any); ok && pictured(part) != nil {
				list[i], clean = pictured(part), out
			}
		}
		if clean != nil {
			clean = maps.Clone(out)
			clean["images"] = list
		}
	}
	return clean
}

// cutOutput replaces an output that is too long.
type cutOutput struct {
	Truncated bool   `json:"truncated,omitempty"`
	Withheld  bool   `json:"withheld,omitempty"` // nothing of it is shown
	Bytes     int    `json:"bytes,omitempty"`
	Shown     int    `json:"shown,omitempty"`
	ID        string `json:"output_id"`
	How       string `json:"how"`
	Beginning string `json:"beginning,omitempty"`
}

func envelope(out []byte, most int) string {
	n := wholeLength(out, most)
	return toJSON(cutOutput{
		Truncated: true, Bytes: len(out), Shown: n, ID: outputID(out),
		How:       "call " + readName + " with this output_id and an offset to read on, or give it to a tool without reading it: " + `{"$output": ID, "at": "/member"}` + " in place of an argument",
		Beginning: string(out[:n]),
	})
}

// outputID names an output by its content, so that equal outputs have one name.
func outputID(out []byte) string {
	sum := sha256.Sum256(out)
	return outputPrefix + hex.EncodeToString(sum[:outputDigits/2])
}

// wholeLength gives the largest number of bytes, up to n, that ends with a whole character.
func wholeLength(b []byte, n int) int {
	if n >= len(b) {
		return len(b)
	}
	for n > 0 && !utf8.RuneStart(b[n]) {
		n--
	}
	return n
}

// errorResult is an error as a model gets it.
type errorResult struct {
	Error errorBody `json:"error"`
}

type errorBody struct {
	Code    string          `json:"code"`
	Status  string          `json:"status"`
	Message string          `json:"message"`
	Rule    string          `json:"rule,omitempty"`
	Also    []string        `json:"also,omitempty"`    // further reasons
	Allowed []string        `json:"allowed,omitempty"` // the entries that the policy allows instead
	Output  json.RawMessage `json:"output,omitempty"`  // of a call that failed, up to its failure
}

// maxFailedOutput is how much of a failed call's output is shown, in bytes.
const maxFailedOutput = 4 << 10

// refusal says why a call did not complete, so that the model can do better.
func refusal(o runner.Outcome, chain policy.Chain) string {
	e := errorBody{Code: fault.CodeOf(o.Err).Error(), Status: o.Status.String(), Message: clip.Text(fault.ForModel(o.Err), maxFailedOutput)}
	if o.Status == tool.StatusDenied && (o.Decision.Rule != nil || o.Decision.Reason != "") {
		e.Rule = o.Decision.Rule.String()
	}
	for _, r := range o.Decision.Refusals {
		if r.Reason != "" && r.Reason != o.Decision.Reason && len(e.Also) < maxAlso {
			e.Also = append(e.Also, r.Reason)
		}
	}
	if fault.CodeOf(o.Err) == fault.Denied {
		e.Allowed = alternatives(o.Decision, chain)
	}
	if o.Output != nil {
		if b, err := canon.Marshal(o.Output); err == nil && len(b) <= maxFailedOutput {
			e.Output = b
		} else if err == nil {
			e.Output = json.RawMessage(toJSON(string(b[:wholeLength(b, maxFailedOutput)]) + "…"))
		}
	}
	return toJSON(errorResult{e})
}

const maxAlso = 6

// alternatives lists what the policies allow in the sections that denied something.
func alternatives(d policy.Decision, chain policy.Chain) []string {
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
	for k := tool.FileRead; k <= tool.TableWrite; k++ {
		if k.String() == section {
			return k, true
		}
	}
	return tool.NoAction, false
}

// errorText writes an error for a model that is not the outcome of a call.
func errorText(status tool.Status, err error, allowed []string) string {
	return toJSON(errorResult{errorBody{
		Code: fault.CodeOf(err).Error(), Status: status.String(), Message: clip.Text(fault.ForModel(err), maxFailedOutput), Allowed: allowed,
	}})
}

// toJSON writes a value that can always be written as JSON.
func toJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return `{"error":{"code":"E9999","status":"failed","message":"the result cannot be written as JSON"}}`
	}
	return string(b)
}

// problemOf is an error for clients; nil: none.
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
