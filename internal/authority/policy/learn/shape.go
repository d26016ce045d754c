package learn

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// segment is a run of characters of one class: digits ('0'), letters ('a'), or one
// other character, which stands for itself.
type segment struct {
	class rune
	text  string
}

// segments splits an identifier or a date. Letters and digits that alternate are one
// segment of class 'x'.
func segments(s string) []segment {
	var out []segment
	for _, r := range s {
		class := r
		switch {
		case r >= '0' && r <= '9':
			class = '0'
		case r <= unicode.MaxASCII && unicode.IsLetter(r):
			class = 'a'
		}
		if n := len(out); n > 0 && (class == '0' || class == 'a') && out[n-1].class == class {
			out[n-1].text += string(r)
			continue
		}
		out = append(out, segment{class, string(r)})
	}
	return mixed(out)
}

// mixed joins neighbouring segments where letters follow digits, as in "3fa9c1".
func mixed(in []segment) []segment {
	alnum := func(s segment) bool { return s.class == '0' || s.class == 'a' }
	var out []segment
	for i := 0; i < len(in); {
		j := i
		for j < len(in) && alnum(in[j]) {
			j++
		}
		switch {
		case j == i:
			out, i = append(out, in[i]), i+1
			continue
		case j-i > 2 || j-i == 2 && in[i].class == '0':
			text := ""
			for _, s := range in[i:j] {
				text += s.text
			}
			out = append(out, segment{'x', text})
		default:
			out = append(out, in[i:j]...)
		}
		i = j
	}
	return out
}

// shape widens texts to all of the same form, nil if they have different ones: the
// same punctuation, with as many digits and letters.
func shape(list []string) *width {
	first := segments(list[0])
	columns := make([][]string, len(first))
	for _, s := range list {
		segs := segments(s)
		if len(segs) != len(first) {
			return nil
		}
		for i, g := range segs {
			if g.class != first[i].class && (g.class < utf8.RuneSelf && first[i].class < utf8.RuneSelf || g.text != first[i].text) {
				return nil
			}
			columns[i] = append(columns[i], g.text)
		}
	}
	var out, like strings.Builder
	for i, g := range first {
		c := column(g.class, columns[i])
		out.WriteString(c)
		like.WriteString(example(c, g.text))
	}
	text := out.String()
	if re, err := regexp.Compile(`\A(?:` + text + `)\z`); err != nil || slices.ContainsFunc(list, func(s string) bool { return !re.MatchString(s) }) {
		return nil
	}
	return &width{"regex: " + strconv.Quote(text), "any text of the form " + like.String()}
}

// example shows a segment to people, with 9, A and a for the varying characters.
func example(pattern, text string) string {
	if !strings.HasPrefix(pattern, "[") {
		return text
	}
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsDigit(r):
			return '9'
		case unicode.IsUpper(r):
			return 'A'
		}
		return 'a'
	}, text)
}

// column is the pattern of one segment. Letters that are always the same stay, and so
// do up to three of a single example, as in "W6247578".
func column(class rune, texts []string) string {
	low, high := len(texts[0]), len(texts[0])
	same, upper, lower := true, true, true
	for _, t := range texts {
		low, high = min(low, len(t)), max(high, len(t))
		same = same && t == texts[0]
		upper, lower = upper && strings.ToUpper(t) == t, lower && strings.ToLower(t) == t
	}
	set := "[0-9A-Za-z]"
	switch {
	case class != '0' && class != 'a' && class != 'x':
		return quoteMeta(texts[0])
	case class == 'a' && same && (len(texts) > 1 || high <= 3):
		return quoteMeta(texts[0])
	case class == '0':
		set = "[0-9]"
	case upper:
		set = map[rune]string{'a': "[A-Z]", 'x': "[0-9A-Z]"}[class]
	case lower:
		set = map[rune]string{'a': "[a-z]", 'x': "[0-9a-z]"}[class]
	case class == 'a':
		set = "[A-Za-z]"
	}
	switch {
	case class == 'a':
		return set + "{1," + strconv.Itoa(2*high) + "}"
	case low == high:
		return set + "{" + strconv.Itoa(high) + "}"
	}
	return set + "{" + strconv.Itoa(low) + "," + strconv.Itoa(high) + "}"
}

// What plain text consists of: no @, no :// and no dot that a host name could have.
const plainParts = `[^.@:\x{3002}\x{ff0e}\x{ff61}]` + // any other character
	`|\.+(?:[\s"')\]},;!?*_]|$)` + // the end of a sentence
	`|\.[0-9]+(?:[^.@:0-9A-Za-z]|$)` + // the decimals of a number
	`|\.[A-Za-z]\.?(?:[\s,;)]|$)` + // e.g.
	`|:+(?:[\s0-9"')]|$)`

// maxLinks is how many links and addresses of text are written down.
const maxLinks = 8

// plainText widens text for people to any text without new links and addresses.
func plainText(list []string, least int) *width {
	var links []string
	plainOnly := regexp.MustCompile(`\A(?:` + plainParts + `)*\z`)
	for _, s := range list {
		if plainOnly.MatchString(s) {
			continue
		}
		for word := range strings.FieldsSeq(s) {
			word = strings.TrimRight(strings.TrimLeft(word, `"'(<`), `"')>,;!?.`)
			if !plainOnly.MatchString(word) && !slices.Contains(links, word) {
				links = append(links, word)
			}
		}
	}
	if len(links) > maxLinks || slices.ContainsFunc(links, func(s string) bool { return len(s) > longest }) {
		return nil
	}
	text := plainParts
	for _, l := range links {
		text += `|(?:^|[\s"'(<])` + quoteMeta(l) + `\.?(?:[\s"')>,;!?]|$)`
	}
	text = "(?:" + text + ")*"
	re, err := regexp.Compile(`\A` + text + `\z`)
	if err != nil || slices.ContainsFunc(list, func(s string) bool { return !re.MatchString(s) }) {
		return nil
	}
	n := strconv.Itoa(roomFor(list, least))
	allows := "any text of up to " + n + " characters without links and addresses"
	if len(links) > 0 {
		allows += " other than " + strings.Join(links, ", ")
	}
	return &width{"max_length: " + n + ", regex: " + strconv.Quote(text), allows}
}
