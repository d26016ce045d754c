package command

import (
	"slices"
	"strings"
)

// Within this package a word that is known only when it runs may still have a
// shape: what it certainly begins with, holds and ends with. A word that does not
// begin with a dash cannot be an option. Actions carry the plain marker in its
// place.
const (
	shapeOne  = "\x00=" // one word: the texts between the unknown parts follow, with NUL bytes between them
	shapeHome = "\x00~" // the home folder, followed by the text that comes behind it
	shapeHere = "\x00." // the folder that the shell is in, in the same way
	anyHome   = "\x00H" // as shapeHome, but without quotes: it may be several words
	anyHere   = "\x00P" // as shapeHere
	shapeGlob = "\x00*" // what a glob finds, or the glob itself: any number of words, each of this shape
)

// shaped is the word with the texts of known between unknown parts.
func shaped(kind string, known ...string) string { return kind + strings.Join(known, "\x00") }

// plainMarker gives the marker that stands for a word in an action.
func plainMarker(w string) string {
	switch {
	case strings.HasPrefix(w, shapeOne), strings.HasPrefix(w, shapeHome), strings.HasPrefix(w, shapeHere):
		return NonLiteral
	case strings.HasPrefix(w, shapeGlob), strings.HasPrefix(w, anyHome), strings.HasPrefix(w, anyHere):
		return NonLiteralMany
	}
	return w
}

// plainMarkers is argv as actions carry it.
func plainMarkers(argv []string) []string {
	if !slices.ContainsFunc(argv, func(w string) bool { return w != plainMarker(w) }) {
		return argv
	}
	out := make([]string, len(argv))
	for i, w := range argv {
		out[i] = plainMarker(w)
	}
	return out
}

func nonLiteral(w string) bool { return strings.IndexByte(w, 0) >= 0 }

// isMany reports whether a word stands for any number of words.
func isMany(w string) bool { return plainMarker(w) == NonLiteralMany }

// begins returns the text that a word certainly begins with: all of it, if it is
// literal.
func begins(w string) string {
	if !nonLiteral(w) {
		return w
	}
	if known := certain(w); len(known) > 0 {
		return known[0]
	}
	return ""
}

// certain gives the texts of a word that is not literal, between its unknown parts.
func certain(w string) []string {
	if plainMarker(w) == w {
		return nil
	}
	kind, text := w[:len(shapeOne)], w[len(shapeOne):]
	switch kind {
	case shapeHome, shapeHere:
		return []string{"/", text}
	case anyHome, anyHere:
		return []string{""}
	}
	return strings.Split(text, "\x00")
}

// mayBe reports whether a word could turn out to be text.
func mayBe(w, text string) bool {
	switch {
	case !nonLiteral(w):
		return w == text
	case plainMarker(w) == w:
		return true
	}
	known := certain(w)
	last := len(known) - 1
	rest, ok := strings.CutPrefix(text, known[0])
	if !ok {
		return false
	}
	if rest, ok = strings.CutSuffix(rest, known[last]); !ok {
		return false
	}
	for _, k := range known[1:max(last, 1)] {
		if _, rest, ok = strings.Cut(rest, k); !ok {
			return false
		}
	}
	return true
}

// mayBeOption reports whether a word could be read as an option.
func mayBeOption(w string) bool {
	b := begins(w)
	return b == "" && nonLiteral(w) || strings.HasPrefix(b, "-")
}

// with gives the word w with value, which is not literal, in the place of token.
func with(w, token, value string) string {
	if w == token {
		return value
	}
	before, after, _ := strings.Cut(w, token)
	if i := strings.LastIndex(after, token); i >= 0 {
		after = after[i+len(token):]
	}
	return shaped(shapeOne, before+begins(value), after)
}

// common is a word of which only the common beginning of the words is known.
func common(list []string) string {
	if len(list) == 0 {
		return NonLiteral
	}
	b := begins(list[0])
	for _, w := range list[1:] {
		for !strings.HasPrefix(begins(w), b) {
			b = b[:len(b)-1]
		}
	}
	return shaped(shapeOne, b, "")
}

// manyOf is any number of words like one.
func manyOf(w string) string {
	if known, ok := strings.CutPrefix(w, shapeOne); ok {
		return shapeGlob + known
	}
	return NonLiteralMany
}
