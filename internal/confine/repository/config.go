package repository

import "strings"

// setting is one value in a file of settings. section and key are in lower case.
type setting struct{ section, sub, key, value string }

// parse reads settings as Git does. A line that Git does not accept is left out; Git then reads none of the file.
func parse(text string) (out []setting) {
	r := reader{text: strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n")}
	var at setting
	for {
		switch c := r.next(); {
		case c == 0:
			return out
		case isSpace(c):
		case c == '#' || c == ';':
			r.line()
		case c == '[':
			at = setting{}
			if at.section, at.sub = r.header(); at.section == "" {
				r.line()
			}
		default:
			r.at--
			s := at
			if key, value, ok := r.entry(); ok && at.section != "" {
				s.key, s.value = key, value
				out = append(out, s)
			}
		}
	}
}

// reader takes a text byte by byte; 0 is its end, or a byte that no setting has.
type reader struct {
	text string
	at   int
}

func (r *reader) next() byte {
	if r.at >= len(r.text) {
		r.at = len(r.text) + 1
		return 0
	}
	r.at++
	return r.text[r.at-1]
}

func (r *reader) back() { r.at-- }

// line leaves out the rest of a line.
func (r *reader) line() {
	for c := r.next(); c != '\n' && c != 0; c = r.next() {
	}
	r.back()
}

// header reads [section], [section.sub] or [section "sub"] behind the bracket.
func (r *reader) header() (section, sub string) {
	var name strings.Builder
	for {
		switch c := r.next(); {
		case c == ']':
			section, sub, _ = strings.Cut(strings.ToLower(name.String()), ".")
			return section, sub
		case c == ' ' || c == '\t':
			return r.quoted(strings.ToLower(name.String()))
		case isName(c) || c == '.':
			name.WriteByte(c)
		default:
			r.back()
			return "", ""
		}
	}
}

// quoted reads the name behind a section, up to the bracket.
func (r *reader) quoted(section string) (_, sub string) {
	c := r.next()
	for c == ' ' || c == '\t' {
		c = r.next()
	}
	var name strings.Builder
	for c == '"' {
		switch c := r.next(); c {
		case '\n', 0:
			r.back()
			return "", ""
		case '"':
			if r.next() == ']' {
				return section, name.String()
			}
			r.back()
			return "", ""
		case '\\':
			name.WriteByte(r.next())
		default:
			name.WriteByte(c)
		}
	}
	r.back()
	return "", ""
}

// entry reads a key and its value.
func (r *reader) entry() (key, value string, ok bool) {
	var name strings.Builder
	c := r.next()
	for ; isName(c); c = r.next() {
		name.WriteByte(c)
	}
	for c == ' ' || c == '\t' {
		c = r.next()
	}
	key = strings.ToLower(name.String())
	switch {
	case key == "":
		r.line()
		return "", "", false
	case c == '=':
		value, ok = r.value()
		return key, value, ok
	}
	r.back()
	r.line()
	return key, "true", true
}

// value reads up to the end of the line, which a backslash continues.
func (r *reader) value() (string, bool) {
	var out strings.Builder
	quote, spaces, ok := false, "", true
	for {
		c := r.next()
		switch {
		case c == 0, c == '\n':
			r.back()
			return out.String(), ok && !quote
		case !quote && (c == '#' || c == ';'):
			r.line()
			continue
		case !quote && isSpace(c):
			if out.Len() > 0 {
				spaces += string(c)
			}
			continue
		case c == '"':
			quote = !quote
			continue
		case c == '\\':
			if c = r.next(); c == '\n' {
				continue
			}
			if n := strings.IndexByte(`tbn\"`, c); n >= 0 {
				c = "\t\b\n\\\""[n]
			} else {
				ok = false
			}
		}
		out.WriteString(spaces)
		out.WriteByte(c)
		spaces = ""
	}
}

func isSpace(c byte) bool {
	return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v'
}

func isName(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-'
}
