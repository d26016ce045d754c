package webfetch_test

import (
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/agents/capability/webfetch"
	"github.com/remitrun/remit/internal/base/racetest"
)

// TestHostilePages: whatever a page is made of, it is converted or given up in a
// bounded time, and its plain text takes time in proportion to its length.
func TestHostilePages(t *testing.T) {
	racetest.Skip(t, "one goroutine parses pages")
	const size = 512 << 10
	fill := func(s string) string { return strings.Repeat(s, size/len(s)) }
	for name, page := range map[string]string{
		"less-than signs":      fill("<"),
		"open tags":            fill("<a "),
		"open comments":        fill("<!--"),
		"one long comment":     "<!--" + fill("- -"),
		"one long attribute":   "<a href='" + fill("x") + "'>y</a>",
		"many attributes":      "<a " + fill("a=b ") + ">y</a>",
		"open scripts":         fill("<script></"),
		"ampersands":           fill("&amp;&#x41;&"),
		"mixed formatting":     fill("<b><i></b></i>"),
		"tables in tables":     fill("<table><tr><td>"),
		"tables side by side":  fill("<table><tr><td>x</table>"),
		"wide table":           "<table><tr>" + fill("<td>x"),
		"tall table":           "<table>" + fill("<tr><td>x"),
		"lists":                fill("<ul><li>x</ul>"),
		"list items":           "<ol>" + fill("<li>x"),
		"line breaks":          fill("<br>"),
		"headings":             fill("<h1>x</h1>"),
		"images":               fill("<img src=x alt=y>"),
		"spaces":               fill(" "),
		"new lines in pre":     "<pre>" + fill("\n"),
		"stars and brackets":   "<p>" + fill("*[_`\\"),
		"NUL bytes":            fill("\x00"),
		"select and options":   "<select>" + fill("<option>x"),
		"templates":            fill("<template><p>x</template>"),
		"foreign content":      fill("<svg><math>"),
		"misnested formatting": fill("<p><b>x"),
		"frames of text":       fill("<noscript><p>x</noscript>"),
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			_, err := webfetch.Markdown(t.Context(), page)
			md := time.Since(begin)
			begin = time.Now()
			text := webfetch.Plain(page)
			if len(text) > 2*len(page) {
				t.Errorf("the text has %d bytes", len(text))
			}
			plain := time.Since(begin)
			if md > time.Minute || plain > 20*time.Second { // generous: machines are busy
				t.Errorf("Markdown took %v, text %v", md, plain)
			}
			t.Logf("Markdown %v (%v), text %v", md, err, plain)
		})
	}
}
