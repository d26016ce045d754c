package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/mattn/go-runewidth"
)

func TestActivityLine(t *testing.T) {
	begun := time.Unix(0, 0)
	a := &activity{s: &session{Streams: Streams{Err: &bytes.Buffer{}}}, begun: begun}
	a.step("resolving \x1b[2J" + strings.Repeat("long ", 30))
	if got := a.line(begun.Add(3 * time.Second)); !strings.HasPrefix(got, `⠋ resolving \x1b[2Jlong`) || !strings.HasSuffix(got, "…  3.0 s") || runewidth.StringWidth(got) >= 80 {
		t.Errorf("%q", got)
	}
	a.step("checking")
	a.count(1, 4)
	if got, want := a.line(begun.Add(time.Minute)), "⠋ checking  █████░░░░░░░░░░░░░░░  25 %  1m00s"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	a.count(9, 4) // more than was expected
	if got := a.line(begun); !strings.Contains(got, "100 %") {
		t.Errorf("%q", got)
	}
}

// Where only plain text may be printed there is no activity, and the nil activity does nothing.
func TestNoActivityWithoutATerminal(t *testing.T) {
	var out bytes.Buffer
	s := &session{Streams: Streams{Out: &out, Err: &out}, lookup: func(string) (string, bool) { return "", false }}
	a := s.startActivity("working")
	a.step("x")
	a.count(1, 2)
	asked := a.hold(func() error { return nil })
	a.stop()
	if a != nil || asked != nil || out.Len() > 0 {
		t.Errorf("%v, %v, %q", a, asked, out.String())
	}
}
