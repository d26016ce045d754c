package markdown

import (
	"html"
	"html/template"
	"net/url"
	"strings"
)

// HTML renders a text as HTML that is safe to show on a page. It has paragraphs, lists, quotes,
// code, tables and links, and neither headings, IDs nor images: the text cannot pass for a part
// of the page. Links lead to http, https and mailto only, with the host beside them.
func HTML(src string) template.HTML {
	w := &writer{}
	p := parser{emit: w.block}
	for line := range strings.SplitSeq(src, "\n") {
		p.line(line)
	}
	p.flush()
	w.closeCode()
	w.closeLists(0)
	w.quotes(0)
	return template.HTML(w.out.String()) //nolint:gosec // every text in it is escaped, every tag is one of this file
}

// writer writes blocks as HTML.
type writer struct {
	out   strings.Builder
	quote int    // open quotes
	lists []list // open lists, from the outermost, each with an open item
	code  bool   // a code block is open
}

// list is an open list.
type list struct {
	tag    string
	indent int // of its marks
}

func (w *writer) tag(name string) { w.out.WriteString("<" + name + ">") }

// block writes one block.
func (w *writer) block(b block) {
	if b.kind != codeLine || b.apart {
		w.closeCode()
	}
	if b.quote != w.quote {
		w.closeCode()
		w.closeLists(0)
		w.quotes(b.quote)
	}
	if b.kind == item {
		w.item(b)
		return
	}
	if !w.code {
		w.leave(b.indent)
	}
	switch b.kind {
	case codeLine:
		if !w.code {
			w.code = true
			w.tag("pre")
		}
		w.out.WriteString(html.EscapeString(textOf(b.spans)) + "\n")
	case rule:
		w.tag("hr")
	case table:
		w.table(b.rows)
	default:
		if b.kind == heading {
			b.spans = restyle(b.spans, Strong)
		}
		w.tag("p")
		w.spans(b.spans)
		w.tag("/p")
	}
}

func (w *writer) closeCode() {
	if w.code {
		w.code = false
		w.tag("/pre")
	}
}

// quotes opens and closes quotes, until so many are open.
func (w *writer) quotes(depth int) {
	for ; w.quote < depth; w.quote++ {
		w.tag("blockquote")
	}
	for ; w.quote > depth; w.quote-- {
		w.tag("/blockquote")
	}
}

// closeLists closes all but the outermost n lists.
func (w *writer) closeLists(n int) {
	for ; len(w.lists) > n; w.lists = w.lists[:len(w.lists)-1] {
		w.tag("/li")
		w.tag("/" + w.lists[len(w.lists)-1].tag)
	}
}

// leave closes the lists that a block with this indent is not part of.
func (w *writer) leave(indent int) {
	n := len(w.lists)
	for n > 0 && w.lists[n-1].indent >= indent {
		n--
	}
	w.closeLists(n)
}

// item begins an item, in the list that it belongs to.
func (w *writer) item(b block) {
	l := list{"ul", b.indent}
	if !isBullet(b.mark) {
		l.tag = "ol"
	}
	n := len(w.lists)
	for n > 0 && w.lists[n-1].indent > b.indent+1 {
		n--
	}
	w.closeLists(n)
	switch {
	case n > 0 && b.indent < w.lists[n-1].indent+2 && w.lists[n-1].tag == l.tag:
		w.out.WriteString("</li><li>")
	default:
		if n > 0 && b.indent < w.lists[n-1].indent+2 {
			w.closeLists(n - 1)
		}
		w.lists = append(w.lists, l)
		if start := strings.TrimLeft(strings.TrimRight(b.mark, ".)"), "0"); l.tag == "ol" && start != "1" && start != "" {
			w.out.WriteString(`<ol start="` + start + `"><li>`)
		} else {
			w.out.WriteString("<" + l.tag + "><li>")
		}
	}
	w.spans(b.spans)
}

func (w *writer) table(rows [][][]span) {
	w.out.WriteString(`<div class="scroll"><table>`)
	for i, row := range rows {
		cell := "td"
		if i == 0 {
			cell = "th"
		}
		w.tag("tr")
		for _, spans := range row {
			w.tag(cell)
			w.spans(spans)
			w.tag("/" + cell)
		}
		w.tag("/tr")
	}
	w.out.WriteString("</table></div>")
}

// styleTags are the elements of styles.
var styleTags = map[Style]string{Strong: "strong", Emphasis: "em", Code: "code", Faint: "small"}

// spans writes a line of text.
func (w *writer) spans(spans []span) {
	open := "" // the target of the open link
	for _, s := range spans {
		to := linkTo(s.to)
		if to != open || s.beside {
			if open != "" {
				w.tag("/a")
			}
			if open = ""; to != "" && !s.beside {
				open = to
				w.out.WriteString(`<a href="` + html.EscapeString(to) + `" rel="noopener noreferrer nofollow" title="` + html.EscapeString(to) + `">`)
			}
		}
		text := s.text
		if host := hostOf(to); s.beside && host != "" {
			text = " (" + host + ")"
		}
		if text == "\n" {
			w.tag("br")
			continue
		}
		if tag := styleTags[s.style]; tag != "" {
			w.out.WriteString("<" + tag + ">" + html.EscapeString(text) + "</" + tag + ">")
			continue
		}
		w.out.WriteString(html.EscapeString(text))
	}
	if open != "" {
		w.tag("/a")
	}
}

// linkTo gives the address that a link may lead to; "": none.
func linkTo(target string) string {
	u, err := url.Parse(target)
	if err != nil || u.User != nil {
		return ""
	}
	switch {
	case (u.Scheme == "http" || u.Scheme == "https") && u.Host != "", u.Scheme == "mailto" && u.Opaque != "":
		return u.String()
	}
	return ""
}

// hostOf gives the host of an address that linkTo gave, to be shown beside a link.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || address == "" {
		return ""
	}
	if u.Scheme == "mailto" {
		return u.Opaque
	}
	return u.Host
}
