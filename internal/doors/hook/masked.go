package hook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/redact"
	"github.com/remitrun/remit/internal/doors/hookwire"
)

// Masked is the output of a reported call without the known formats of keys in it, or a withheld output.
type Masked struct {
	event    *Event
	output   any
	rules    []string
	withheld string // why the output is withheld; "": it is not
}

// MaskKeys masks the known formats of keys in a reported output; nil: there are none, or the agent cannot replace the output.
// An output that is not whole is withheld. The event itself, and so the record, keeps the output.
func (e *Event) MaskKeys() *Masked {
	if e.masked == nil {
		return nil
	}
	if e.unread != "" {
		return e.Withhold(e.unread)
	}
	output, rules := redact.KeysIn(e.result)
	if rules == nil {
		return nil
	}
	return &Masked{event: e, output: output, rules: rules}
}

// Withhold is MaskKeys for an output that cannot be searched: it replaces all longer texts. why is the reason, for the note.
func (e *Event) Withhold(why string) *Masked {
	if e.masked == nil {
		return nil
	}
	return &Masked{event: e, withheld: why}
}

// withheldText replaces a text that is withheld. It is shorter than minWithheld, so a withheld output is not larger.
const withheldText = "[withheld]"

// minWithheld is the least length of a withheld text, in bytes: a shorter one, such as the type of an output, has no key.
const minWithheld = 16

// withhold replaces the texts of an output that can have keys. It keeps the form, without which agents ignore the answer.
func withhold(v any) any {
	switch v := v.(type) {
	case string:
		if len(v) >= minWithheld {
			return withheldText
		}
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = withhold(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, field := range v {
			if len(name) >= minWithheld && strings.ContainsAny(name, "0123456789-_") {
				name = fmt.Sprintf("%s %d", withheldText, len(out)+1)
			}
			out[name] = withhold(field)
		}
		return out
	}
	return v
}

// Answer is what the hook prints, so that the agent replaces the output. The problem is why the call could not be recorded;
// "": it was. An output that became too large is withheld.
func (m *Masked) Answer(problem string) ([]byte, error) {
	output, note := m.output, redact.KeyNote(m.rules, m.event.subject())+"; do not write the markers into files"
	if m.withheld != "" {
		output, note = withhold(m.event.result), "remit: withheld the output of "+m.event.subject()+": "+m.withheld
	}
	switch problem {
	case "":
	case m.withheld:
		note += "; the call was not recorded"
	default:
		note += "; the call was not recorded: " + problem
	}
	b, err := encode(m.event.masked(output, note))
	switch {
	case err != nil:
		return nil, fault.Wrap(fault.Internal, err, "the masked output cannot be encoded")
	case len(b) <= hookwire.MaxOut:
		return b, nil
	case m.withheld != "":
		return nil, fault.New(fault.OutputInvalid, "the answer has %d bytes; the limit is %d", len(b), hookwire.MaxOut)
	}
	return m.event.Withhold(fmt.Sprintf("with markers it has more than %d bytes", hookwire.MaxOut)).Answer(problem)
}

// encode writes a line of JSON in which numbers keep their form.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
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
	b, err := encode(output)
	if err != nil { // cannot be: it was decoded from JSON
		return "the output cannot be written as JSON"
	}
	return strings.TrimSuffix(string(b), "\n")
}
