package markdown_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/markdown"
)

func TestHTML(t *testing.T) {
	for name, tt := range map[string]struct{ src, want string }{
		"paragraphs":       {"a **b**\n*c* `d<e`\n\nf", "<p>a <strong>b</strong> <em>c</em> <code>d&lt;e</code></p><p>f</p>"},
		"no headings":      {"# Title\ntext", "<p><strong>Title</strong></p><p>text</p>"},
		"hard break":       {"one  \ntwo", "<p>one<br>two</p>"},
		"nested lists":     {"- a\n  - b\n  - c\n- d\n\n1. e\n2. f", "<ul><li>a<ul><li>b</li><li>c</li></ul></li><li>d</li></ul><ol><li>e</li><li>f</li></ol>"},
		"numbers go on":    {"3. a\n4. b", `<ol start="3"><li>a</li><li>b</li></ol>`},
		"text in an item":  {"- a\n\n  more\n\nafter", "<ul><li>a<p>more</p></li></ul><p>after</p>"},
		"code in an item":  {"- a\n  ```sh\n  x <y>\n\n    z\n  ```\n- b", "<ul><li>a<pre>x &lt;y&gt;\n\n  z\n</pre></li><li>b</li></ul>"},
		"two code blocks":  {"```\na\n```\n```\nb\n```", "<pre>a\n</pre><pre>b\n</pre>"},
		"quotes":           {"> a\n>\n>> b\n\nc", "<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote><p>c</p>"},
		"rule":             {"a\n\n---\nb", "<p>a</p><hr><p>b</p>"},
		"table":            {"| a | b |\n|---|---|\n| 1 | <x> |", `<div class="scroll"><table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>&lt;x&gt;</td></tr></table></div>`},
		"link":             {`see [the "docs"](https://evil.test/x?a=1&b=2)`, `<p>see <a href="https://evil.test/x?a=1&amp;b=2" rel="noopener noreferrer nofollow" title="https://evil.test/x?a=1&amp;b=2">the &#34;docs&#34;</a><small> (evil.test)</small></p>`},
		"mail":             {"[us](mailto:a@b.test)", `<p><a href="mailto:a@b.test" rel="noopener noreferrer nofollow" title="mailto:a@b.test">us</a><small> (a@b.test)</small></p>`},
		"autolink":         {"<https://a.test>", `<p><a href="https://a.test" rel="noopener noreferrer nofollow" title="https://a.test">https://a.test</a></p>`},
		"image":            {"![x](http://a.test/i.png)", `<p><small>image: </small><a href="http://a.test/i.png" rel="noopener noreferrer nofollow" title="http://a.test/i.png">x</a><small> (a.test)</small></p>`},
		"script link":      {"[x](javascript:alert(1)) [y](JAVASCRIPT&colon;alert) [z](data:text/html,x)", "<p>x<small> (javascript:alert(1))</small> y<small> (JAVASCRIPT:alert)</small> z<small> (data:text/html,x)</small></p>"},
		"own pages":        {"[x](/ui/sign-out) [y](//evil.test) [z](https://user@a.test)", "<p>x<small> (/ui/sign-out)</small> y<small> (//evil.test)</small> z<small> (https://user@a.test)</small></p>"},
		"link in a link":   {"[a [b](javascript:c)](https://d.test)", `<p><a href="https://d.test" rel="noopener noreferrer nofollow" title="https://d.test">a </a>b<small> (javascript:c)</small><small> (d.test)</small></p>`},
		"raw HTML":         {"a <b onclick=x>c</b>\n\n<script>\nx\n</script>\n<!-- y -->", "<p>a &lt;b onclick=x&gt;c&lt;/b&gt;</p><p>&lt;script&gt; x &lt;/script&gt; &lt;!-- y --&gt;</p>"},
		"entities":         {"&lt;img src=x&gt; &quot;", "<p>&lt;img src=x&gt; &#34;</p>"},
		"shown characters": {"a \u202e b \x1b[0m", `<p>a \u202e b \x1b[0m</p>`},
		"nothing":          {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := string(markdown.HTML(tt.src)); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// tags finds the tags of a page, and whatever a browser might take for the beginning of one.
var tags = regexp.MustCompile(`<[^>]*>?`)

// known are the only tags that HTML writes.
var known = regexp.MustCompile(`^<(/?(p|ul|ol|li|blockquote|pre|table|tr|th|td|div|strong|em|code|small|a)|hr|br|div class="scroll"|ol start="[0-9]+"|a href="(https?://|mailto:)[^"<>]*" rel="noopener noreferrer nofollow" title="[^"<>]*")>$`)

func FuzzHTML(f *testing.F) {
	f.Add(sample)
	f.Add("> - 1. [a](https://x.test/\"onclick=x) <https://y.test> | `z\n~~~\n\x1b</pre>")
	f.Add("| a | [b](mailto:c@d) |\n|-|-|\n  - ![e](javascript:f)")
	f.Fuzz(func(t *testing.T, src string) {
		got := string(markdown.HTML(src))
		var open []string
		for _, tag := range tags.FindAllString(got, -1) {
			if !known.MatchString(tag) {
				t.Fatalf("%q gives the tag %q", src, tag)
			}
			name := strings.Trim(strings.Fields(tag)[0], "</>")
			switch {
			case name == "hr" || name == "br":
			case tag[1] != '/':
				open = append(open, name)
			case len(open) == 0 || open[len(open)-1] != name:
				t.Fatalf("%q gives %q, in which %q closes nothing", src, got, tag)
			default:
				open = open[:len(open)-1]
			}
		}
		if len(open) > 0 {
			t.Fatalf("%q leaves %q open", src, open)
		}
		for _, c := range got {
			if c != '\n' && (c < ' ' || c >= 0x7f && c < 0xa0 || c == 0x202e || c == 0x200b) {
				t.Fatalf("%q gives the character %U", src, c)
			}
		}
	})
}
