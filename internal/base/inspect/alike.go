package inspect

import (
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Keys gives two keys of a name. Two names that share the first differ in
// nothing but case, separators, accents, forms of letters and letters of other
// scripts that look the same; two that share the second look the same in many
// fonts ("l1st" and "list", "rnail" and "mail"). A colon, which parts an ID, is
// no separator.
//
// The letters that look alike are those of Latin, Cyrillic, Greek and Armenian that
// Unicode's list of confusables (UTS 39) gives for ASCII letters and digits.
// Names are ASCII wherever Remit accepts them, so the list is needed only to
// say whom a refused one imitates.
func Keys(name string) [2]string {
	s := latin(name)
	return [2]string{squeeze(s), sight(s)}
}

// Alike reports whether two different names could be taken for each other.
func Alike(a, b string) bool {
	if a == b {
		return false
	}
	x, y := Keys(a), Keys(b)
	return x[0] == y[0] || x[1] == y[1]
}

// squeeze folds case and drops separators.
func squeeze(s string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("._/@- ", r) {
			return -1
		}
		return r
	}, strings.ToLower(s))
}

var (
	sameToEye = strings.NewReplacer("I", "l", "1", "l", "|", "l", "0", "o")
	twoForOne = strings.NewReplacer("rn", "m", "vv", "w")
)

func sight(s string) string { return twoForOne.Replace(squeeze(sameToEye.Replace(s))) }

// latin gives a text with the letters of other scripts that look like Latin
// ones as those, and without accents and invisible characters.
func latin(s string) string {
	if clean(s) {
		return s
	}
	for range 4 { // a folded text may fold again; it settles after one or two
		was := s
		s = strings.Map(lookalike, norm.NFKD.String(s))
		if s == was {
			break
		}
	}
	if !isASCII(s) {
		s = norm.NFKD.String(cases.Fold().String(s))
		s = strings.Map(lookalike, s)
	}
	return s
}

func lookalike(r rune) rune {
	switch {
	case r < 0x80:
		if Invisible(r) {
			return -1
		}
		return r
	case Invisible(r), unicode.In(r, unicode.Mn, unicode.Me):
		return -1
	case unicode.Is(unicode.Zs, r):
		return ' '
	case unicode.Is(unicode.Pd, r):
		return '-'
	}
	if l, ok := confusable[r]; ok {
		return l
	}
	return r
}

func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// confusable lists, for each ASCII character, its look-alikes that NFKD does not decompose.
var confusable = func() map[rune]rune {
	m := map[rune]rune{}
	for _, line := range [...]string{
		"aаαɑа", "AАΑ", "BВΒ", "bЬ", "cсϲᴄ", "CСϹ", "dԁ", "eеє", "EЕΕ", "FϜ", "gɡց", "GԌ", "hһհ", "HНΗ", "iіιıɩɪ", "IІΙ",
		"jјϳ", "JЈ", "kκк", "KКΚ", "lӏƖǀ", "LԼ", "MМΜ", "nոпη", "NΝ", "oоοօσ", "OОΟՕ", "pрρ", "PРΡ", "qԛզ", "QԚ", "rгʀ", "sѕ",
		"SЅՏ", "tтτ", "TТΤ", "uսυ", "vѵν", "VѴ", "wԝաω", "WԜ", "xхχ", "XХΧ", "yуүʏγ", "YҮΥ", "ZΖ", "-−", "/⁄∕", ":ː։∶", "_‗",
	} {
		rs := []rune(line)
		for _, r := range rs[1:] {
			m[r] = rs[0]
		}
	}
	return m
}()
