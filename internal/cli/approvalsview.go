package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/call/approval"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/approvals"
)

// approvalsView is what approvals watch shows: a list of questions, and one of them in full. It
// does no I/O.
type approvalsView struct {
	list      []store.Approval
	selected  string           // the ID of the question in full; "": none
	since     time.Time        // when it was drawn; zero: not yet
	scroll    int              // of its lines, how many are above the screen
	history   approval.History // of the selected question, if historyOf is its ID
	historyOf string
	last      int // the greatest useful scroll, as last drawn
	page      int // lines of a page, as last drawn
	message   string
	typing    bool // a reason for a refusal is being typed
	reason    []rune
	halted    bool // the question went away while a reason was typed: only Escape or Enter goes on
}

// update takes the questions that wait now, and reports whether there are new ones.
func (v *approvalsView) update(list []store.Approval) (added bool) {
	for _, q := range list {
		added = added || !slices.ContainsFunc(v.list, func(o store.Approval) bool { return o.ID == q.ID })
	}
	was := v.index()
	v.list = list
	if v.index() >= 0 {
		return added
	}
	if v.selected != "" && v.message == "" {
		v.message = shortRunID(v.selected) + " no longer waits"
	}
	v.halted = v.halted || v.typing
	v.selectAt(max(0, min(was, len(list)-1)))
	return added
}

// loadedHistory is the history of the selected question; nil: it was not looked up.
func (v *approvalsView) loadedHistory() *approval.History {
	if v.selected == "" || v.historyOf != v.selected {
		return nil
	}
	return &v.history
}

// index is the place of the selected question; -1: it is gone.
func (v *approvalsView) index() int {
	return slices.IndexFunc(v.list, func(q store.Approval) bool { return q.ID.String() == v.selected })
}

func (v *approvalsView) selectAt(i int) {
	v.selected, v.since, v.scroll, v.typing, v.reason = "", time.Time{}, 0, false, nil
	if i >= 0 && i < len(v.list) {
		v.selected = v.list[i].ID.String()
	}
}

// shown notes that the selected question is on the screen.
func (v *approvalsView) shown(now time.Time) {
	if v.since.IsZero() {
		v.since = now
	}
}

// answered takes what became of an answer.
func (v *approvalsView) answered(message string) { v.message, v.typing, v.reason = message, false, nil }

// press takes a key, and returns the answer that it completes, or that the person leaves.
func (v *approvalsView) press(key string, now time.Time) (a *watchedAnswer, leave bool) {
	switch {
	case v.halted:
		v.halted = key != "\x1b" && key != "\r" && key != "\n"
		v.since = time.Time{}
		return nil, key == "\x03"
	case v.typing:
		return v.typeReason(key), key == "\x03"
	}
	switch key {
	case "q", "\x03", "\x04":
		return nil, true
	case keyUp, "k":
		v.move(-1)
	case keyDown, "j":
		v.move(1)
	case keyPageDown, " ":
		v.scroll = min(v.scroll+max(v.page, 1), v.last)
	case keyPageUp, "b":
		v.scroll = max(v.scroll-max(v.page, 1), 0)
	case "n", "y", "s":
		if v.index() < 0 || v.since.IsZero() || now.Sub(v.since) < typedAhead {
			v.since, v.message = time.Time{}, "keys count once the question has been shown for half a second"
			return nil, false
		}
		return v.choose(key), false
	}
	return nil, false
}

func (v *approvalsView) choose(key string) *watchedAnswer {
	v.message = ""
	switch {
	case key == "n":
		v.typing = true
		return nil
	case key == "s" && !v.hasPattern():
		v.message = "the policy does not permit approval of matching calls"
		return nil
	}
	return &watchedAnswer{id: v.selected, yes: true, session: key == "s"}
}

func (v *approvalsView) hasPattern() bool { return v.body().Pattern != nil }

// body is the text of the selected question; empty for a question that cannot be read.
func (v *approvalsView) body() approval.Body {
	b, err := approvals.BodyOf(v.list[v.index()])
	if err != nil {
		return approval.Body{}
	}
	return b
}

// maxReason bounds a typed reason.
const maxReason = 500

// typeReason edits the reason of a refusal. Enter refuses, Escape goes back.
func (v *approvalsView) typeReason(key string) *watchedAnswer {
	switch {
	case key == "\r" || key == "\n":
		return &watchedAnswer{id: v.selected, reason: string(v.reason)}
	case key == "\x1b":
		v.typing, v.reason = false, nil
	case key == "\x7f" || key == "\b":
		v.reason = v.reason[:max(0, len(v.reason)-1)]
	case len([]rune(key)) == 1 && key >= " " && len(v.reason) < maxReason:
		v.reason = append(v.reason, []rune(key)...)
	}
	return nil
}

func (v *approvalsView) move(by int) {
	if i := v.index() + by; i >= 0 && i < len(v.list) {
		v.message = ""
		v.selectAt(i)
	}
}

