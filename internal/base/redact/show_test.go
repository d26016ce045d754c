package redact_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/base/glyph"
	"github.com/remitrun/remit/internal/base/inspect"
	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/base/redact"
)

// TestDisplaysAgreeOnEveryCharacter: each character is shown as a glyph, or as an escape of ASCII. No
// display shows a character as it is that an inspection calls invisible.
func TestDisplaysAgreeOnEveryCharacter(t *testing.T) {
	racetest.Skip(t, "one goroutine computes")
	const apart = '¶'
	var all []rune
	var b strings.Builder
	for r := rune(0); r <= utf8.MaxRune; r++ {
		if unused := r >= 0x40000 && r < 0xE0000 || r >= 0xF0000; unused && r%97 != 0 {
			continue // these planes have no characters with a glyph: some stand for all
		}
		if utf8.ValidRune(r) && r != apart {
			all = append(all, r)
			b.WriteRune(r)
			b.WriteRune(apart)
		}
	}
	split := func(text string) []string {
		return strings.Split(strings.TrimSuffix(text, string(apart)), string(apart))
	}
	lines, texts, quotes := split(redact.Show(b.String())), split(redact.ShowLines(b.String())), split(inspect.Visible(b.String()))
	if len(lines) != len(all) || len(texts) != len(all) || len(quotes) != len(all) {
		t.Fatalf("%d characters are shown as %d, %d and %d", len(all), len(lines), len(texts), len(quotes))
	}
	ignorable := []*unicode.RangeTable{unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Cs, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point, unicode.Noncharacter_Code_Point}
	for i, r := range all {
		s, line := string(r), lines[i]
		raw, invisible := line == s, inspect.Invisible(r)
		if !raw && (strings.ContainsFunc(line, func(c rune) bool { return c < ' ' || c > '~' }) || line == "") {
			t.Errorf("%U is shown as %q", r, line)
		}
		if raw && (invisible || unicode.In(r, ignorable...) || !unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S) && r != ' ') {
			t.Errorf("%U is shown as it is", r)
		}
		if texts[i] != line && r != '\n' && r != '\t' {
			t.Errorf("%U is %q on a line, and %q in a text", r, line, texts[i])
		}
		if (quotes[i] == s) == invisible || inspect.HasInvisible(s) != invisible {
			t.Errorf("%U: an inspection quotes %q, and calls it invisible: %v", r, quotes[i], invisible)
		}
	}
}

// parts are characters of which emoji consist, and others that stand beside them.
var parts = []rune{'⚠', '👩', 'ℹ', '1', '#', 'a', ' ', '\n', 0xFE0F, 0xFE0E, 0xFE00, 0x200D, 0x200B, 0x1F3FD, 0x20E3, 0x2800, utf8.RuneError}

func symbol(r rune) bool { return r == '⚠' || r == '👩' || r == 'ℹ' }

// TestDisplaysAgreeOnEverySequence: a selector or joiner is shown as it is only in an emoji, all
// displays agree, and a text in pieces is shown as the whole text.
func TestDisplaysAgreeOnEverySequence(t *testing.T) {
	racetest.Skip(t, "one goroutine computes")
	escape := regexp.MustCompile(`\\u\{([0-9a-f]+)\}`)
	var grow func(text []rune)
	grow = func(text []rune) {
		s := string(text)
		shown := redact.ShowLines(s)
		wantInEmoji(t, s, []rune(shown))
		quoted := inspect.Visible(s)
		if strings.Contains(quoted, "{") {
			quoted = escape.ReplaceAllStringFunc(quoted, func(e string) string {
				n, _ := strconv.ParseInt(e[3:len(e)-1], 16, 32)
				return fmt.Sprintf(`\u%04x`, n)
			})
		}
		if quoted != shown {
			t.Errorf("%+q is shown as %+q, and quoted as %+q", s, shown, quoted)
		}
		if again := redact.ShowLines(shown); again != shown {
			t.Errorf("%+q is shown as %+q, and that as %+q", s, shown, again)
		}
		if len(text) > 0 {
			piece := string(text[:len(text)-1])
			n := glyph.Settled(piece)
			if got := redact.ShowLines(s[:n]) + redact.ShowLines(s[n:]); got != shown {
				t.Errorf("%+q in pieces of %d bytes is shown as %+q, want %+q", s, n, got, shown)
			}
		}
		if len(text) == 4 {
			return
		}
		for _, r := range parts {
			grow(append(text, r))
		}
	}
	grow(nil)
}

