package webui

import (
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/doors/httpapi"
)

// checked holds the findings about a policy.
type checked struct {
	httpapi.PolicySummary
	Findings []finding
}

// finding is one error, with the line of the text that it is in.
type finding struct {
	Line, Column int // from 1; 0: not known
	Field        string
	Message      string
	Before, From string // the line before the column, and from there on
}

// check asks for the faults in a policy.
func (x *exchange) check(policy string) (*checked, error) {
	out := &checked{}
	if err := x.api.post("/v1/policies/check", map[string]any{"policy": policy}, &out.PolicySummary); err != nil {
		return nil, err
	}
	lines := strings.Split(policy, "\n")
	for _, e := range out.Errors {
		f := finding{Field: e.Field, Message: e.Message}
		if at, field, _ := strings.Cut(e.Field, " "); f.placed(at) {
			f.Field = field
		}
		if f.Line > 0 && f.Line <= len(lines) {
			text := []rune(lines[f.Line-1])
			from := min(max(f.Column-1, 0), len(text))
			f.Before, f.From = string(text[:from]), string(text[from:])
		}
		out.Findings = append(out.Findings, f)
	}
	return out, nil
}

// placed reads a place, as 3:5, into the finding.
func (f *finding) placed(at string) bool {
	line, column, _ := strings.Cut(at, ":")
	l, err := strconv.Atoi(line)
	if err != nil || l < 1 {
		return false
	}
	f.Line = l
	f.Column, _ = strconv.Atoi(column) // missing: 0
	return true
}
