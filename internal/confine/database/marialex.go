package database

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/regex"
)

// mariaToken is a token of a statement, as MariaDB splits it under the settings of begin.
type mariaToken struct {
	kind  tokenKind
	text  string // as in the statement
	name  string // of a word or name: in lower case, without quotes
	blank bool   // blanks or a comment come before it
	group int    // the pair of parentheses that it is in; 0 is the statement itself
}

type tokenKind uint8

const (
	symbol  tokenKind = iota
	word              // a keyword, or a name without quotes
	name              // a name in backquotes, or one beside a dot
	text              // a text in single or double quotes
	number            //
	unnamed           // a parameter
)

// mariaNumber are the forms of numbers. A word that begins with a digit is refused.
var mariaNumber = regex.Lazy(`^(0x[0-9A-Fa-f]+|0b[01]+|([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?)`)

func badSQL(format string, args ...any) *fault.Error {
	return fault.New(fault.ArgsInvalid, format, args...).In("sql")
}

// lexMaria splits a statement. It refuses text that MariaDB could split otherwise: comments
// that MariaDB runs, variables, and numbers that touch a word.
func lexMaria(sql string) (out []mariaToken, err error) {
	switch {
	case len(sql) > maxStatement:
		return nil, badSQL("the statement is longer than %d bytes", maxStatement)
	case !utf8.ValidString(sql):
		return nil, badSQL("the statement is not valid UTF-8")
	case strings.ContainsRune(sql, 0):
		return nil, badSQL("the statement contains a NUL byte")
	}
	blank := false
	for i := 0; i < len(sql); {
		n, err := mariaBlank(sql[i:])
		if err != nil {
			return nil, err
		}
		if n > 0 {
			blank, i = true, i+n
			continue
		}
		t, err := mariaNext(sql[i:], out, blank)
		if err != nil {
			return nil, err
		}
		t.blank = blank
		i, blank = i+len(t.text), t.text == "-" // "--" could begin a comment
		out = append(out, t)
	}
	for len(out) > 0 && out[len(out)-1].text == ";" {
		out = out[:len(out)-1]
	}
	return out, joinNames(out)
}

// mariaBlank returns the length of blanks or of a comment.
func mariaBlank(s string) (int, error) {
	end := func(close string) int {
		if i := strings.Index(s, close); i >= 0 {
			return i + len(close)
		}
		return len(s)
	}
	switch {
	case strings.IndexByte(" \t\n\r\v\f", s[0]) >= 0:
		return 1, nil
	case s[0] == '#', strings.HasPrefix(s, "--") && (len(s) == 2 || s[2] <= ' '):
		return end("\n"), nil
	case !strings.HasPrefix(s, "/*"):
		return 0, nil
	case strings.HasPrefix(s[2:], "!") || strings.HasPrefix(s[2:], "M!") || strings.HasPrefix(s[2:], "m!") || strings.HasPrefix(s[2:], "+"):
		return 0, badSQL("the statement has a comment that MariaDB or MySQL runs")
	case !strings.Contains(s[2:], "*/"):
		return 0, badSQL("the statement has a comment without an end")
	}
	return 2 + strings.Index(s[2:], "*/") + 2, nil
}

