package provenance

import (
	"hash/maphash"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/remitrun/remit/internal/base/inspect"
)

// What kind of value a hash stands for: equal texts of two kinds have two hashes.
const (
	pairKind    = 0x9e3779b97f4a7c15 // two words beside each other
	itemKind    = 0xc2b2ae3d27d4eb4f // a whole line or text
	linkKind    = 0x165667b19e3779f9
	accountKind = 0x27d4eb2f165667c5
	namedKind   = 0x94d049bb133111eb // a word that people said by itself, and not as a part of another
	mix         = 0xff51afd7ed558ccd
)

func join(a, b uint64) uint64 { return (a^a>>29)*mix ^ b }

// The classes of the bytes of a text. Bytes of other scripts are parts of words.
type class uint16

const (
	betweenWords class = 1 << iota
	betweenLinks       // a URL ends before it
	inWord             // parts a word in smaller ones: a mail address, a path, key=value
	atEnds             // punctuation at the end of a word that is not part of it
	dot                // or colon, which each URL has
	digit              // of ASCII, as are the next two
	capital
	small
	hyphen
	wide // part of a character beyond ASCII
)

var classes = func() (c [256]class) {
	set := func(of class, bytes string) {
		for _, b := range []byte(bytes) {
			c[b] |= of
		}
	}
	for b := range 0x21 {
		c[b] = betweenWords | betweenLinks
	}
	set(betweenWords, "\x7f\"'`<>()[]{},;|\\")
	set(betweenLinks, "\x7f\"'`<>\\")
	set(inWord, "=:@/?&#%+")
	set(atEnds, ".:!?*_#=")
	set(digit, "0123456789")
	set(dot, ".:")
	set(capital, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
	set(small, "abcdefghijklmnopqrstuvwxyz")
	set(hyphen, "-")
	for b := utf8.RuneSelf; b < len(c); b++ {
		c[b] |= wide
	}
	return c
}()

// fold prepares a text: compatibility forms are replaced (NFKC), invisible characters dropped, and
// all white space made equal. ASCII text is returned as it is. Case is folded word by word.
func fold(s string) string {
	if ascii(s) {
		return s
	}
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return r
		case unicode.IsSpace(r):
			return ' '
		case inspect.Invisible(r):
			return -1
		}
		return r
	}, norm.NFKC.String(s))
	return norm.NFKC.String(s)
}

func ascii(s string) bool { return classesOf(s)&wide == 0 }

// classesOf returns the classes of all bytes of a text together.
func classesOf(s string) (has class) {
	for i := 0; i < len(s); i++ {
		has |= classes[s[i]]
	}
	return has
}

// hash hashes a word without its case.
func (x *Index) hash(word string) uint64 { return x.hashOf(word, classesOf(word)) }

// hashOf is hash for a word whose classes of bytes are known.
func (x *Index) hashOf(word string, has class) uint64 {
	switch {
	case has&wide != 0:
		return maphash.String(x.seed, cases.Fold().String(word))
	case has&capital == 0:
		return maphash.String(x.seed, word)
	}
	x.buf = append(x.buf[:0], word...)
	for i, c := range x.buf {
		if classes[c]&capital != 0 {
			x.buf[i] = c + 'a' - 'A'
		}
	}
	return maphash.Bytes(x.seed, x.buf)
}

// trim drops punctuation around a word, and the marks that a path is a folder or here.
func trim(w string) string {
	for w != "" && classes[w[len(w)-1]]&atEnds != 0 {
		w = w[:len(w)-1]
	}
	if len(w) > 1 && w[len(w)-1] == '/' {
		w = w[:len(w)-1]
	}
	for w != "" && classes[w[0]]&atEnds != 0 {
		if w[0] == '.' {
			return strings.TrimPrefix(w, "./")
		}
		w = w[1:]
	}
	return w
}

// scan holds the functions for the words of a text.
type scan struct {
	word func(w string, has class)
	line func()         // after the last word of a line
	link func(s string) // a run of text without spaces that may have a URL; nil: nothing
}

