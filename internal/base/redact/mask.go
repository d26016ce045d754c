package redact

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Mask replaces known secret values with markers: plain, in URLs, JSON, hexadecimal,
// and in Base64, also within other encoded text. Of a value of several lines each
// longer line counts. Other encodings are not found: a mask stops accidents, not a
// process that wants to reveal a secret.
//
// Unlike a [Redactor] it knows values and ignores text that only looks like a secret.
// It is safe for concurrent use. The zero Mask knows nothing.
type Mask struct {
	mu    sync.Mutex
	known map[string]string // names by value
	found atomic.Pointer[finder]
}

type finder struct {
	spelled  []string // longest first
	replacer *strings.Replacer
}

// Add makes a value known by a name, which markers show. One of fewer than 8
// bytes is too common a word, and is not searched for.
func (m *Mask) Add(name, value string) { m.AddAll(map[string]string{name: value}) }

// AddAll adds values by name. Earlier values stay.
func (m *Mask) AddAll(values map[string]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	changed := false
	for name, v := range values {
		if _, there := m.known[v]; there || len(strings.TrimSpace(v)) < minSecret {
			continue
		}
		if m.known == nil {
			m.known = map[string]string{}
		}
		m.known[v], changed = name, true
	}
	if changed {
		m.found.Store(m.finder())
	}
}

func (m *Mask) finder() *finder {
	by := map[string]string{} // markers by spelling
	for value, name := range m.known {
		for _, s := range maskSpellings(value) {
			mark := "[secret:" + name + "]"
			if strings.Contains(mark, s) {
				mark = "***" // else it would never be gone
			}
			if old, twice := by[s]; !twice || mark < old {
				by[s] = mark
			}
		}
	}
	f := &finder{}
	for s := range by {
		f.spelled = append(f.spelled, s)
	}
	slices.SortFunc(f.spelled, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	pairs := make([]string, 0, 2*len(f.spelled))
	for _, s := range f.spelled {
		pairs = append(pairs, s, by[s])
	}
	f.replacer = strings.NewReplacer(pairs...)
	return f
}

// Active reports whether any value is known.
func (m *Mask) Active() bool { return m != nil && m.found.Load() != nil }

// Holds reports whether a text contains a known value.
func (m *Mask) Holds(s string) bool { return m.Active() && m.found.Load().holds(s) }

func (f *finder) holds(s string) bool {
	return slices.ContainsFunc(f.spelled, func(v string) bool { return strings.Contains(s, v) })
}

// Text puts markers in the place of known values. Text in which that makes
// others again and again is dropped as a whole.
func (m *Mask) Text(s string) string {
	if !m.Active() || len(s) < minSecret {
		return s
	}
	f := m.found.Load()
	for range 8 {
		if !f.holds(s) {
			return s
		}
		s = f.replacer.Replace(s)
	}
	return "***"
}

// minLine is the length in bytes from which one line of a value counts by itself.
const minLine = 16

// maskSpellings lists how a value may come back.
func maskSpellings(value string) []string {
	var out []string
	add := func(s string) {
		if len(s) >= minSecret && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	parts := []string{value, strings.TrimSpace(value)}
	if lines := strings.Split(value, "\n"); len(lines) > 1 {
		for _, l := range lines {
			if l = strings.TrimSpace(l); len(l) >= minLine && !strings.HasPrefix(l, "-----") {
				parts = append(parts, l)
			}
		}
	}
	for _, p := range parts {
		add(p)
		for _, s := range spellings(p) {
			add(s)
		}
		add(jsonText(p))
		for skip := range 3 {
			inner := innerBase64(p, skip)
			add(inner)
			add(strings.NewReplacer("+", "-", "/", "_").Replace(inner))
		}
	}
	return out
}

// jsonText is a text as JSON writers spell it that leave <, > and & as they are.
func jsonText(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return ""
	}
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(b.String()), `"`), `"`)
}

// innerBase64 is the part of a Base64 text that a value alone decides where it
// begins skip bytes after a multiple of three.
func innerBase64(s string, skip int) string {
	text := base64.RawStdEncoding.EncodeToString(append(make([]byte, skip), s...))
	first := (skip*8 + 5) / 6
	last := (skip + len(s)) * 8 / 6
	if first >= last {
		return ""
	}
	return text[first:last]
}
