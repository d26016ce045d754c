package database

import (
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
)

// verbs begin the statements that are compiled at all. SQLite then says what they use.
const verbs = " select values with insert replace update delete "

// oneStatement refuses a text that is not exactly one statement to query or change rows.
// It splits the text as SQLite does; an unknown character ends the statement.
func oneStatement(sql string) error {
	switch {
	case len(sql) > maxStatement:
		return fault.New(fault.ArgsInvalid, "the statement is longer than %d bytes", maxStatement).In("sql")
	case strings.ContainsRune(sql, 0):
		return fault.New(fault.ArgsInvalid, "the statement contains a NUL byte").In("sql")
	}
	first, before, ended := "", "", false
	for i := 0; i < len(sql); {
		n, blank := token(sql[i:])
		word := sql[i : i+n]
		i += n
		switch {
		case blank:
		case word == ";" && first != "":
			ended = true
		case ended || word == ";":
			return fault.New(fault.ArgsInvalid, "the text is more than one statement; expected one in each call").In("sql")
		case first == "":
			first = strings.ToLower(word)
		}
		if blank {
			continue
		}
		if err := unseen(before, strings.ToLower(word)); err != nil {
			return err
		}
		before = strings.ToLower(word)
	}
	if first == "" || strings.Contains(first, " ") || !strings.Contains(verbs, " "+first+" ") {
		return fault.New(fault.ArgsInvalid, "the statement must begin with SELECT, VALUES, WITH, INSERT, REPLACE, UPDATE or DELETE").In("sql")
	}
	return nil
}

// unseen refuses the words of which SQLite's authorizer does not hear: the columns of
// NATURAL and USING, and the rows that UPDATE OR REPLACE deletes.
func unseen(before, word string) error {
	switch {
	case word == "natural" || word == "using":
		return fault.New(fault.ArgsInvalid, "the statement joins with %s, which does not name the columns", strings.ToUpper(word)).In("sql").WithHint("write JOIN ... ON a.x = b.x")
	case before == "update" && word == "or":
		return fault.New(fault.ArgsInvalid, "UPDATE OR is not allowed, because it may delete rows").In("sql").WithHint("write UPDATE, and DELETE for rows in the way")
	}
	return nil
}

// token returns the length of the first token, at least 1, and whether it is a blank or
// a comment.
func token(s string) (n int, blank bool) {
	end := func(close string, from int) int {
		if i := strings.Index(s[from:], close); i >= 0 {
			return from + i + len(close)
		}
		return len(s)
	}
	switch c := s[0]; {
	case c == ' ' || c == '\t' || c == '\n' || c == '\f' || c == '\r':
		return 1, true
	case strings.HasPrefix(s, "--"):
		return end("\n", 2), true
	case strings.HasPrefix(s, "/*"):
		return end("*/", 2), true
	case c == '\'' || c == '"' || c == '`':
		for n = end(string(c), 1); n < len(s) && s[n] == c; { // doubled
			n = end(string(c), n+1)
		}
		return n, false
	case c == '[':
		return end("]", 1), false
	case wordByte(c):
		for n = 1; n < len(s) && wordByte(s[n]); n++ {
		}
		return n, false
	}
	return 1, false
}

func wordByte(c byte) bool {
	return c == '_' || c == '$' || c >= 0x80 || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}
