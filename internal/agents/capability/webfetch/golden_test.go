package webfetch_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/agents/capability/webfetch"
)

// differs are the pages that come out otherwise than the golden files say, and
// why that is as good or better.
var differs = map[string]string{
	"commonmark/image": "comments between images stood on lines of their own, which go with them",
	"commonmark/link":  "comments between links stood on lines of their own: without them, as in a browser, the links are in one paragraph",
}

var comment = regexp.MustCompile(`(?s)<!--.*?-->`)

// golden leaves out of a golden file the comments of the page, which this
// capability never gives: no reader of a page sees them, and they are a place to
// hide instructions for models in.
func golden(s string) string {
	s = comment.ReplaceAllStringFunc(s, func(c string) string {
		if c == "<!--THE END-->" {
			return c
		}
		return ""
	})
	return regexp.MustCompile(`\n{3,}`).ReplaceAllString(strings.TrimSpace(s), "\n\n")
}

func TestGoldenPages(t *testing.T) {
	dir := os.Getenv("REMIT_TESTDATA")
	if dir == "" {
		t.Skip("REMIT_TESTDATA is not set")
	}
	raw, err := os.ReadFile(filepath.Join(dir, "web", "html_to_markdown_golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Pairs []struct{ Name, HTML, Markdown string }
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	for _, p := range file.Pairs {
		t.Run(p.Name, func(t *testing.T) {
			got, err := webfetch.Markdown(t.Context(), p.HTML)
			if err != nil {
				t.Fatal(err)
			}
			got, want := golden(got), golden(p.Markdown)
			why, listed := differs[p.Name]
			switch {
			case got == want && listed:
				t.Errorf("it does not differ any more: %s", why)
			case got != want && !listed:
				t.Errorf("got\n%s\n-----\nwant\n%s", got, want)
			}
		})
	}
}
