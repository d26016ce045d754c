package hook

import (
	"fmt"
	"strings"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/redact"
	"github.com/remitrun/remit/internal/doors/hookwire"
)

// Masked is the output of a reported call without the known formats of keys in it.
type Masked struct {
	event  *Event
	output any
	rules  []string
}

// MaskKeys masks the known formats of keys in a reported output; nil: there are none, or the agent cannot replace the output.
// The event itself, and so the record, keeps the output.
func (e *Event) MaskKeys() *Masked {
	if e.masked == nil {
		return nil
	}
	output, rules := redact.KeysIn(e.result)
	if rules == nil {
		return nil
	}
	return &Masked{e, output, rules}
}

// Answer is what the hook prints, so that the agent replaces the output. The problem is why the call could not be recorded;
// "": it was.
func (m *Masked) Answer(problem string) ([]byte, error) {
	note := redact.KeyNote(m.rules, m.event.subject()) + "; do not write the markers into files"
	if problem != "" {
		note += "; the call was not recorded: " + problem
	}
	b, err := canon.Marshal(m.event.masked(m.output, note))
	switch {
	case err != nil:
		return nil, fault.Wrap(fault.Internal, err, "the masked output cannot be encoded")
	case len(b) > hookwire.MaxOut:
		return nil, fault.New(fault.OutputInvalid, "the masked output has %d bytes; the limit is %d", len(b), hookwire.MaxOut)
	}
	return append(b, '\n'), nil
}

// subject names the call of an event: the tool, and the file or URL.
func (e *Event) subject() string {
	for _, c := range e.Calls {
		for _, name := range []string{"path", "url"} {
			if s, ok := c.Args[name].(string); ok && e.Server == "" {
				return fmt.Sprintf("%.80q of %.300q", e.Tool, s)
			}
		}
	}
	return fmt.Sprintf("%.80q", e.Tool)
}

// report makes the event a report, with the first of the fields as the output. If masked is not nil, it makes the answer that
// replaces the output.
func (e *Event) report(m object, masked func(output any, note string) any, fields ...string) {
	e.Phase, e.masked = After, masked
	for _, name := range fields {
		if e.Output = m.output(name); e.Output != nil {
			e.result = m[name]
			return
		}
	}
}

// claudeMasked answers Claude Code. It ignores an output in another form than the tool's own.
func claudeMasked(output any, note string) any {
	return map[string]any{"hookSpecificOutput": map[string]any{"hookEventName": "PostToolUse", "updatedToolOutput": output, "additionalContext": note}}
}

// codexMasked answers Codex, which gives its model the reason instead of the output.
func codexMasked(output any, note string) any {
	return map[string]any{"decision": "block", "reason": note + "\n" + plain(output)}
}

// geminiMasked answers Gemini CLI, which gives its model the reason instead of the output, as an error.
func geminiMasked(output any, note string) any {
	result, _ := output.(map[string]any)
	return map[string]any{"decision": "deny", "reason": note + "\n" + plain(result["llmContent"])}
}

func copilotMasked(output any, note string) any {
	return map[string]any{"modifiedResult": output, "additionalContext": note}
}

// copilotPascalMasked answers Copilot CLI, which takes a result by its own names also where it tells it by others.
func copilotPascalMasked(output any, note string) any {
	result, _ := output.(map[string]any)
	own := map[string]any{}
	for name, v := range result {
		switch name {
		case "result_type":
			name = "resultType"
		case "text_result_for_llm":
			name = "textResultForLlm"
		}
		own[name] = v
	}
	return copilotMasked(own, note)
}

func genericMasked(output any, note string) any {
	return map[string]any{"output": output, "note": note}
}

// plain is an output as text: a text itself, the texts of a list of parts, or anything else as JSON.
func plain(output any) string {
	if s, ok := output.(string); ok {
		return s
	}
	parts, _ := output.([]any)
	texts := make([]string, 0, len(parts))
	for _, p := range parts {
		part, _ := p.(map[string]any)
		s, ok := part["text"].(string)
		if !ok {
			break
		}
		texts = append(texts, s)
	}
	if len(parts) > 0 && len(texts) == len(parts) {
		return strings.Join(texts, "\n")
	}
	b, err := canon.Marshal(output)
	if err != nil { // cannot be: it was decoded from JSON
		return "the output cannot be written as JSON"
	}
	return string(b)
}
