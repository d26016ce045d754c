package webui

import (
	"html"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/base/diff"
	"github.com/remitrun/remit/internal/base/diff/difftest"
	"github.com/remitrun/remit/internal/base/redact"
)

var spans = regexp.MustCompile(`(?s)<span class="line ([a-z]*)">(.*?)\n?</span>`)

// TestEveryChangedLineIsOnThePage: whatever the lines of a file look like, the page has each changed
// line once, in order, with its sign, and nothing else as a changed line.
func TestEveryChangedLineIsOnThePage(t *testing.T) {
	pages, err := parsePages(files)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		old, now := difftest.Texts(t)
		d := diff.New("a/x", []byte(old), "b/x", []byte(now))
		var page strings.Builder
		if err := pages["changes.html"].ExecuteTemplate(&page, "difference", rowsOf(d.Hunks, d.Text)); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range spans.FindAllStringSubmatch(page.String(), -1) {
			text := html.UnescapeString(m[2])
			if sign := map[string]string{"add": "+", "del": "-"}[m[1]]; sign != "" {
				if !strings.HasPrefix(text, sign+" ") {
					t.Fatalf("the row %q has the class %s", text, m[1])
				}
				got = append(got, sign+text[2:])
			} else if strings.HasPrefix(text, "+") || strings.HasPrefix(text, "-") {
				t.Fatalf("the row %q looks changed", text)
			}
		}
		if want := difftest.Changed(d.Hunks, redact.ShowLines); !slices.Equal(got, want) {
			t.Fatalf("the page has %q, want %q: %s", got, want, page.String())
		}
		if plain := rowsOf(nil, d.Text); len(plain) != strings.Count(d.Text, "\n") {
			t.Fatalf("%d rows of the text %q", len(plain), d.Text)
		}
	})
}
