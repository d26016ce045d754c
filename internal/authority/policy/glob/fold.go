package glob

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Fold prepares a path for a folding pattern: compatibility forms are replaced
// (NFKC), case is folded, invisible characters are dropped, and so are dots and
// spaces at the end of a segment. Another file system, or a reader, may treat
// names with the same folded form as equal. ASCII case alone is left to the
// pattern, so that the usual path is returned as it is, without allocation.
func Fold(path string) string {
	if plain(path) {
		return path
	}
	path = foldText(path)
	parts := strings.Split(path, "/")
	for i, p := range parts {
		parts[i] = trimName(p)
	}
	return strings.Join(parts, "/")
}

// plain reports whether folding changes nothing but ASCII case.
func plain(path string) bool {
	prev := byte('/')
	for i := 0; i < len(path); i++ {
		c := path[i]
		if c >= utf8.RuneSelf || c == '/' && (prev == '.' || prev == ' ') {
			return false
		}
		prev = c
	}
	return prev != '.' && prev != ' '
}

func foldText(s string) string {
	if isASCII(s) {
		return s
	}
	s = strings.Map(func(r rune) rune {
		if invisible(r) {
			return -1
		}
		return r
	}, norm.NFKC.String(s))
	s = norm.NFKC.String(cases.Fold().String(s))
	return s
}

// invisible characters are ones that some file systems drop from names.
func invisible(r rune) bool {
	return unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Variation_Selector, r) ||
		unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)
}

// trimName drops the dots and spaces that a name ends with, unless it has
// nothing else.
func trimName(name string) string {
	if t := strings.TrimRight(name, ". "); t != "" {
		return t
	}
	return name
}

func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// equal compares a text with a pattern's, which is lower case if fold is set.
func equal(s, pat string, fold bool) bool {
	if !fold {
		return s == pat
	}
	if len(s) != len(pat) {
		return false
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != pat[i] {
			return false
		}
	}
	return true
}
