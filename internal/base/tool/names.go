package tool

import (
	"strings"
	"unicode"
)

// Words returns the words of a name or a text, in lower case: "getIssueByID",
// "get_issue" and "get-issue" have the words one expects.
func Words(s string) []string {
	var out []string
	var word []rune
	flush := func() {
		if len(word) > 0 {
			out = append(out, strings.ToLower(string(word)))
			word = word[:0]
		}
	}
	rs := []rune(s)
	for i, r := range rs {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			flush()
			continue
		case i > 0 && unicode.IsUpper(r) && (unicode.IsLower(rs[i-1]) || unicode.IsDigit(rs[i-1])):
			flush()
		case i > 0 && i+1 < len(rs) && unicode.IsUpper(r) && unicode.IsUpper(rs[i-1]) && unicode.IsLower(rs[i+1]):
			flush()
		}
		word = append(word, r)
	}
	flush()
	return out
}
