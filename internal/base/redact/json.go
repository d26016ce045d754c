package redact

import (
	"bytes"
	"encoding/json"
	"strings"
)

// JSON replaces the secrets in a JSON text: in strings, in keys, and whole values
// under keys such as "password" or "Authorization". The rest stays byte for byte,
// including numbers and the order of keys. Valid JSON stays valid; anything else is
// treated as plain text.
func (r *Redactor) JSON(src []byte) []byte {
	if r != nil && r.off {
		return src
	}
	if !json.Valid(src) {
		return []byte(r.Text(string(src)))
	}
	w := &walker{r: r, src: src}
	w.out.Grow(len(src))
	w.value(false)
	w.space()
	return w.out.Bytes()
}

// Any replaces the secrets in a value of decoded JSON and returns a copy. Other types
// are converted to JSON first, with numbers as json.Number.
func (r *Redactor) Any(v any) any {
	src, err := json.Marshal(v)
	if err != nil {
		return marker("unprintable") // it cannot be looked into, so it is not shown
	}
	d := json.NewDecoder(bytes.NewReader(r.JSON(src)))
	d.UseNumber()
	var out any
	if d.Decode(&out) != nil {
		return marker("unprintable")
	}
	return out
}

// Key reports whether a field or header of this name is taken to hold a secret.
func Key(name string) bool {
	n := strings.Map(func(c rune) rune {
		switch {
		case c >= 'A' && c <= 'Z':
			return c + 'a' - 'A'
		case c == '-' || c == '_' || c == ' ' || c == '.':
			return -1
		}
		return c
	}, name)
	for _, end := range [...]string{"password", "passwd", "passphrase", "secret", "token", "apikey", "accesskey", "secretkey",
		"privatekey", "authorization", "cookie", "credential", "credentials", "secretaccesskey"} {
		if strings.HasSuffix(n, end) {
			return true
		}
	}
	return false
}

// walker copies valid JSON from src to out. It may rely on the validity.
type walker struct {
	r   *Redactor
	src []byte
	at  int
	out bytes.Buffer
}

// space copies white space.
func (w *walker) space() {
	for w.at < len(w.src) && strings.IndexByte(" \t\r\n", w.src[w.at]) >= 0 {
		w.out.WriteByte(w.src[w.at])
		w.at++
	}
}

// punct copies one punctuation mark and the white space around it.
func (w *walker) punct() byte {
	w.space()
	c := w.src[w.at]
	w.out.WriteByte(c)
	w.at++
	w.space()
	return c
}

// value copies one value; a secret one has its strings and numbers replaced.
func (w *walker) value(secret bool) {
	w.space()
	switch w.src[w.at] {
	case '{':
		w.object(secret)
	case '[':
		w.array(secret)
	case '"':
		raw, s := w.str()
		w.writeString(raw, s, secret)
	default:
		w.literal(secret)
	}
}

func (w *walker) object(secret bool) {
	w.punct()
	if w.src[w.at] == '}' {
		w.out.WriteByte('}')
		w.at++
		return
	}
	var p pair
	for {
		raw, key := w.str()
		w.writeString(raw, key, false)
		w.punct() // ':'
		w.member(&p, key, secret)
		w.space()
		c := w.src[w.at]
		w.out.WriteByte(c)
		w.at++
		if c == '}' {
			break
		}
		w.space()
	}
	if p.named && p.to > p.from {
		w.replace(p.from, p.to)
	}
}

// pair describes an object that may have the form {"name": "Authorization", "value":
// ...}, in either order.
type pair struct {
	named    bool
	from, to int // where in the output the value is
}

// names reports whether a field of this name is replaced, with any value.
func (w *walker) names(key string) bool { return w.r.formats() && Key(key) }

