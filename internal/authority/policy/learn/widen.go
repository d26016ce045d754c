package learn

import (
	"encoding/json"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/base/regex"
)

// Widening is something that a learned policy allows beyond the recorded uses.
type Widening struct {
	Entry    string `json:"entry"`              // the entry on one line, as `files.read "notes/*.md"`
	Argument string `json:"argument,omitempty"` // of a tool; "" if the entry itself is widened
	Seen     string `json:"seen"`               // what the runs used
	Allows   string `json:"allows"`             // the newly allowed values
}

// width is a constraint that allows more than the values that were seen.
type width struct {
	text   string // as a policy writes it, without braces
	allows string
}

// values are the values of one argument in the calls of a tool.
type values struct {
	distinct []any
	seen     map[string]bool // by their canonical text
}

func (v *values) add(value any) {
	key := printValue(value)
	if v.seen[key] {
		return
	}
	if v.seen == nil {
		v.seen = map[string]bool{}
	}
	v.seen[key] = true
	v.distinct = append(v.distinct, value)
}

// shown names up to three values for people.
func (b *builder) shownValues(list []any) string {
	var out []string
	for _, v := range list[:min(len(list), several)] {
		out = append(out, b.looks.mask(printValue(v)))
	}
	if more := len(list) - len(out); more > 0 {
		out = append(out, strconv.Itoa(more)+" more")
	}
	return strings.Join(out, ", ")
}

// width gives the constraint to which an argument is widened, nil if it is pinned to
// the values that were seen.
func (b *builder) width(t traits, name string, list []any) *width {
	r := roleOf(name)
	if r == program || len(list) == 0 {
		return nil
	}
	if texts, ok := allOf[string](list); ok {
		return b.textWidth(t, r, texts)
	}
	if numbers, ok := allOf[json.Number](list); ok {
		return numberWidth(t, r, numbers, len(list))
	}
	if _, ok := allOf[bool](list); ok && t.reads {
		return &width{"one_of: [true, false]", "true and false"}
	}
	if lists, ok := allOf[[]any](list); ok && t.reads {
		return b.listWidth(t, r, lists)
	} else if ok && r == party && !t.pays && !t.destroys {
		return b.partyWidth(lists)
	}
	return nil
}

func allOf[T any](list []any) ([]T, bool) {
	out := make([]T, 0, len(list))
	for _, v := range list {
		w, ok := v.(T)
		if !ok {
			return nil, false
		}
		out = append(out, w)
	}
	return out, true
}

// textWidth widens texts. In a tool that only reads, every text except places may
// vary. In other tools only dates, text for people and, if several were used,
// identifiers may.
func (b *builder) textWidth(t traits, r role, list []string) *width {
	if slices.ContainsFunc(list, func(s string) bool { return !utf8.ValidString(s) || b.looks.isSecret(s) }) {
		return nil
	}
	dated := !slices.ContainsFunc(list, func(s string) bool { return !moment.MatchString(s) })
	switch {
	case dated:
		return shape(list)
	case t.reads:
		if r == place || slices.ContainsFunc(list, func(s string) bool { return absolute.MatchString(s) || t.sends && located.MatchString(s) }) {
			return onePlace(list)
		}
		if numbered(list) {
			if w := shape(list); w != nil {
				return w
			}
		}
		if t.sends {
			return plainText(list, 200)
		}
		return &width{"max_length: " + strconv.Itoa(roomFor(list, 200)), "any text of up to " + strconv.Itoa(roomFor(list, 200)) + " characters"}
	case r == words, r == subject && !t.destroys && sentences(list):
		return plainText(list, 2000)
	case r == identifier && !t.destroys && !t.pays && len(list) >= several && numbered(list):
		return shape(list)
	}
	return nil
}

// absolute finds texts that name a place in an argument of any name.
var absolute = regex.Lazy(`^(?:[A-Za-z][A-Za-z0-9+.-]*://|//|www\.|~|\.{0,2}/)|\\`)

// numbered reports whether all texts have a digit and no space, as identifiers do.
func numbered(list []string) bool {
	return !slices.ContainsFunc(list, func(s string) bool {
		return !strings.ContainsAny(s, "0123456789") || strings.ContainsAny(s, " \t\r\n") || len(s) > 80
	})
}

