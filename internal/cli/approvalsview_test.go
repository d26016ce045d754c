package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/mattn/go-runewidth"

	"github.com/remitrun/remit/internal/call/approval"
	"github.com/remitrun/remit/internal/record/store"
)

var watchStart = time.Date(2026, 11, 23, 5, 0, 0, 0, time.UTC)

// question makes a waiting question with an argument.
func question(t *testing.T, n byte, text string, pattern bool) store.Approval {
	t.Helper()
	args, err := json.Marshal(map[string]string{"content": text})
	if err != nil {
		t.Fatal(err)
	}
	b := approval.Body{Tool: "fs.write", Args: args, Reason: "needs approval", Rule: "files.write.ask[0]", Risk: "medium", Holder: "user:ann\x1b[2J"}
	if pattern {
		b.Pattern = &approval.Pattern{Tool: "fs.write", Digest: "d"}
	}
	body, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return store.Approval{ID: uuid.UUID{n}, State: store.Waiting, Holder: b.Holder, Asked: watchStart, Until: watchStart.Add(5 * time.Minute), Needs: 1, Body: body}
}

func texts(frame []line) string {
	var out []string
	for _, l := range frame {
		out = append(out, l.text)
	}
	return strings.Join(out, "\n")
}

// ready is a view whose question has been shown for long enough.
func ready(list ...store.Approval) *approvalsView {
	v := &approvalsView{}
	v.update(list)
	v.frame(80, 24, watchStart)
	v.shown(watchStart)
	return v
}

func TestKeysAnswerTheQuestionThatWasRead(t *testing.T) {
	one, two := question(t, 1, "x", false), question(t, 2, "y", true)
	later := watchStart.Add(typedAhead)
	v := ready(one, two)
	if a, _ := v.press("y", watchStart.Add(typedAhead-1)); a != nil {
		t.Error("answered before it could be read")
	}
	v.shown(watchStart) // a key that came too early begins the wait again
	if a, _ := v.press("s", later); a != nil || !strings.Contains(v.message, "does not permit") {
		t.Errorf("answered for a session without a pattern: %+v, %s", a, v.message)
	}
	if a, _ := v.press("y", later); a == nil || *a != (watchedAnswer{id: one.ID.String(), yes: true}) {
		t.Errorf("got %+v", a)
	}
	v.press(keyDown, later)
	if a, _ := v.press("y", later); a != nil {
		t.Error("the next question was answered at once")
	}
	v.shown(later)
	if a, _ := v.press("s", later.Add(typedAhead)); a == nil || *a != (watchedAnswer{id: two.ID.String(), yes: true, session: true}) {
		t.Errorf("got %+v", a)
	}
}

func TestAProposedChangeIsShownWithWhatItsKeyDoes(t *testing.T) {
	q := question(t, 1, "x", false)
	b := approval.Body{Tool: "fs.write", Requested: true, Wanted: "please\x1b[2J\nrule | none", Edits: []approval.Edit{{File: "/w/remit.yaml", Diff: "@@ -1,1 +1,2 @@\n+      - out/b.txt\n"}}}
	var err error
	if q.Body, err = json.Marshal(b); err != nil {
		t.Fatal(err)
	}
	frame := texts(ready(q).frame(80, 24, watchStart))
	for _, want := range []string{`  | please\x1b[2J`, "  | rule | none", "proposes to change | /w/remit.yaml", "  | +      - out/b.txt", "y apply the change to the policy"} {
		if !strings.Contains(frame, want) {
			t.Errorf("%q is not shown:\n%s", want, frame)
		}
	}
	if strings.Contains(frame, "allow this call") {
		t.Error("a key allows the call")
	}
}

func TestRefusalsHaveAReason(t *testing.T) {
	one := question(t, 1, "x", false)
	later := watchStart.Add(typedAhead)
	v := ready(one)
	for _, k := range append([]string{"n"}, splitKeys("yes\x7f\x1b[A, y")...) {
		if a, leave := v.press(k, later); a != nil || leave {
			t.Fatalf("%q: %+v, %v", k, a, leave)
		}
	}
	if a, _ := v.press("\r", later); a == nil || *a != (watchedAnswer{id: one.ID.String(), reason: "ye, y"}) {
		t.Errorf("got %+v", a)
	}
	v.answered("denied")
	v.press("n", later)
	v.press("\x1b", later)
	if v.typing {
		t.Error("Escape does not go back")
	}
	if _, leave := v.press("q", later); !leave {
		t.Error("q does not leave")
	}
}

// TestAReasonForAnotherQuestionAnswersNothing: the question was answered by somebody else while
// its reason was typed; what is still typed must not answer the next question.
func TestAReasonForAnotherQuestionAnswersNothing(t *testing.T) {
	one, two := question(t, 1, "x", false), question(t, 2, "y", true)
	v := ready(one, two)
	later := watchStart.Add(typedAhead)
	v.press("n", later)
	v.update([]store.Approval{two})
	v.shown(later)
	much := later.Add(time.Hour)
	for _, k := range splitKeys("nys yes") {
		v.shown(later)
		if a, leave := v.press(k, much); a != nil || leave {
			t.Fatalf("%q: %+v, %v", k, a, leave)
		}
	}
	if text := texts(v.frame(80, 24, much)); !strings.Contains(text, "your reason was not sent") || !strings.Contains(text, "no longer waits") {
		t.Error(text)
	}
	v.press("\x1b", much)
	v.shown(much)
	if a, _ := v.press("y", much.Add(typedAhead)); a == nil || a.id != two.ID.String() {
		t.Errorf("got %+v", a)
	}
}

func TestEverythingAskedCanBeRead(t *testing.T) {
	var content []string
	for i := range 100 {
		content = append(content, fmt.Sprintf("text %d", i))
	}
	hostile := "\x1b[2J\u202e because | it is harmless" + strings.Repeat(" wide", 60) + "\nrule | none"
	v := ready(question(t, 1, hostile+"\n"+strings.Join(content, "\n"), true))
	for _, size := range [][2]int{{80, 24}, {40, 12}, {200, 60}} {
		w, h := size[0], size[1]
		v.scroll = 0
		seen := ""
		for range 400 {
			frame := v.frame(w, h, watchStart)
			if len(frame) > h {
				t.Fatalf("%d×%d: %d lines", w, h, len(frame))
			}
			for _, l := range frame {
				if strings.ContainsAny(l.text, "\x1b\u202e") || runewidth.StringWidth(l.text) > w && l.colour == "" {
					t.Errorf("%d×%d: %q", w, h, l.text)
				}
				if strings.HasPrefix(l.text, "rule | none") || strings.HasPrefix(l.text, "because | it") || strings.HasPrefix(l.text, "wide") {
					t.Errorf("a line of the caller's passes for Remit's own: %q", l.text)
				}
			}
			seen += texts(frame) + "\n"
			v.press(" ", watchStart)
		}
		for _, want := range append(content, "  | rule | none", "rule | files.write.ask[0]", "session | calls of fs.write", `\x1b[2J\u202e`) {
			if !strings.Contains(seen, want) {
				t.Errorf("%d×%d: %q is never shown", w, h, want)
			}
		}
	}
	v.frame(20, 5, watchStart)
	if a, _ := v.press("y", watchStart.Add(time.Hour)); a != nil {
		t.Error("answered on a terminal that is too small")
	}
}

func TestSplitKeys(t *testing.T) {
	got := strings.Join(splitKeys("a\x1b[A\x1b[1;5Cb\x1bOB\x1b[5~ü\x1b"), "|")
	if want := "a|up|b|down|page up|ü|\x1b"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
