package fleet_test

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// recorded is what the ledger says of the call of one intent.
type recorded struct {
	intents int
	done    bool // its outcome is completed
	unknown bool // it began, and its outcome is not completed
}

// row is the verdict on one kind of fault.
type row struct {
	fault                       string
	times, doubled, lost, stuck int
	failed                      int           // intents that ended without an effect, as their clients were told
	gap, away                   time.Duration // the gap that was longest beside what was made on purpose, and that
}

// over is how much a gap exceeds what the fault makes on purpose.
func (r *row) over() time.Duration { return r.gap - r.away }

const (
	// gapPromised is how long no call may succeed, besides the time of the fault itself.
	gapPromised = lease + 2*time.Second
	// gapFails is the bound of the test, which must also hold on a machine with other work.
	gapFails = 20 * time.Second
	// patience is how long clients try after the last fault.
	patience = lease + 30*time.Second
)

// before is printed for what went wrong before any fault.
const before = "(no fault)"

// faultAt is the fault that was the last to begin at a time.
func (c *crowd) faultAt(t time.Time) *putFault {
	found := &putFault{name: before}
	for _, f := range c.faults {
		if f.began.Before(t) {
			found = f
		}
	}
	return found
}

// judge prints a row for each kind of fault, and the story of each intent that went wrong.
func (c *crowd) judge(record map[string]recorded) {
	c.f.Helper()
	rows := map[string]*row{}
	at := func(f *putFault) *row {
		if rows[f.name] == nil {
			rows[f.name] = &row{fault: f.name}
		}
		return rows[f.name]
	}
	for _, f := range c.faults {
		at(f).times++
	}
	counts := map[string]map[ending]int{}
	for _, i := range c.intents {
		if counts[i.kind] == nil {
			counts[i.kind] = map[ending]int{}
		}
		counts[i.kind][cmp.Or(i.end, "stuck")]++
		c.judgeIntent(i, record[i.path], at)
	}
	c.measure(at)
	c.f.Logf("what outside clients were told: %v%s", counts, c.refusals())
	c.table(rows)
}

// refusals lists the answers by which calls ended as refused, and how often each came. No policy refuses
// these calls, so each of these answers is about a fault.
func (c *crowd) refusals() string {
	times := map[string]int{}
	for _, i := range c.intents {
		if n := len(i.story); i.end == refused && n > 0 {
			_, text, _ := strings.Cut(i.story[n-1], ": ")
			times[i.kind+": "+ids.ReplaceAllString(text, "…")]++
		}
	}
	var b strings.Builder
	for _, text := range slices.Sorted(maps.Keys(times)) {
		fmt.Fprintf(&b, "\n  refused %d × %s", times[text], text)
	}
	return b.String()
}