func (w *walker) member(p *pair, key string, secret bool) {
	if w.src[w.at] == '"' && (strings.EqualFold(key, "name") || strings.EqualFold(key, "key")) {
		raw, s := w.str()
		p.named = p.named || w.names(s)
		w.writeString(raw, s, secret)
		return
	}
	from := w.out.Len()
	w.value(secret || w.names(key))
	if strings.EqualFold(key, "value") {
		p.from, p.to = from, w.out.Len()
	}
}

// replace puts a marker in the place of a value already written.
func (w *walker) replace(from, to int) {
	if old := w.out.Bytes()[from:to]; old[0] != '"' && old[0] != '[' && old[0] != '{' && old[0] != '-' && (old[0] < '0' || old[0] > '9') {
		return // true, false, null
	} else if old[0] == '"' && bytes.Contains(old, []byte("[redacted:")) {
		var s string
		if json.Unmarshal(old, &s) == nil && secretMark(s) == s {
			return
		}
	}
	tail := bytes.Clone(w.out.Bytes()[to:])
	w.out.Truncate(from)
	w.writeText(marker("field"))
	w.out.Write(tail)
}

func (w *walker) array(secret bool) {
	w.punct()
	if w.src[w.at] == ']' {
		w.out.WriteByte(']')
		w.at++
		return
	}
	next := false // the element before names a secret, as in ["--token", "..."]
	for {
		w.space()
		if w.src[w.at] == '"' {
			raw, s := w.str()
			w.writeString(raw, s, secret || next)
			next = w.r.formats() && flagName(s)
		} else {
			w.value(secret || next)
			next = false
		}
		w.space()
		c := w.src[w.at]
		w.out.WriteByte(c)
		w.at++
		if c == ']' {
			return
		}
	}
}

// flagName reports whether a word is a flag or header name after which a secret
// follows as a word of its own.
func flagName(s string) bool {
	if len(s) > 40 {
		return false
	}
	flag := strings.HasPrefix(s, "--") && !strings.Contains(s, "=")
	header := strings.EqualFold(s, "authorization") || strings.EqualFold(s, "cookie") || strings.EqualFold(s, "x-api-key")
	return flag && Key(s) || header
}

// str reads one string: as written, and decoded.
func (w *walker) str() (raw []byte, s string) {
	start := w.at
	for w.at++; w.src[w.at] != '"'; w.at++ {
		if w.src[w.at] == '\\' {
			w.at++
		}
	}
	w.at++
	raw = w.src[start:w.at]
	if json.Unmarshal(raw, &s) != nil { // cannot be: the text was checked
		return []byte(`""`), ""
	}
	return raw, s
}

func (w *walker) writeString(raw []byte, s string, secret bool) {
	switch clean := w.r.Text(s); {
	case secret && s != "":
		w.writeText(secretMark(s))
	case clean != s:
		w.writeText(clean)
	case w.r.hide(string(raw)) != string(raw): // invalid UTF-8, or the spelling itself
		w.writeText(marker("env"))
	default:
		w.out.Write(raw)
	}
}

// secretMark keeps a marker that is there already, so that a second pass
// changes nothing.
func secretMark(s string) string {
	for _, k := range kinds() {
		if s == marker(k) {
			return s
		}
	}
	return marker("field")
}

// writeText writes s as a JSON string.
func (w *walker) writeText(s string) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(s) != nil { // cannot be: a string always has a JSON form
		w.out.WriteString(`""`)
		return
	}
	w.out.Write(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}

// literal copies a number, true, false or null.
func (w *walker) literal(secret bool) {
	start := w.at
	for w.at < len(w.src) && strings.IndexByte(" \t\r\n,]}", w.src[w.at]) < 0 {
		w.at++
	}
	raw := string(w.src[start:w.at])
	number := raw != "true" && raw != "false" && raw != "null"
	switch {
	case number && secret:
		w.writeText(marker("field"))
	case number && w.r.hide(raw) != raw:
		w.writeText(marker("env"))
	default:
		w.out.WriteString(raw)
	}
}
