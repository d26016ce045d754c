package markdown

import (
	"strings"

	"github.com/mattn/go-runewidth"
)

func width(s string) int { return runewidth.StringWidth(s) }

func (s *Stream) width() int { return max(s.Options.Width, minWidth) }

func spansWidth(spans []span) (n int) {
	for _, s := range spans {
		n += width(s.text)
	}
	return n
}

// wrapped prints text in lines of the width, broken between words. A "\n" is a hard break.
func (s *Stream) wrapped(first, next string, spans []span) {
	room := max(s.width()-width(next), minWidth)
	var line []span
	used := 0
	flush := func() {
		s.print(first, trimEnd(line))
		first, line, used = next, nil, 0
	}
	for _, word := range words(spans) {
		w := spansWidth(word)
		switch {
		case len(word) == 1 && word[0].text == "\n":
			flush()
			continue
		case used > 0 && used+w > room:
			flush()
		}
		if used > 0 || strings.Trim(word[0].text, " ") != "" {
			line = append(line, word...)
			used += w
		}
	}
	if used > 0 || first != next {
		flush()
	}
}

// words cuts spans into words, spaces and hard breaks. A word may have several styles.
func words(spans []span) (out [][]span) {
	var word []span
	end := func() {
		if len(word) > 0 {
			out = append(out, word)
			word = nil
		}
	}
	for _, s := range spans {
		if s.text == "\n" {
			end()
			out = append(out, []span{s})
			continue
		}
		for rest := s.text; rest != ""; {
			i := strings.IndexByte(rest, ' ')
			if i < 0 {
				word = append(word, span{text: rest, style: s.style})
				break
			}
			if i > 0 {
				word = append(word, span{text: rest[:i], style: s.style})
			}
			end()
			out = append(out, []span{{text: " ", style: s.style}})
			rest = rest[i+1:]
		}
	}
	end()
	return out
}

func trimEnd(line []span) []span {
	for len(line) > 0 && strings.Trim(line[len(line)-1].text, " ") == "" {
		line = line[:len(line)-1]
	}
	return line
}

// printTable prints a table with aligned columns; the rows of one that is too wide are wrapped.
func (s *Stream) printTable(prefix string, rows [][][]span) {
	var widths []int
	for n, row := range rows {
		for i, cell := range row {
			if n == 0 {
				row[i] = restyle(cell, Strong)
			}
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], spansWidth(cell))
		}
	}
	total := width(prefix) - 2
	for _, w := range widths {
		total += w + 2
	}
	for _, row := range rows {
		if total > s.width() {
			s.wrapped(prefix, prefix, joined(row))
			continue
		}
		var line []span
		for i, cell := range row {
			line = append(line, cell...)
			line = append(line, span{text: strings.Repeat(" ", widths[i]-spansWidth(cell)+2)})
		}
		s.print(prefix, trimEnd(line))
	}
}

func joined(row [][]span) (out []span) {
	for i, c := range row {
		if i > 0 {
			out = append(out, span{text: " "}, span{text: "|", style: Faint}, span{text: " "})
		}
		out = append(out, c...)
	}
	return out
}
