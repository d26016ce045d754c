package redact

import (
	"cmp"
	"math"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"
)

// keyRule is one published format of keys. The generated ones are in keyRules.
type keyRule struct {
	id      string
	pattern string // of the key alone; it matches no white space, quotes or backslashes
	word    bool   // the key begins where a word begins
	end     keyEnd
	entropy float64  // the least Shannon entropy of a key, in bits a character; 0: any
	hints   []string // in lower case; the key begins with one of them, unless start or at says otherwise
	start   string   // begins the key, before the hint
	at      int      // the hint's place in the key
	allow   []string // patterns of keys that are examples
}

// keyEnd has the characters that join a key with the word behind it: the longer text is not a key.
type keyEnd string

const (
	anyEnd    keyEnd = "" // anything can follow the key, also a letter
	wordEnd   keyEnd = "-"
	base64End keyEnd = "-+/="
)

// privateKey is the rule of private keys in PEM. It is the only one whose keys have several lines; see pemKey.
const privateKey = "private-key"

// Limits of a key, in bytes.
const (
	maxKey   = 4 << 10 // of a pattern without a limit of its own
	maxStart = 256     // between a key's start and its hint
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
	run := 0 // where the characters of keys end that the last hint is among
	keyRulesIndex().each(s, func(at int, r *compiledRule) {
		if r.id == privateKey {
			if end, _ := pemKey(s[at:]); end > 0 {
				out = append(out, span{at, at + end, r.id})
			}
			return
		}
		for run = max(run, at); run < len(s) && keyByte(s[run]); run++ {
		}
		if from, to := r.find(s, at, run); to > 0 {
			out = append(out, span{from, to, r.id})
		}
	})
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
	re    func() keyPattern
	allow []func() *regexp.Regexp
}

// keyPattern matches a key at the beginning of a text.
type keyPattern struct {
	*regexp.Regexp
	max     int    // bytes of a key, and of one character behind it
	literal string // a part of each key; "": none is known
}

// compileKey compiles the pattern of a rule. Its length and literal save most runs of it.
func compileKey(pattern string) func() keyPattern {
	return sync.OnceValue(func() keyPattern {
		p := keyPattern{Regexp: regexp.MustCompile("^(?:" + pattern + ")"), max: maxKey}
		if tree, err := syntax.Parse(pattern, syntax.Perl); err == nil {
			p.max = min(p.max, longest(tree)+1)
			p.literal = literalWithin(tree.Simplify())
		}
		return p
	})
}

// longest is the length of the longest text that a pattern matches, at most maxKey.
func longest(re *syntax.Regexp) int {
	n := 0
	switch re.Op {
	case syntax.OpLiteral:
		n = len(re.Rune)
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		n = 1
	case syntax.OpStar, syntax.OpPlus:
		n = maxKey
	case syntax.OpRepeat:
		if n = maxKey; re.Max >= 0 {
			n = re.Max * longest(re.Sub[0])
		}
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			n = max(n, longest(sub))
		}
	default:
		for _, sub := range re.Sub {
			n += longest(sub)
		}
	}
	return min(n, maxKey)
}

// literalWithin is the last literal text of a pattern that is not its beginning.
func literalWithin(re *syntax.Regexp) string {
	for re.Op == syntax.OpCapture {
		re = re.Sub[0]
	}
	if re.Op != syntax.OpConcat {
		return ""
	}
	for _, sub := range slices.Backward(re.Sub[1:]) {
		if sub.Op == syntax.OpLiteral && sub.Flags&syntax.FoldCase == 0 {
			return string(sub.Rune)
		}
	}
	return ""
}

// find returns the key that has a hint at a place of a text, in a run of characters that ends at run; to is 0: there is none.
func (r *compiledRule) find(s string, at, run int) (from, to int) {
	from = at - r.at
	if r.start != "" {
		before := max(0, at-maxStart)
		if from = strings.LastIndex(s[before:at], r.start) + before; from < before {
			return 0, 0
		}
	}
	if from < 0 || r.word && !beginsWord(s[:from]) {
		return 0, 0
	}
	re := r.re()
	part := s[from:max(from, min(run, from+re.max))]
	if !strings.Contains(part, re.literal) {
		return 0, 0
	}
	m := re.FindStringIndex(part)
	if m == nil || r.end.joins(s[from+m[1]:]) {
		return 0, 0
	}
	key := part[:m[1]]
	if entropy(key) < r.entropy || slices.ContainsFunc(r.allow, func(re func() *regexp.Regexp) bool { return re().MatchString(key) }) {
		return 0, 0
	}
	if to = from + m[1]; len(key) == maxKey {
		to = run
	}
	return from, to
}

// joins reports whether a key goes on in the text behind it.
func (e keyEnd) joins(after string) bool {
	if e == anyEnd || after == "" {
		return false
	}
	return wordByte(after[0]) || strings.IndexByte(string(e), after[0]) >= 0 && len(after) > 1 && wordByte(after[1])
}

// beginsWord reports whether a word can begin behind a text: also behind an escape or the code of a colour, which end with
// letters.
func beginsWord(before string) bool {
	n := len(before)
	if n == 0 || !wordByte(before[n-1]) {
		return true
	}
	for _, escape := range []string{`\x`, `\u`, `%`, `\0`} {
		digits := 2
		if escape == `\u` {
			digits = 4
		}
		if at := n - digits; at >= len(escape) && before[at-len(escape):at] == escape && strings.Trim(before[at:], "0123456789abcdefABCDEF") == "" {
			return true
		}
	}
	switch before[n-1] {
	case 'n', 'r', 't', 'b', 'f', 'v', 'a', 'e', '0':
		return n > 1 && before[n-2] == '\\'
	case 'm', 'K':
		return strings.HasSuffix(strings.TrimRight(before[max(0, n-maxColour):n-1], "0123456789;"), "[")
	}
	return false
}

// maxColour bounds the code of a colour, in bytes.
const maxColour = 24

func wordByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c == '_'
}

// keyByte reports whether a key can have the character.
func keyByte(c byte) bool { return wordByte(c) || strings.IndexByte("+/=-.~:@", c) >= 0 }

// entropy is the Shannon entropy of a text, in bits a byte.
func entropy(s string) float64 {
	var count [256]uint16 // a key is shorter
	for i := range len(s) {
		count[s[i]]++
	}
	bits := 0.0
	for i := range len(s) {
		if n := count[s[i]]; n > 0 {
			count[s[i]] = 0
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
			r := &compiledRule{keyRule: &rules[i], re: compileKey(rules[i].pattern)}
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

// each calls do with each hint in a text, in their order.
func (x *hintIndex) each(s string, do func(at int, r *compiledRule)) {
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
				do(at, h.rule)
			}
		}
	}
}
