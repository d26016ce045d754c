// Package glyph tells which characters a reader can see. Displays, inspections and checks of names
// share its one definition. Start at [Visible], which looks at one character; [Emoji] looks at the
// characters of an emoji together.
package glyph

import "unicode"

// blank are characters that have a glyph by Unicode's properties, and show an empty one.
var blank = map[rune]bool{
	0x2800: true, 0x1D159: true, 0x13441: true, 0x13442: true, 0x16FE4: true, 0xFFFC: true, // Braille, notehead, hieroglyphs, Khitan, object
}

// Visible reports whether a character shows a glyph of its own. Invisible are controls, formats,
// separators of lines, private use, unassigned code points, what Unicode calls default ignorable
// (variation selectors, fillers, joiners, tags), and blank glyphs. A space shows none, but is
// visible by its width. Names are checked by this alone.
func Visible(r rune) bool {
	switch {
	case r < 0x80:
		return r >= ' ' && r != 0x7F
	case unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point), blank[r]:
		return false
	}
	return unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Zs)
}

// Plain reports whether a character is visible and cannot be taken for the common space.
func Plain(r rune) bool { return r == ' ' || Visible(r) && !unicode.Is(unicode.Zs, r) }
