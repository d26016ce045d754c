package store

import (
	"strings"
	"time"

	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
)

// Mark is a property of events that lists are filtered by. A store keeps, in a small
// index, where events with each mark are. The texts are part of its format.
type Mark string

// The marks that have no parameter.
const (
	// MarkRefused is the mark of calls of which actions were refused while they ran.
	MarkRefused Mark = "refused"
	// MarkSlow is the mark of calls that took [ledger.SlowCall] or longer.
	MarkSlow Mark = "slow"
	// MarkBounded is the mark of calls that bounds were recorded for, as those that a
	// slash command makes.
	MarkBounded Mark = "bounded"
)

// KindMark is the mark of all events of a kind.
func KindMark(k ledger.Kind) Mark { return Mark("kind:" + k.String()) }

// StatusMark is the mark of the ends of runs and calls with a status.
func StatusMark(s tool.Status) Mark { return Mark("status:" + s.String()) }

// ToolMark is the mark of the calls of a tool, and of their outcomes.
func ToolMark(id tool.ID) Mark { return Mark("tool:" + id) }

// ExtensionMark is the mark of the calls of an extension's tools, and of their outcomes.
func ExtensionMark(name string) Mark { return Mark("extension:" + name) }

// OfFirst reports whether the mark is one that an outcome has from its call's first event.
func (m Mark) OfFirst() bool {
	return m == MarkBounded || strings.HasPrefix(string(m), "tool:") || strings.HasPrefix(string(m), "extension:")
}

// Called is what only the first event of a call tells, and its outcome's marks need.
type Called struct {
	Tool    tool.ID
	Bounded bool // the event has a [ledger.PartBounds]
}

// Marks appends the marks of an event to a list. Of a call's event, c is what the first
// event of the call tells.
func Marks(to []Mark, e *ledger.Event, c Called) []Mark {
	to = append(to, KindMark(e.Kind))
	if e.Status != tool.Pending {
		to = append(to, StatusMark(e.Status))
	}
	if c.Tool == "" {
		c.Tool = e.Tool
	}
	if c.Tool != "" {
		to = append(to, ToolMark(c.Tool))
	}
	if !e.Kind.OfCall() {
		return to
	}
	if e.Refused > 0 {
		to = append(to, MarkRefused)
	}
	if len(e.Timeline) > 3 && e.Timeline[3] >= ledger.SlowCall.Microseconds() {
		to = append(to, MarkSlow)
	}
	if c.Bounded {
		to = append(to, MarkBounded)
	}
	if name := c.Tool.Extension(); name != "" {
		to = append(to, ExtensionMark(name))
	}
	return to
}

// EventFilter chooses events. The zero filter chooses all.
type EventFilter struct {
	// Marks chooses the events that have at least one mark of each of these lists.
	Marks        [][]Mark
	Since, Until time.Time
	Before       ledger.Seq // only events before this one; 0: all
}
