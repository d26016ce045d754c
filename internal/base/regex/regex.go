// Package regex compiles regular expressions when they are first used, so that a process does not
// pay at its start for expressions that it never needs. Start at [Lazy].
package regex

import (
	"regexp"
	"sync"
)

// Expr is a regular expression of the program's own, in RE2 syntax. It is safe for
// concurrent use.
type Expr struct {
	compiled func() *regexp.Regexp
}

// Lazy makes an expression for a package-level variable. The first use of one that is
// not valid panics; TestLazyExpressionsCompile compiles all of them.
func Lazy(source string) *Expr {
	return &Expr{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(source) })}
}

// MatchString is [regexp.Regexp.MatchString].
func (e *Expr) MatchString(s string) bool { return e.compiled().MatchString(s) }

// FindString is [regexp.Regexp.FindString].
func (e *Expr) FindString(s string) string { return e.compiled().FindString(s) }

// FindStringSubmatch is [regexp.Regexp.FindStringSubmatch].
func (e *Expr) FindStringSubmatch(s string) []string { return e.compiled().FindStringSubmatch(s) }

// ReplaceAllString is [regexp.Regexp.ReplaceAllString].
func (e *Expr) ReplaceAllString(s, with string) string { return e.compiled().ReplaceAllString(s, with) }

// Match is [regexp.Regexp.Match].
func (e *Expr) Match(b []byte) bool { return e.compiled().Match(b) }

// FindAllStringIndex is [regexp.Regexp.FindAllStringIndex].
func (e *Expr) FindAllStringIndex(s string, n int) [][]int {
	return e.compiled().FindAllStringIndex(s, n)
}

// FindAllStringSubmatch is [regexp.Regexp.FindAllStringSubmatch].
func (e *Expr) FindAllStringSubmatch(s string, n int) [][]string {
	return e.compiled().FindAllStringSubmatch(s, n)
}
