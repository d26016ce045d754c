package command

import "strings"

// Escape writes a word as a pattern's word that matches it alone.
func Escape(w string) string {
	if w == "" {
		return `""`
	}
	var b strings.Builder
	for _, r := range w {
		if strings.ContainsRune(" '\"\\*|", r) || r < ' ' || r == 0x7f {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
