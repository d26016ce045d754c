package redact

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// keyRule is one published format of keys. The generated ones are in keyRules.
type keyRule struct {
	id      string
	pattern string
	entropy float64  // the least Shannon entropy of a key, in bits a character; 0: any
	group   int      // of the pattern that is the key; 0: the longest one, or the whole match
	hints   []string // in lower case; the pattern runs only near one of them
	allow   []string // patterns of keys that are examples
}

// privateKey is the rule of private keys in PEM. It is the only one whose keys have several lines.
const privateKey = "private-key"

// The parts of a private key in a text: what stands between two of its lines, in quotes and with signs of other languages, or
// after what tools write before each line of a file: its number, its name, or a sign of a comment, quote or difference.
const (
	keySpace  = `[\s"'+,\\]`
	linePart  = `(?:[ \t]*(?:[^\s:"\\]+[:-])?L?\d{1,7}(?:(?:[:|\t→-]|\\t) ?| \| ?)|[^\s:"\\]+: ?|[ \t]*[-<>|#*/]{1,3} ?)`
	keyLine   = `(?:\n|\\n)` + linePart
	keyNext   = `(?:` + keySpace + `{1,20}|` + keySpace + `{0,20}` + keyLine + `)`
	keyBase64 = `[A-Za-z0-9+/=]`
)

// ownRules are formats that the generated rules lack.
var ownRules = []keyRule{
	{privateKey, `-----BEGIN [A-Z0-9 ]{0,60}PRIVATE KEY(?: BLOCK)?-----` +
		`(?:(?:` + keySpace + `+|` + keySpace + `*` + keyLine + `)[A-Za-z-]{1,40}: [^\r\n\\"]{1,200})*` +
		keySpace + `*(?:` + keyLine + keySpace + `*){0,2}` + keyBase64 + `{40,}(?:` + keyNext + keyBase64 + `{16,})*` +
		`(?:(?:` + keyNext + keyBase64 + `{1,16}){0,2}` + keySpace + `{0,20}(?:` + keyLine + `)?n?-----END [A-Z0-9 ]{0,60}PRIVATE KEY(?: BLOCK)?-----)?`, 0, 0, []string{"-----begin"}, nil},
	{"atlassian-api-token", `\b(ATATT3[A-Za-z0-9_\-=]{186})`, 3.5, 0, []string{"atatt3"}, nil},
}

// Before and after a hint, a key has at most so many bytes.
const (
	beforeHint    = 256
	afterHint     = 4 << 10
	afterKeyBegin = 16 << 10 // of a private key
)

// Keys replaces the known formats of keys in a text by markers such as [redacted:github-pat], and returns the rules that
// matched, each once. Unlike [Redactor.Text] it leaves text alone that only resembles a secret. The rest stays byte for byte,
// also of binary data.
func Keys(s string) (text string, rules []string) {
	return maskSpans(s, findKeys(s))
}

// KeyNote is a note with the rules of [Keys] that masked something, and the source of the output unless of is "". Without
// rules it is "".
func KeyNote(rules []string, of string) string {
	if len(rules) == 0 {
		return ""
	}
	if of != "" {
		of = " of " + of
	}
	rules = slices.Compact(slices.Sorted(slices.Values(rules)))
	return "remit: masked keys in the output" + of + " (rules: " + strings.Join(rules, ", ") + ")"
}

// span is a key in a text.
type span struct {
	from, to int
	rule     string
}

func maskSpans(s string, spans []span) (text string, rules []string) {
	if len(spans) == 0 {
		return s, nil
	}
	var b strings.Builder
	at := 0
	for _, k := range spans {
		b.WriteString(s[at:k.from])
		b.WriteString(marker(k.rule))
		at = k.to
		if !slices.Contains(rules, k.rule) {
			rules = append(rules, k.rule)
		}
	}
	b.WriteString(s[at:])
	return b.String(), rules
}

// findKeys returns the keys of a text in their order. They do not overlap.
func findKeys(s string) []span {
	var out []span
	for rule, windows := range keyRulesIndex().windows(s) {
		for _, w := range windows {
			out = rule.find(s, w, out)
		}
	}
	slices.SortFunc(out, func(a, b span) int {
		return cmp.Or(a.from-b.from, b.to-a.to, strings.Compare(a.rule, b.rule))
	})
	kept := out[:0]
	for _, k := range out {
		if n := len(kept); n > 0 && k.from < kept[n-1].to {
			kept[n-1].to = max(kept[n-1].to, k.to)
		} else {
			kept = append(kept, k)
		}
	}
	return kept
}

// compiledRule is a rule whose patterns are compiled at the first use.
type compiledRule struct {
	*keyRule
	re    func() *regexp.Regexp
	allow []func() *regexp.Regexp
}