// mariaNext reads the token at the beginning of s.
func mariaNext(s string, before []mariaToken, blank bool) (t mariaToken, err error) {
	touches := !blank && len(before) > 0 && (before[len(before)-1].kind == word || before[len(before)-1].kind == name)
	switch c := s[0]; {
	case c == '\'' || c == '"':
		n := quotedLength(s, c, true)
		if n == 0 {
			return t, badSQL("the statement has a text without an end")
		}
		if touches && !mariaIntroducer()[before[len(before)-1].name] {
			return t, badSQL("the statement has a text in a character set that Remit does not know; expected UTF-8")
		}
		return mariaToken{kind: text, text: s[:n]}, nil
	case c == '`':
		n := quotedLength(s, c, false)
		if n < 3 {
			return t, badSQL("the statement has an empty name, or one without an end")
		}
		t = mariaToken{kind: name, text: s[:n], name: strings.ReplaceAll(s[1:n-1], "``", "`")}
		return foldName(t)
	case c >= '0' && c <= '9', c == '.' && len(s) > 1 && s[1] >= '0' && s[1] <= '9':
		n := len(mariaNumber.FindString(s))
		after := s[n:]
		if touches || after != "" && (wordByte(after[0]) || after[0] == '.') {
			return t, badSQL("the statement has a name that begins with a digit, or a number that touches a name; write such names in backquotes")
		}
		return mariaToken{kind: number, text: s[:n]}, nil
	case c == '$':
	case wordByte(c):
		n := 1
		for n < len(s) && wordByte(s[n]) {
			n++
		}
		return foldName(mariaToken{kind: word, text: s[:n], name: s[:n]})
	case c == '?':
		return mariaToken{kind: unnamed, text: "?"}, nil
	case strings.IndexByte("(),.+-*/%<>=!&|^~;", c) >= 0:
		return mariaToken{text: s[:1]}, nil
	}
	return t, badSQL("the statement has the character %+q outside of texts, which is not allowed", []rune(s)[0])
}

// quotedLength returns the length of a text or name in quotes; 0: it has no end.
func quotedLength(s string, quote byte, escapes bool) int {
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && escapes:
			i++
		case s[i] != quote:
		case i+1 < len(s) && s[i+1] == quote:
			i++
		default:
			return i + 1
		}
	}
	return 0
}

// foldName writes a name in lower case. MariaDB compares names so; letters of which the
// lower case may depend on its version are refused.
func foldName(t mariaToken) (mariaToken, error) {
	for _, r := range t.name {
		if r < ' ' || r == utf8.RuneError || r >= 0x7f && (r > 0xffff || unicode.ToLower(r) != r || !unicode.IsPrint(r)) {
			return t, badSQL("the name %+q has characters that are not allowed; letters that are not of ASCII must be in lower case", t.name)
		}
	}
	if strings.HasSuffix(t.name, " ") {
		return t, badSQL("the name %+q ends with a blank", t.name)
	}
	t.name = strings.Map(unicode.ToLower, t.name)
	if t.name == "_rowid" {
		return t, badSQL("_rowid is not allowed, because it stands for a column that it does not name")
	}
	return t, nil
}

// joinNames marks the words beside a dot as names, and numbers the pairs of parentheses.
func joinNames(list []mariaToken) error {
	var open []int
	groups := 0
	for i := range list {
		t := &list[i]
		if t.text == ")" && t.kind == symbol {
			if len(open) == 0 {
				return badSQL("the statement has a ) without a (")
			}
			open = open[:len(open)-1]
		}
		if len(open) > 0 {
			t.group = open[len(open)-1]
		}
		switch {
		case t.kind != symbol:
		case t.text == ";":
			return badSQL("the text is more than one statement; expected one in each call")
		case t.text == "(":
			groups++
			open = append(open, groups)
		case t.text == ".":
			if i == 0 || i+1 == len(list) || t.blank || list[i+1].blank || !list[i-1].isName() || !list[i+1].isName() && list[i+1].text != "*" {
				return badSQL("the statement has a dot that is not between two names")
			}
			if list[i-1].kind == word && mariaReserved()[list[i-1].name] {
				return badSQL("the keyword %s is used as a name; write it in backquotes", strings.ToUpper(list[i-1].name))
			}
			list[i-1].kind = name
			if list[i+1].kind == word {
				list[i+1].kind = name
			}
		}
	}
	if len(open) > 0 {
		return badSQL("the statement has a ( without a )")
	}
	return nil
}

func (t *mariaToken) isName() bool { return t.kind == word || t.kind == name }

// is reports whether the token is one of these keywords or symbols.
func (t *mariaToken) is(words ...string) bool {
	if t.kind != word && t.kind != symbol {
		return false
	}
	for _, w := range words {
		if t.kind == word && t.name == w || t.kind == symbol && t.text == w {
			return true
		}
	}
	return false
}

// printMaria writes the analysed statement, without its comments. This text is sent.
func printMaria(list []mariaToken) string {
	var b strings.Builder
	for i, t := range list {
		if t.blank && i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(t.text)
	}
	return b.String()
}
