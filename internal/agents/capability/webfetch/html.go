package webfetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/strikethrough"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"
)

// Bounds of pages that are converted to Markdown. Larger ones are given as plain text,
// which takes time in proportion to their length only.
const (
	maxHTML     = 4 << 20 // bytes
	maxDepth    = 200     // of nested elements
	maxNodes    = 200_000
	maxWork     = 20 << 20 // bytes, counted again for each quote, list and cell around them, which are written again for each
	maxSpan     = 100      // columns or rows of a cell
	maxMarkdown = 8 << 20  // bytes: nested lists and quotes indent every line again
	convertTime = 5 * time.Second
)

// errSlow ends a conversion that takes too long.
var errSlow = errors.New("the conversion takes too long")

// markdown converts a page. Comments, scripts, styles and other invisible parts are left
// out; relative links are resolved with the page's address.
func markdown(ctx context.Context, page, from string) (md string, err error) {
	if len(page) > maxHTML {
		return "", fmt.Errorf("the page has more than %d bytes", maxHTML)
	}
	ctx, cancel := context.WithTimeout(ctx, convertTime)
	defer cancel()
	defer func() {
		if v := recover(); v != nil { // from the parser at deep nesting, and from errSlow
			md, err = "", fmt.Errorf("the page cannot be parsed: %.100v", v)
		}
	}()
	doc, err := html.Parse(ending{ctx, strings.NewReader(page)})
	if err != nil {
		return "", fmt.Errorf("the page cannot be parsed: %.100q", err.Error())
	}
	if err := bounded(doc); err != nil {
		return "", err
	}
	conv := converter.NewConverter(converter.WithPlugins(base.NewBasePlugin(), commonmark.NewCommonmarkPlugin(), table.NewTablePlugin(), strikethrough.NewStrikethroughPlugin()))
	conv.Register.Renderer(func(_ converter.Context, w converter.Writer, _ *html.Node) converter.RenderStatus {
		if b, ok := w.(interface{ Len() int }); ctx.Err() != nil || ok && b.Len() > maxMarkdown {
			panic(errSlow)
		}
		return converter.RenderTryNext
	}, converter.PriorityEarly)
	conv.Register.UnEscaper(func([]byte, int) int { // some of the others read the rest of the line each time
		if ctx.Err() != nil {
			panic(errSlow)
		}
		return -1
	}, converter.PriorityEarly)
	out, err := conv.ConvertNode(doc, converter.WithDomain(from), converter.WithContext(ctx))
	if err != nil {
		return "", fmt.Errorf("the page cannot be converted: %.100q", err.Error())
	}
	return strings.TrimSpace(string(out)), nil
}

// ending is a reader that fails when its context ends.
type ending struct {
	ctx context.Context //nolint:containedctx // it exists for one parse
	r   io.Reader
}

func (e ending) Read(p []byte) (int, error) {
	if e.ctx.Err() != nil {
		return 0, errSlow
	}
	return e.r.Read(p[:min(len(p), 4096)])
}

// bounded refuses a page that is too deep, has too many parts, or repeats its content too
// often. It works without a stack, so that it bears any depth.
func bounded(doc *html.Node) error {
	nodes, depth, again, work := 0, 0, 0, 0
	for n := doc; ; {
		nodes++
		work += again * (len(n.Data) + 2*again)
		switch {
		case nodes > maxNodes:
			return fmt.Errorf("the page has more than %d parts", maxNodes)
		case work > maxWork:
			return errors.New("the quotes, lists or tables of the page are nested too deeply for its length")
		case spans(n):
			return fmt.Errorf("a table cell spans more than %d columns or rows", maxSpan)
		}
		if n.FirstChild != nil {
			if depth++; depth > maxDepth {
				return fmt.Errorf("the elements of the page are nested deeper than %d", maxDepth)
			}
			again += weight(n)
			n = n.FirstChild
			continue
		}
		for n != doc && n.NextSibling == nil {
			n = n.Parent
			again -= weight(n)
			depth--
		}
		if n == doc {
			return nil
		}
		n = n.NextSibling
	}
}

