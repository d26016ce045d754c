package codebox

import (
	"encoding/base64"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/confine/sandbox"
)

// resultOf describes how the code ended.
func resultOf(o sandbox.Outcome) map[string]any {
	m := map[string]any{"exit_code": o.ExitCode, "duration_ms": o.Duration.Milliseconds()}
	stream(m, "stdout", o.Stdout)
	stream(m, "stderr", o.Stderr)
	if o.Signal != "" {
		m["signal"] = o.Signal
	}
	if o.TimedOut {
		m["timed_out"] = true
	}
	if o.Limit != "" {
		m["limit"] = o.Limit
	}
	if len(o.Connections) > 0 {
		list := make([]any, len(o.Connections))
		for i, c := range o.Connections {
			one := map[string]any{"target": c.Target(), "allowed": !c.Refused()}
			if why := c.Why(); why != "" {
				one["reason"] = why
			}
			list[i] = one
		}
		m["connections"] = list
	}
	return m
}

// stream adds the content of a stream: as text if it is UTF-8, except for a last
// character that the limit cut, otherwise as base64.
func stream(m map[string]any, name string, s sandbox.Stream) {
	data := s.Data
	for i := 1; s.Truncated && i < utf8.UTFMax && i <= len(data); i++ {
		if at := len(data) - i; utf8.RuneStart(data[at]) {
			if !utf8.FullRune(data[at:]) {
				data = data[:at]
			}
			break
		}
	}
	if utf8.Valid(data) {
		m[name] = string(data)
	} else {
		m[name+"_base64"] = base64.StdEncoding.EncodeToString(s.Data)
	}
	m[name+"_info"] = map[string]any{"truncated": s.Truncated, "bytes_total": s.Total}
}
