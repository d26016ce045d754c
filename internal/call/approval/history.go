package approval

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/remitrun/remit/internal/record/store"
)

// Viewer limits a [History] to the records that its reader may see.
type Viewer interface {
	// SeesQuestion reports whether the reader may see an earlier question.
	SeesQuestion(ctx context.Context, q store.Approval) (bool, error)
	// SeesRun reports whether the reader may see the calls of a run.
	SeesRun(ctx context.Context, run string) (bool, error)
}

// History is the part of the record that is evidence for the answer to a question: earlier
// questions like it, and the recorded calls that its session pattern covers. It counts only records
// that its reader may see.
type History struct {
	Tool    Precedents  `json:"tool" doc:"Earlier questions about the same tool"`
	Target  Precedents  `json:"target" doc:"Those of them that touch exactly the same"`
	Pattern *Precedents `json:"pattern,omitempty" doc:"Those of them with the same session pattern; missing: the question has no pattern"`
	Covers  *Covered    `json:"covers,omitempty" doc:"The recorded calls that the session pattern covers; missing: the question has no pattern, or the caller may not see calls"`
	Since   time.Time   `json:"since" doc:"Nothing older was looked at"`
	Partial bool        `json:"partial,omitempty" doc:"A bound was reached: older records since then were not looked at"`
}

// Precedents counts earlier questions.
type Precedents struct {
	Asked    int       `json:"asked"`
	Approved int       `json:"approved"`
	Refused  int       `json:"refused"`
	Last     time.Time `json:"last,omitzero" doc:"When the newest of them was asked"`
}

// Covered counts recorded calls.
type Covered struct {
	Calls   int `json:"calls"`
	Refused int `json:"refused" doc:"Calls that a policy or a person refused"`
}

// Weigh counts an earlier question for the question with a body.
func (h *History) Weigh(b Body, earlier store.Approval, eb Body) {
	if eb.Tool != b.Tool || len(eb.Edits) > 0 { // a proposal asks about a policy, not about a call
		return
	}
	h.Tool.add(earlier)
	if slices.Equal(eb.Touches, b.Touches) {
		h.Target.add(earlier)
	}
	if b.Pattern == nil {
		return
	}
	if h.Pattern == nil {
		h.Pattern = &Precedents{}
	}
	if eb.Pattern != nil && b.Pattern.equal(eb.Pattern) {
		h.Pattern.add(earlier)
	}
}

// equal reports whether two patterns match the same calls. Both are encoded in one order.
func (p *Pattern) equal(o *Pattern) bool {
	a, err := json.Marshal(p)
	b, oerr := json.Marshal(o)
	return err == nil && oerr == nil && string(a) == string(b)
}

func (p *Precedents) add(q store.Approval) {
	p.Asked++
	if q.Asked.After(p.Last) {
		p.Last = q.Asked
	}
	yes := 0
	for _, v := range q.Votes {
		if v.Yes {
			yes++
		}
	}
	switch {
	case q.State == store.Refused:
		p.Refused++
	case q.State == store.Approved, q.State == store.Used, yes >= q.Needs: // also one that lapsed before it was used
		p.Approved++
	}
}

// Lines says the history in words, a sentence each.
func (h *History) Lines() []string {
	out := []string{h.Target.line("the same tool and target")}
	if h.Pattern != nil && *h.Pattern != h.Target {
		out = append(out, h.Pattern.line("calls of the same session pattern"))
	}
	if h.Tool != h.Target {
		out = append(out, h.Tool.line("the same tool"))
	}
	if c := h.Covers; c != nil {
		out = append(out, c.line())
	}
	if h.Partial {
		out = append(out, "only the newest records of the 90 days before were looked at")
	}
	return out
}

func (p Precedents) line(of string) string {
	if p.Asked == 0 {
		return "never asked before for " + of
	}
	times := fmt.Sprintf("%d times", p.Asked)
	if p.Asked == 1 {
		times = "once"
	}
	out := fmt.Sprintf("asked %s before for %s: %d approved, %d refused", times, of, p.Approved, p.Refused)
	if open := p.Asked - p.Approved - p.Refused; open > 0 {
		out += fmt.Sprintf(", %d not answered", open)
	}
	return out + ", last on " + p.Last.UTC().Format(time.DateOnly)
}

func (c Covered) line() string {
	switch c.Calls {
	case 0:
		return "this session pattern would have covered no recorded call"
	case 1:
		return fmt.Sprintf("this session pattern would have covered 1 recorded call, %d of which was refused", c.Refused)
	}
	return fmt.Sprintf("this session pattern would have covered %d recorded calls, %d of which were refused", c.Calls, c.Refused)
}