// weight is how often an element's content is written again.
func weight(n *html.Node) int {
	if n.Type == html.ElementNode && containsName(rewriting, n.Data) {
		return 1
	}
	return 0
}

// spans reports whether a cell spans more columns or rows than maxSpan.
func spans(n *html.Node) bool {
	if n.Type != html.ElementNode || n.Data != "td" && n.Data != "th" {
		return false
	}
	return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool {
		v, err := strconv.Atoi(strings.TrimSpace(a.Val))
		return (a.Key == "colspan" || a.Key == "rowspan") && (v > maxSpan || err != nil && len(a.Val) > 3)
	})
}

// Elements, for plain text: those with invisible content, those on lines of their own, and
// among them those with space around.
const (
	// Elements whose content is written again as Markdown.
	rewriting = " blockquote ul ol li table td th a b strong i em code pre h1 h2 h3 h4 h5 h6 del s strike "

	unseen = " script style noscript template iframe svg math textarea title "
	blocks = " address article aside br dd details div dl dt fieldset figcaption figure footer form header hr li main nav ol p pre section summary table tr ul body h1 h2 h3 h4 h5 h6 blockquote "
	spaced = " p h1 h2 h3 h4 h5 h6 blockquote pre ul ol table article section "
)

func containsName(list, name string) bool { return strings.Contains(list, " "+name+" ") }

// pageText returns the text of a page in one pass over its tags, however broken or deep the
// page is.
func pageText(page string) string {
	z := html.NewTokenizer(strings.NewReader(page))
	t := texter{}
	for {
		switch z.Next() {
		case html.ErrorToken:
			return t.String()
		case html.TextToken:
			t.text(string(z.Text()))
		case html.StartTagToken:
			name, _ := z.TagName()
			t.open(string(name))
		case html.SelfClosingTagToken:
			name, _ := z.TagName()
			t.edge(string(name))
		case html.EndTagToken:
			name, _ := z.TagName()
			t.close(string(name))
		}
	}
}

// texter collects text with the white space of the displayed page.
type texter struct {
	b      strings.Builder
	hidden string // the element that hides the text; "": none
	nested int    // how many of that element are open
	pre    int
	breaks int  // line breaks before the next text
	space  bool // a space before the next text
}

func (t *texter) text(s string) {
	if t.hidden != "" {
		return
	}
	if t.pre > 0 {
		t.flush()
		t.b.WriteString(strings.ReplaceAll(s, "\r\n", "\n"))
		return
	}
	for i, word := range strings.Fields(s) {
		if i > 0 || strings.IndexFunc(s, notSpace) > 0 {
			t.space = true
		}
		t.flush()
		t.b.WriteString(word)
	}
	if trimmed := strings.TrimRight(s, " \t\r\n\f"); len(trimmed) < len(s) {
		t.space = true
	}
}

func notSpace(r rune) bool { return !strings.ContainsRune(" \t\r\n\f", r) }

// flush writes the white space before the next text.
func (t *texter) flush() {
	switch {
	case t.b.Len() == 0:
	case t.breaks > 0:
		t.b.WriteString(strings.Repeat("\n", t.breaks))
	case t.space:
		t.b.WriteByte(' ')
	}
	t.breaks, t.space = 0, false
}

func (t *texter) edge(name string) {
	switch {
	case containsName(spaced, name):
		t.breaks = 2
	case containsName(blocks, name):
		t.breaks = max(t.breaks, 1)
	case name == "td" || name == "th":
		t.space = true
	}
}

func (t *texter) open(name string) {
	switch {
	case t.hidden == name:
		t.nested++
	case t.hidden != "":
	case containsName(unseen, name):
		t.hidden, t.nested = name, 1
	default:
		t.edge(name)
		if name == "pre" {
			t.pre++
		}
		if name == "li" {
			t.flush()
			t.b.WriteString("- ")
		}
	}
}

func (t *texter) close(name string) {
	switch {
	case t.hidden == name:
		if t.nested--; t.nested == 0 {
			t.hidden = ""
		}
	case t.hidden != "":
	default:
		t.edge(name)
		if name == "pre" {
			t.pre = max(t.pre-1, 0)
		}
	}
}

func (t *texter) String() string { return strings.TrimSpace(t.b.String()) }
