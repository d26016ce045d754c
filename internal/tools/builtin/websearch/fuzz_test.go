package websearch_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/tools/builtin/websearch"
)

// FuzzAnswers reads any answer as each service's. What is shown of it is an http(s) URL and
// visible text of a bounded length.
func FuzzAnswers(f *testing.F) {
	for _, s := range []string{searx, brave, tavily, `{"results": null}`, `{"results": [null, {}, {"url": "http://"}]}`, `{"type": "search"}`, `{"web": null, "results": []}`,
		`{"results": [{"url": "https://a/\u202e\n\u0000", "title": "\u001b[31m<script>x</script>\u2028", "content": "<p", "publishedDate": "\ud800"}]}`,
		`{"results": [{"url": "https://user:pw@a.example/%zz"}, {"url": "https://a.example/ b\u007f"}]}`, "{}{}", `{"RESULTS": [{"URL": "https://x"}]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, kind := range []string{websearch.SearXNG, websearch.Brave, websearch.Tavily} {
			list, err := websearch.Read(kind, body, 5)
			if len(list) > 5 || err != nil && len(list) > 0 {
				t.Fatalf("%s: %d results, %v", kind, len(list), err)
			}
			seen := map[string]bool{}
			for _, one := range list {
				m := one.(map[string]any)
				at := m["url"].(string)
				if u, err := url.Parse(at); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || len(at) > 8000 || seen[at] {
					t.Fatalf("%s: the URL %q, %v", kind, at, err)
				}
				seen[at] = true
				for name, v := range m {
					s := v.(string)
					if !utf8.ValidString(s) || len(s) > 10_000 || strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }) {
						t.Fatalf("%s: %s is %q", kind, name, s)
					}
				}
			}
			if _, err := json.Marshal(list); err != nil {
				t.Fatal(err)
			}
		}
	})
}
