package cli

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/base/diff"
	"github.com/remitrun/remit/internal/base/diff/difftest"
)

// TestEveryChangedLineIsPrinted: whatever the lines of a file look like, the terminal has each changed
// line once, in order, after the two names and outside of the heads of hunks.
func TestEveryChangedLineIsPrinted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old, now := difftest.Texts(t)
		d := diff.New("a/x", []byte(old), "b/x", []byte(now))
		var out bytes.Buffer
		(&session{Streams: Streams{Out: &out}, lookup: func(string) (string, bool) { return "", false }}).printDifference("a/x", "b/x", d)
		var got []string
		for i, line := range strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n") {
			if i > 1 && (strings.HasPrefix(line, "+") || strings.HasPrefix(line, "-")) {
				got = append(got, line)
			}
		}
		if want := difftest.Changed(d.Hunks, show); !slices.Equal(got, want) {
			t.Fatalf("printed is %q, want %q", out.String(), want)
		}
	})
}
