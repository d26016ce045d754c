package markdown

import (
	"html"
	"strings"
	"unicode"
	"unicode/utf8"
)

// span is safe text in one style.
type span struct {
	text   string
	style  Style
	to     string // the target of the link that it is part of; "": none
	beside bool   // it is that target, beside the link
}

// maxLabel is the longest text or target of a link.
const maxLabel = 2000

// reader reads the inline marks of a text.
type reader struct {
	src   string
	at    int
	style Style
	open  []string // marks of emphasis that are open
	plain strings.Builder
	out   []span
}

// inline reads emphasis, code and links.
func inline(src string, style Style) []span {
	r := &reader{src: src, style: style}
	for r.at < len(r.src) {
		if !r.code() && !r.link() && !r.autolink() && !r.emphasis() {
			r.char()
		}
	}
	r.end()
	return r.out
}

// end completes the plain text that was read so far.
func (r *reader) end() {
	if r.plain.Len() > 0 {
		r.out = append(r.out, span{text: shown(html.UnescapeString(r.plain.String())), style: r.current()})
		r.plain.Reset()
	}
}

// current is the style of plain text.
func (r *reader) current() Style {
	style := r.style
	for _, mark := range r.open {
		switch {
		case len(mark) == 2:
			style = Strong
		case style != Strong:
			style = Emphasis
		}
	}
	return style
}

// char takes one character as it is; a backslash takes its meaning from punctuation.
func (r *reader) char() {
	c, n := utf8.DecodeRuneInString(r.src[r.at:])
	if c == '\\' && r.at+1 < len(r.src) && strings.IndexByte("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", r.src[r.at+1]) >= 0 {
		r.at++
		n = 1
	}
	r.plain.WriteString(r.src[r.at : r.at+n])
	r.at += n
}

// code takes a code span.
func (r *reader) code() bool {
	rest := r.src[r.at:]
	n := len(rest) - len(strings.TrimLeft(rest, "`"))
	if n == 0 {
		return false
	}
	mark := rest[:n]
	for from := n; ; {
		i := strings.Index(rest[from:], mark)
		if i < 0 {
			r.plain.WriteString(mark)
			r.at += n
			return true
		}
		i += from
		to := i + n
		for to < len(rest) && rest[to] == '`' {
			to++
		}
		if to == i+n {
			r.end()
			r.out = append(r.out, span{text: shown(strings.TrimSpace(rest[n:i])), style: Code})
			r.at += to
			return true
		}
		from = to
	}
}

// link takes a link or an image, and shows its target beside its text.
func (r *reader) link() bool {
	rest := r.src[r.at:]
	image := strings.HasPrefix(rest, "![")
	if image {
		rest = rest[1:]
	}
	label, after, ok := bracketed(rest, '[', ']')
	if !ok {
		return false
	}
	inside, after, ok := bracketed(after, '(', ')')
	if !ok {
		return false
	}
	r.end()
	target, _, _ := strings.Cut(strings.TrimSpace(inside), " ")
	target = shown(html.UnescapeString(strings.Trim(target, "<>")))
	if image {
		r.out = append(r.out, span{text: "image: ", style: Faint})
	}
	text := inline(label, r.current())
	for i := range text {
		if text[i].to == "" {
			text[i].to = target
		}
	}
	r.out = append(r.out, text...)
	if textOf(text) != target {
		r.out = append(r.out, span{text: " (" + target + ")", style: Faint, to: target, beside: true})
	}
	r.at = len(r.src) - len(after)
	return true
}

// bracketed splits a text that begins with a pair of brackets.
func bracketed(text string, open, closing byte) (inside, after string, ok bool) {
	if text == "" || text[0] != open {
		return "", "", false
	}
	depth := 0
	for i := 0; i < min(len(text), maxLabel); i++ {
		switch text[i] {
		case '\\':
			i++
		case open:
			depth++
		case closing:
			if depth--; depth == 0 {
				return text[1:i], text[i+1:], true
			}
		}
	}
	return "", "", false
}

func textOf(spans []span) string {
	var b strings.Builder
	for _, s := range spans {
		b.WriteString(s.text)
	}
	return b.String()
}

// autolink takes <https://…>.
func (r *reader) autolink() bool {
	rest := r.src[r.at:]
	if !strings.HasPrefix(rest, "<http://") && !strings.HasPrefix(rest, "<https://") && !strings.HasPrefix(rest, "<mailto:") {
		return false
	}
	end := strings.IndexAny(rest[:min(len(rest), maxLabel)], "> ")
	if end < 0 || rest[end] != '>' {
		return false
	}
	r.end()
	target := shown(rest[1:end])
	r.out = append(r.out, span{text: target, style: r.current(), to: target})
	r.at += end + 1
	return true
}

// emphasis takes a mark of emphasis that opens or closes some.
func (r *reader) emphasis() bool {
	rest := r.src[r.at:]
	if rest[0] != '*' && rest[0] != '_' {
		return false
	}
	mark := rest[:1]
	if strings.HasPrefix(rest, mark+mark) {
		mark = rest[:2]
	}
	before, _ := utf8.DecodeLastRuneInString(r.src[:r.at])
	after, _ := utf8.DecodeRuneInString(rest[len(mark):])
	if n := len(r.open); n > 0 && r.open[n-1] == mark && !unicode.IsSpace(before) && (mark[0] == '*' || !isWord(after)) {
		r.end()
		r.open = r.open[:n-1]
		r.at += len(mark)
		return true
	}
	opens := after != utf8.RuneError && !unicode.IsSpace(after) && (mark[0] == '*' || !isWord(before)) && len(r.open) < 4
	if !opens || !strings.Contains(rest[len(mark):], mark) {
		r.plain.WriteString(mark)
	} else {
		r.end()
		r.open = append(r.open, mark)
	}
	r.at += len(mark)
	return true
}

func isWord(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) }

func restyle(spans []span, s Style) []span {
	for i := range spans {
		if spans[i].style == Plain {
			spans[i].style = s
		}
	}
	return spans
}
