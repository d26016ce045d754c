package clip_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/base/clip"
)

func TestText(t *testing.T) {
	tests := map[string]struct {
		s    string
		most int
		want string
	}{
		"short":               {"abc", 3, "abc"},
		"cut":                 {"abcd", 3, "abc…"},
		"nothing fits":        {"abc", 0, "…"},
		"negative":            {"abc", -1, "…"},
		"within a character":  {"aäb", 2, "a…"},
		"invalid bytes":       {"a\xffbcd", 3, "ab…"},
		"invalid and short":   {"a\xff", 3, "a\xff"},
		"characters of bytes": {"東京", 3, "東…"},
		"within an emoji":     {"👩\u200d💻", 7, "👩…"},
	}
	for name, tt := range tests {
		if got := clip.Text(tt.s, tt.most); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

func FuzzPrefix(f *testing.F) {
	f.Add("aäb", 2)
	f.Fuzz(func(t *testing.T, s string, most int) {
		p := clip.Prefix(s, most)
		if !strings.HasPrefix(s, p) || len(p) > max(most, 0) && len(p) < len(s) || utf8.ValidString(s) && !utf8.ValidString(p) {
			t.Errorf("Prefix(%q, %d) is %q", s, most, p)
		}
	})
}