// ids are parts of a text that differ each time.
var ids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|urn:remit:request:[A-Z0-9]*|[0-9]{4}-[0-9T:.Z-]{16,}|[A-Z2-7]{26}|/tmp/[^ "]*`)

// judgeIntent counts what went wrong with one intent under the fault that was put last before it.
func (c *crowd) judgeIntent(i *intent, r recorded, at func(*putFault) *row) {
	c.f.Helper()
	happened := c.f.times(i.path)
	var wrong string
	var when time.Time
	switch {
	case len(happened) > 1:
		wrong, when = "DOUBLED", happened[1]
		at(c.faultAt(when)).doubled++
	case i.end == completed && len(happened) == 0, r.done && len(happened) == 0:
		wrong, when = "LOST: it is said to be completed", cmp.Or(i.ended, time.Now())
		at(c.faultAt(when)).lost++
	case len(happened) > 0 && r.intents == 0:
		wrong, when = "LOST: its effect has no intent in the ledger", happened[0]
		at(c.faultAt(when)).lost++
	case i.end == denied:
		wrong, when = "DENIED: the client may do it", i.ended
		at(c.faultAt(when)).failed++
	case i.ended.IsZero():
		wrong, when = "STUCK", c.lastFault().began.Add(1)
		at(c.faultAt(when)).stuck++
	case i.kind == asking && len(happened) == 0 && !r.unknown && i.end != unknown && !c.clockMoved(i): // nobody refuses questions
		wrong, when = "LOST: its question ended without an answer", i.ended
		if !i.answered.IsZero() {
			wrong, when = "LOST: its question was answered", i.answered
		}
		at(c.faultAt(when)).lost++
	}
	if wrong == "" && i.end == refused {
		at(c.faultAt(i.ended)).failed++
	}
	if wrong != "" {
		c.f.Errorf("%s", c.story(i, r, happened, wrong, when))
	}
}

// clockMoved reports whether the clock of the database moved while a question or its approval was open: they
// end by that clock.
func (c *crowd) clockMoved(i *intent) bool {
	return i.began.Before(c.jumped) || slices.ContainsFunc(c.faults, func(f *putFault) bool {
		return f.name == serverClock && i.began.Before(f.ended.Add(lease)) && f.began.Before(i.ended)
	})
}

// lastFault is the fault that was put last.
func (c *crowd) lastFault() *putFault {
	if len(c.faults) == 0 {
		return &putFault{name: before}
	}
	return c.faults[len(c.faults)-1]
}

// story says for a reader who was not there what happened to an intent.
func (c *crowd) story(i *intent, r recorded, happened []time.Time, wrong string, when time.Time) string {
	clock := func(t time.Time) string { return t.Format("15:04:05.000") }
	f := c.faultAt(when)
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s %s, begun at %s\n  fault: %s, put at %s, mended at %s\n", wrong, i.kind, i.path, clock(i.began), f.name, clock(f.began), clock(f.ended))
	for _, t := range happened {
		fmt.Fprintf(&b, "  effect at %s\n", clock(t))
	}
	fmt.Fprintf(&b, "  ledger: %d intents, completed %t, unknown %t; the client was told %q\n", r.intents, r.done, r.unknown, i.end)
	for _, line := range i.story {
		fmt.Fprintf(&b, "    %s\n", line)
		if _, id, ok := strings.Cut(line, "urn:remit:request:"); ok {
			for said := range strings.Lines(c.f.logOf(id)) {
				fmt.Fprintf(&b, "      the log of the nodes: %s\n", clip(said, 600))
			}
		}
	}
	return b.String()
}

// measure finds the longest gaps in which no client was told of a completed call. A gap that lasts into the next
// fault counts for that one as a whole.
func (c *crowd) measure(at func(*putFault) *row) {
	slices.SortFunc(c.told, time.Time.Compare)
	for n, f := range c.faults {
		end := f.ended.Add(patience)
		if n+1 < len(c.faults) {
			end = c.faults[n+1].began
		}
		r, last := at(f), f.began
		for _, t := range c.told {
			if t.Before(f.began) {
				last = t
				continue
			}
			if t.After(end) {
				t = end
			}
			if gap := t.Sub(last); last.Before(end) && (r.gap == 0 || gap-f.away > r.over()) {
				r.gap, r.away = gap, f.away
			}
			last = t
		}
	}
}

// table prints the rows as they are in docs/fleet.md.
func (c *crowd) table(rows map[string]*row) {
	c.f.Helper()
	var b strings.Builder
	b.WriteString("\n| fault | times | doubled | lost | stuck | failed, and said so | longest gap | of it on purpose |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, r := range slices.SortedFunc(maps.Values(rows), func(a, b *row) int { return cmp.Compare(a.fault, b.fault) }) {
		mark := ""
		if r.over() > gapPromised {
			mark = " (over " + gapPromised.String() + ")"
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d | %.1f s%s | %.1f s |\n", r.fault, r.times, r.doubled, r.lost, r.stuck, r.failed, r.gap.Seconds(), mark, r.away.Seconds())
		if r.over() > gapFails {
			c.f.Errorf("%s: no call succeeded for %s, %s of it on purpose", r.fault, r.gap, r.away)
		}
	}
	c.f.Log(b.String())
}