// words reads a folded text.
func (k scan) words(s string) {
	run, inRun := 0, class(0)
	for i := 0; ; {
		if i == len(s) || classes[s[i]]&betweenLinks != 0 {
			if inRun&dot != 0 && k.link != nil {
				k.link(s[run:i])
			}
			run, inRun = i+1, 0
		}
		if i == len(s) {
			break
		}
		if classes[s[i]]&betweenWords != 0 {
			if s[i] == '\n' {
				k.line()
			}
			i++
			continue
		}
		start, has := i, class(0)
		for i < len(s) && classes[s[i]]&betweenWords == 0 {
			has |= classes[s[i]]
			i++
		}
		inRun |= has
		if w := trim(s[start:i]); w != "" {
			k.word(w, has)
		}
	}
	k.line()
}

// text adds a text's values.
func (x *Index) text(s string, o uint32, how mode) {
	before, line, n := uint64(0), uint64(0), 0
	var accounts accountRun
	scan{func(w string, has class) {
		h := x.hashOf(w, has)
		x.put(h, o, how)
		if n > 0 && how >= trusts {
			x.put(join(before^pairKind, h), o, how)
		}
		if how == gives {
			x.put(h^namedKind, o, how)
		}
		before, line, n = h, join(line, h), n+1
		if has&inWord != 0 {
			x.parts(w, o, how)
			if how >= trusts {
				x.befriend(w)
			}
		}
		if (has&digit != 0 || len(accounts.run) > 0) && accounts.add(w) {
			x.put(x.hash(accounts.text)^accountKind, o, how)
		}
	}, func() {
		if n > 0 {
			x.put(line^itemKind, o, how)
		}
		before, line, n = 0, 0, 0
		accounts = accountRun{}
	}, func(run string) {
		if l := linkIn(run); l != "" {
			x.put(x.link(l), o, how)
		}
	}}.words(fold(s))
}

// parts adds the smaller words in a word.
func (x *Index) parts(w string, o uint32, how mode) {
	start := 0
	for i := 0; i <= len(w); i++ {
		if i < len(w) && classes[w[i]]&inWord == 0 {
			continue
		}
		if part := w[start:i]; part != "" && len(part) < len(w) {
			x.put(x.hash(trim(part)), o, how)
		}
		start = i + 1
	}
	if a := address(w); a != "" && a != w {
		x.put(x.hash(a), o, how)
	}
}

// address is the mail address in a word, as in mailto:ann@example.com; "": none.
func address(w string) string {
	at := strings.LastIndexByte(w, '@')
	if at <= 0 || at == len(w)-1 {
		return ""
	}
	start := strings.LastIndexAny(w[:at], ":/?=&") + 1
	end := len(w)
	if i := strings.IndexAny(w[at:], ":/?=&#"); i >= 0 {
		end = at + i
	}
	a := trim(w[start:end]) // as a value is that is looked up
	if at = strings.LastIndexByte(a, '@'); at <= 0 || !strings.Contains(a[at:], ".") {
		return ""
	}
	return a
}

// accountRun finds account numbers: one word with eight digits or more, or groups with as many.
type accountRun struct {
	run    []byte
	digits int
	text   string // of the last one that add found
}

// add adds the next word, and reports whether the words so far end with an account number.
func (a *accountRun) add(w string) bool {
	has, digits := class(0), 0
	for i := 0; i < len(w); i++ {
		c := classes[w[i]]
		has |= c
		digits += int(c / digit & 1)
	}
	plain, upper := len(w) <= 40 && has&^(digit|capital|small|hyphen) == 0, has&small == 0
	group := plain && (digits > 0 || upper && len(w) <= 4) && len(w) <= 8
	if !group || len(a.run) > 40 || digits == 0 && len(a.run) == 0 {
		a.run, a.digits = a.run[:0], 0
	}
	if !plain || !group && digits < 8 || digits == 0 && len(a.run) == 0 {
		return false
	}
	for i := 0; i < len(w); i++ {
		if w[i] != '-' {
			a.run = append(a.run, w[i])
		}
	}
	if a.digits += digits; a.digits < 8 {
		return false
	}
	a.text = string(a.run)
	if !group {
		a.run, a.digits = a.run[:0], 0
	}
	return true
}

// account is the account number that a folded text is, without its spaces; "": it is none.
func account(s string) string {
	var a accountRun
	found := ""
	scan{word: func(w string, _ class) {
		if found = ""; a.add(w) {
			found = a.text
		}
	}, line: func() {}}.words(s)
	if len(found) != len(s)-strings.Count(s, " ")-strings.Count(s, "-") {
		return ""
	}
	return found
}
