package command

import (
	"strings"

	"github.com/remitrun/remit/internal/base/regex"
)

// operatorWord is a word that a shell reads as an operator or a redirection.
var operatorWord = regex.Lazy(`^(\|\|?|\|&|&&?|;;?|[(){}]|[0-9]*(<<?<?-?|>>?|<>|>\||[<>]&).*|&>>?.*)$`)

// Operator gives the first shell operator that stands unquoted in a pattern, or
// "". A pattern is compared with the words of one command, after the shell has
// removed the operators. So a pattern with an operator never matches.
func Operator(pattern string) string {
	for _, w := range bareWords(pattern) {
		switch {
		case strings.Contains(w, "$("), strings.Contains(w, "`"):
			return w
		case operatorWord.MatchString(w):
			return w
		case len(w) > 1 && strings.HasSuffix(w, ";"):
			return ";"
		}
	}
	return ""
}

// bareWords splits a pattern at its spaces. A quoted or escaped character stands
// as a NUL byte, which no operator has.
func bareWords(s string) []string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '\\':
			i++
			b.WriteByte(0)
		case '\'', '"':
			var lit strings.Builder
			n, ok := quoted(s[i:], &lit)
			if !ok {
				return nil // such a pattern cannot be read
			}
			i += n
			b.WriteByte(0)
		default:
			b.WriteByte(c)
		}
	}
	return strings.Fields(b.String())
}

var assignment = regex.Lazy(`^[A-Za-z_][A-Za-z0-9_]*=`)

// Assigns gives the variable assignment that a pattern begins with, or "". A
// shell removes it from the command, so such a pattern never matches.
func Assigns(pattern string) string {
	if words := bareWords(pattern); len(words) > 0 {
		return strings.TrimSuffix(assignment.FindString(words[0]), "=")
	}
	return ""
}