// wantInEmoji fails the test if a selector or joiner is shown outside an emoji.
func wantInEmoji(t *testing.T, s string, shown []rune) {
	t.Helper()
	at := func(i int) rune {
		if i < 0 || i >= len(shown) {
			return ' '
		}
		return shown[i]
	}
	for i, r := range shown {
		var ok bool
		switch r {
		case 0xFE0E, 0xFE0F:
			ok = symbol(at(i-1)) || (at(i-1) == '1' || at(i-1) == '#') && at(i+1) == 0x20E3
		case 0x200D:
			before := at(i - 1)
			ok = (symbol(before) || before == 0xFE0F || before == 0x1F3FD) && symbol(at(i+1))
		default:
			ok = !inspect.Invisible(r)
		}
		if !ok {
			t.Errorf("%+q is shown as %+q", s, string(shown))
			return
		}
	}
}

func TestOrdinaryEmojiAreReadable(t *testing.T) {
	for _, s := range []string{
		"⚠️ careful", "❤️", "ℹ️ note", "‼️", "↔️", "☎︎ text", "✔️ done", "1️⃣ first", "#️⃣", "*⃣", "👍🏽", "👩‍💻", "👩🏽‍💻", "🕵️‍♂️", "🏳️‍🌈", "👩‍❤️‍💋‍👩", "👨‍👩‍👧‍👦", "🇩🇪",
		"🙂‍↔️", "🏴‍☠️", "©️", "™️", "⚠️⚠️",
	} {
		line, text, quoted := redact.Show(s), redact.ShowLines(s), inspect.Visible(s)
		if line != s || text != s || quoted != s {
			t.Errorf("%q is shown as %+q, %+q and %+q", s, line, text, quoted)
		}
		if got := inspect.Text("description", s); len(got) > 0 {
			t.Errorf("%q has the findings %+v", s, got)
		}
	}
	for _, s := range []string{
		"a\ufe0f", "1\ufe0f", "1\ufe0f0", " \ufe0f", "\ufe0f", "é\ufe0e", "⚠\ufe0f\ufe0f", "⚠\ufe0f\ufe0e", "⚠\ufe00", "👩\u200d", "👩\u200da", "a\u200d👩", "👩\u200d\u200d💻",
		"👩\ufe0e\u200d💻", "🏽\ufe0f", "\u2800\ufe0f", "\ufffc\ufe0f", "\xff\ufe0f", "\ufffd\ufe0f", "🏴\U000e0067\U000e007f", "+\ufe0f", "👩\u200b💻", "👩\ufe0f🏽\ufe0f", strings.Repeat("👩\u200d", 9) + "👩",
	} {
		if shown := redact.Show(s); !strings.Contains(shown, `\`) || !strings.Contains(inspect.Visible(s), `\`) {
			t.Errorf("%+q is shown as %+q", s, shown)
		}
		if len(inspect.Text("description", s)) == 0 {
			t.Errorf("%+q has no finding", s)
		}
	}
}

// TestSettledTextIsBounded: a display of a text in pieces keeps little of it.
func TestSettledTextIsBounded(t *testing.T) {
	endless := strings.Repeat("👩\ufe0f🏽\u200d", 1000)
	for _, s := range []string{endless, strings.Repeat("⚠\ufe0f", 1000), strings.Repeat("1", 1000), strings.Repeat("\u200d", 1000)} {
		rs := []rune(s)
		for n := range slices.Values([]int{1, 2, 3, 4, 31, 32, 33, 100, len(rs) - 1, len(rs)}) {
			if piece := string(rs[:n]); len(piece)-glyph.Settled(piece) >= 200 {
				t.Errorf("of %d bytes, %d are kept", len(piece), len(piece)-glyph.Settled(piece))
			}
		}
	}
}