// find adds the keys of one window.
func (r *compiledRule) find(s string, w [2]int, out []span) []span {
	part := s[w[0]:w[1]]
	for _, m := range r.re().FindAllStringSubmatchIndex(part, -1) {
		from, to := r.key(m)
		key := part[from:to]
		if entropy(key) < r.entropy || slices.ContainsFunc(r.allow, func(re func() *regexp.Regexp) bool { return re().MatchString(key) }) {
			continue
		}
		from, to = from+w[0], to+w[0]
		for to == w[1] && to < len(s) && keyByte(s[to]) { // longer than a window
			to++
			w[1]++
		}
		out = append(out, span{from, to, r.id})
	}
	return out
}

// key is the part of a match that is the key: a group that has most of it, or all of it.
func (r *compiledRule) key(m []int) (from, to int) {
	if g := 2 * r.group; g > 0 && m[g] >= 0 {
		return m[g], m[g+1]
	}
	from, to = m[0], m[1]
	for g := 2; g < len(m); g += 2 {
		if m[g] >= 0 && 2*(m[g+1]-m[g]) >= m[1]-m[0] {
			return m[g], m[g+1]
		}
	}
	return from, to
}

func keyByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || strings.IndexByte("+/=_-.", c) >= 0
}

// entropy is the Shannon entropy of a text, in bits a byte.
func entropy(s string) float64 {
	var count [256]int
	for i := range len(s) {
		count[s[i]]++
	}
	bits := 0.0
	for _, n := range count {
		if n > 0 {
			p := float64(n) / float64(len(s))
			bits -= p * math.Log2(p)
		}
	}
	return bits
}

// hintIndex finds the hints of all rules in one pass.
type hintIndex struct {
	byPair [1 << 16]uint8 // one more than the index in lists, by the first two bytes in lower case
	lists  [][]hint
}

type hint struct {
	text string
	rule *compiledRule
}

// keyRulesIndex is the index of all rules. It is made when a text is first searched.
var keyRulesIndex = sync.OnceValue(func() *hintIndex {
	x := &hintIndex{}
	for _, rules := range [][]keyRule{ownRules, keyRules} {
		for i := range rules {
			r := &compiledRule{keyRule: &rules[i], re: lazy(rules[i].pattern)}
			for _, pattern := range rules[i].allow {
				r.allow = append(r.allow, lazy(pattern))
			}
			for _, h := range r.hints {
				pair := int(h[0])<<8 | int(h[1])
				if x.byPair[pair] == 0 {
					x.lists = append(x.lists, nil)
					x.byPair[pair] = uint8(len(x.lists)) //nolint:gosec // there are fewer pairs than rules
				}
				at := x.byPair[pair] - 1
				x.lists[at] = append(x.lists[at], hint{h, r})
			}
		}
	}
	return x
})

// windows returns the parts of a text that the patterns of rules run on: the surroundings of each hint, in its line. They do
// not overlap, so the work is linear.
func (x *hintIndex) windows(s string) map[*compiledRule][][2]int {
	var out map[*compiledRule][][2]int
	var last byte
	for i := range len(s) {
		c := s[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		pair := int(last)<<8 | int(c)
		last = c
		if x.byPair[pair] == 0 {
			continue
		}
		for _, h := range x.lists[x.byPair[pair]-1] {
			at := i - 1
			if len(h.text) > 2 && (i+1 == len(s) || s[i+1]|0x20 != h.text[2]|0x20) {
				continue
			}
			if len(s)-at >= len(h.text) && strings.EqualFold(s[at:at+len(h.text)], h.text) {
				if out == nil {
					out = map[*compiledRule][][2]int{}
				}
				out[h.rule] = addWindow(out[h.rule], s, at, h.rule.id == privateKey)
			}
		}
	}
	return out
}

// addWindow adds the window around a hint, or makes the last window longer.
func addWindow(list [][2]int, s string, at int, lines bool) [][2]int {
	n := len(list)
	if n > 0 && at < list[n-1][1]-afterHint/2 && !lines {
		return list
	}
	from, to := max(0, at-beforeHint), min(len(s), at+afterHint)
	if lines {
		from, to = at, min(len(s), at+afterKeyBegin)
	} else {
		if nl := strings.LastIndexByte(s[from:at], '\n'); nl >= 0 {
			from += nl + 1
		}
		if nl := strings.IndexByte(s[at:to], '\n'); nl >= 0 {
			to = at + nl
		}
	}
	if n > 0 && from < list[n-1][1] {
		list[n-1][1] = max(list[n-1][1], to)
		return list
	}
	return append(list, [2]int{from, to})
}