// sentences reports whether all texts have at least six words, as no name has.
func sentences(list []string) bool {
	return !slices.ContainsFunc(list, func(s string) bool { return len(strings.Fields(s)) < 6 })
}

// roomFor is a length that has room for texts like these.
func roomFor(list []string, least int) int {
	most := 0
	for _, s := range list {
		most = max(most, utf8.RuneCountInString(s))
	}
	return max(least, (2*most+99)/100*100)
}

// numberWidth widens amounts to the range from nothing to the largest one, and numbers
// of a tool that only reads to the next power of ten.
func numberWidth(t traits, r role, list []json.Number, distinct int) *width {
	low, high := list[0], list[0]
	for _, n := range list {
		v, err := n.Float64()
		if err != nil || math.Abs(v) > 1e15 {
			return nil
		}
		if l, _ := low.Float64(); v < l { // read before
			low = n
		}
		if h, _ := high.Float64(); v > h {
			high = n
		}
	}
	l, _ := low.Float64() // both were read
	h, _ := high.Float64()
	pinned := r == identifier || r == party || r == place
	switch {
	case t.reads:
		if l > 0 {
			low = "0"
		}
		p := 1.0
		for p < h {
			p *= 10
		}
		high = json.Number(strconv.FormatFloat(p, 'f', -1, 64))
	case t.destroys, pinned && (distinct < several || t.pays || r != identifier):
		return nil
	case !pinned && l > 0:
		low = "0"
	}
	return &width{"min: " + string(low) + ", max: " + string(high), "any number from " + string(low) + " to " + string(high)}
}

// listWidth widens the lists that a tool which only reads is asked for.
func (b *builder) listWidth(t traits, r role, lists [][]any) *width {
	most, all := 10, []any(nil)
	for _, l := range lists {
		most = max(most, 2*len(l))
		all = append(all, l...)
	}
	texts, ok := allOf[string](all)
	if !ok || len(texts) == 0 {
		return nil
	}
	each := b.textWidth(t, r, texts)
	if each == nil {
		return nil
	}
	return &width{"max_length: " + strconv.Itoa(most) + ", each: {" + each.text + "}",
		"any list of up to " + strconv.Itoa(most) + " elements, each " + strings.TrimPrefix(each.allows, "any ")}
}

// partyWidth widens lists of people to any lists of the same people, never to others.
func (b *builder) partyWidth(lists [][]any) *width {
	most, all := 0, values{}
	for _, l := range lists {
		most = max(most, len(l))
		for _, v := range l {
			all.add(v)
		}
	}
	texts, ok := allOf[string](all.distinct)
	if !ok || len(lists) < 2 || len(texts) < 2 || !b.speakable(all.distinct) {
		return nil
	}
	return &width{"max_length: " + strconv.Itoa(most) + ", each: {one_of: " + printValue(all.distinct) + "}", "any of these together, and no others"}
}

// onePlace widens three URLs of one host, or files of one folder, to all of them.
func onePlace(list []string) *width {
	if len(list) < several {
		return nil
	}
	if host := urlHost.FindString(list[0]); host != "" {
		if slices.ContainsFunc(list, func(s string) bool { return urlHost.FindString(s) != host }) {
			return nil
		}
		return &width{"regex: " + strconv.Quote(quoteMeta(host)+`(?:[/?#][!-~]*)?`), "every address of " + host}
	}
	dir := path.Dir(list[0])
	for _, s := range list {
		if strings.ContainsAny(s, `\`) || !strings.Contains(s, "/") || path.Clean(s) != s || path.Dir(s) != dir || dir == "/" {
			return nil
		}
	}
	return &width{"regex: " + strconv.Quote(quoteMeta(dir)+`/[0-9A-Za-z_-][^/\\\s]*`), "every file directly in " + dir}
}

// urlHost is the beginning of a URL with its host, with or without a scheme.
var urlHost = regex.Lazy(`^(?:https?://)?(?:www\.)?[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+(?::\d+)?`)

// quoteMeta is regexp.QuoteMeta for a text that is then quoted.
func quoteMeta(s string) string {
	var out strings.Builder
	for _, r := range s {
		if strings.ContainsRune(`\.+*?()|[]{}^$`, r) {
			out.WriteByte('\\')
		}
		out.WriteRune(r)
	}
	return out.String()
}
