package command

import "strings"

// beforeRegex are the words behind which a slash begins a regular expression.
var beforeRegex = words("print printf return exit in else do case")

// unsureRegex are those behind which awks differ.
var unsureRegex = words(") length getline")

// bareAwk returns a program without its strings, regular expressions and comments; ok is false if
// implementations of awk may not agree on their places.
func bareAwk(s string) (bare string, ok bool) {
	var b strings.Builder
	operand := false // a slash is a division here
	last := ""       // the last word, or closing bracket
	for i := 0; i < len(s); {
		c := s[i]
		n := 1
		switch {
		case c == '"':
			if n = closing(s[i:], '"'); n < 0 {
				return "", false
			}
			operand, last = true, ""
			b.WriteString(`""`)
		case c == '#':
			if n = strings.IndexByte(s[i:], '\n'); n < 0 {
				n = len(s) - i
			}
		case c == '/' && unsureRegex[last]:
			return "", false
		case c == '/' && !operand:
			if n = closing(s[i:], '/'); n < 0 || strings.ContainsAny(s[i:i+n], `["`) {
				return "", false // in brackets some awks end it at a slash, and others do not
			}
			operand, last = true, ""
			b.WriteString("//")
		case c == '\\' || c >= 0x80:
			return "", false
		case isWord(c):
			for n < len(s)-i && isWord(s[i+n]) {
				n++
			}
			word := s[i : i+n]
			operand, last = !beforeRegex[word], word
			b.WriteString(word)
		default:
			if c == '+' || c == '-' {
				if i+1 < len(s) && s[i+1] == c && strings.Contains(s, "/") {
					return "", false // x++ / y is a division, and x ++ /y/ is not
				}
			}
			if c != ' ' && c != '\t' {
				operand, last = c == ']', string(c)
			}
			b.WriteByte(c)
		}
		i += n
	}
	return b.String(), true
}

func isWord(c byte) bool {
	return c == '_' || c == '$' || c == '.' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// closing gives the length of a text with its delimiters; -1 if it does not end on its line.
func closing(s string, delimiter byte) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '\n':
			return -1
		case delimiter:
			return i + 1
		}
	}
	return -1
}