// The smallest terminal that shows a question.
const minColumns, minRows = 40, 12

// frame draws the view.
func (v *approvalsView) frame(w, h int, now time.Time) []line {
	if w < minColumns || h < minRows {
		v.since = time.Time{} // nothing can be answered that cannot be read
		return []line{{fmt.Sprintf("enlarge this terminal to %d×%d", minColumns, minRows), yellow}}
	}
	out := []line{{"Remit approvals · " + counted(len(v.list), "waiting question"), bold}}
	i := v.index()
	if i < 0 {
		out = append(out, line{}, line{"no waiting approvals; new ones appear here", dim})
		return append(out, v.foot()...)
	}
	out = append(out, v.rows(i, w, max(1, min(6, h/4)), now)...)
	out = append(out, line{strings.Repeat("─", w), dim})
	foot := v.foot()
	v.page = max(1, h-len(out)-len(foot)-1)
	body := wholeQuestion(v.list[i], v.loadedHistory(), w)
	v.last = max(0, len(body)-v.page)
	v.scroll = min(v.scroll, v.last)
	for _, text := range body[v.scroll:min(len(body), v.scroll+v.page)] {
		out = append(out, line{text: text})
	}
	for len(out) < h-len(foot)-1 {
		out = append(out, line{})
	}
	switch below := len(body) - v.scroll - v.page; {
	case below > 0:
		out = append(out, line{fmt.Sprintf("── %s below: Page Down or Space shows them", counted(below, "more line")), yellow})
	case v.scroll > 0:
		out = append(out, line{"── the end; Page Up or b goes back", dim})
	default:
		out = append(out, line{strings.Repeat("─", w), dim})
	}
	return append(out, foot...)
}

// rows lists the questions around the selected one.
func (v *approvalsView) rows(selected, w, most int, now time.Time) (out []line) {
	from := max(0, min(selected-most/2, len(v.list)-most))
	for i, q := range v.list[from:min(len(v.list), from+most)] {
		b, err := approvals.BodyOf(q)
		if err != nil {
			out = append(out, line{"  " + shortRunID(q.ID.String()) + " cannot be read", red})
			continue
		}
		mark, col := "  ", colour("")
		if from+i == selected {
			mark, col = "▸ ", bold
		}
		left := "  " + countdown(q.Until.Sub(now))
		head := mark + shortRunID(q.ID.String()) + "  " + show(calledTool(b)) + "  " + show(b.Risk) + "  " + show(q.Holder)
		out = append(out, line{besideRight(head, left, w), col})
	}
	return out
}

// countdown prints the time that is left.
func countdown(d time.Duration) string {
	if d >= time.Hour {
		return fmt.Sprintf("%dh%02dm left", int(d.Hours()), int(d.Minutes())%60)
	}
	d = max(d, 0)
	return fmt.Sprintf("%d:%02d left", int(d.Minutes()), int(d.Seconds())%60)
}

// wholeQuestion is everything that a question asks, in lines of a width.
func wholeQuestion(q store.Approval, h *approval.History, w int) []string {
	b, err := approvals.BodyOf(q)
	if err != nil {
		return rewrap(show(bare(err)), w)
	}
	text := b.Whole()
	if b.Rule != "" {
		text += "rule | " + show(b.Rule) + "\n"
	}
	if h != nil {
		text += "before | " + strings.Join(h.Lines(), "\nbefore | ") + "\n"
	}
	text += fmt.Sprintf("run | %s, call %d\n", q.RunID, q.Call)
	if q.Needs > 1 || q.Admin || len(q.Roles) > 0 {
		text += "needs | " + approvalNeeds(q) + "\n"
	}
	for _, vote := range q.Votes {
		word := "refused"
		if vote.Yes {
			word = "approved"
		}
		text += word + " by | " + show(vote.By) + "\n"
	}
	return rewrap(text, w)
}

// foot is the last lines: a message, or the typed text, and the keys.
func (v *approvalsView) foot() []line {
	if v.halted {
		return []line{{show(v.message), yellow}, {"your reason was not sent", red}, {"Escape goes on", dim}}
	}
	if v.typing {
		return []line{
			{"refuse " + shortRunID(v.selected) + "; reason for the caller (may be empty):", red},
			{"> " + show(clip.Text(string(v.reason), maxReason)) + "_", ""},
			{"Enter refuses · Escape goes back", dim},
		}
	}
	if v.index() < 0 {
		return []line{{show(v.message), yellow}, {"q leave", dim}}
	}
	b := v.body()
	keys := "n refuse · y allow this call"
	if len(b.Edits) > 0 {
		keys = "n refuse · y apply the change to the policy"
	}
	if b.Pattern != nil {
		keys += " · s allow calls that match the \"session\" lines"
	}
	return []line{{show(v.message), yellow}, {keys, bold}, {"↑ ↓ question · PgUp PgDn scroll · q leave", dim}}
}
