package chat

import (
	"strings"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/base/fault"
)

// maxLine is the longest slash command, in bytes.
const maxLine = 256 << 10

// Word is one word of a slash command.
type Word struct {
	Text   string
	At     int  // its offset in the line, in bytes
	Quoted bool // a part of it was quoted
}

// Split splits a line into words as a shell would, without expansions. White space
// separates words. 'Single quotes' keep every character; "double quotes" every character
// but a backslash before ", \, $, ` and a line's end. Elsewhere a backslash keeps the next
// character. All other characters stand for themselves. Errors have the code
// CommandInvalid and the column.
func Split(line string) ([]Word, error) {
	switch {
	case len(line) > maxLine:
		return nil, fault.New(fault.CommandInvalid, "the command has %d bytes; the limit is %d", len(line), maxLine)
	case !utf8.ValidString(line):
		return nil, fault.New(fault.CommandInvalid, "the command is not valid UTF-8")
	case strings.ContainsRune(line, 0):
		return nil, wrong(line, strings.IndexByte(line, 0), "the command contains a NUL byte")
	}
	s := splitter{line: line}
	for s.space(); s.at < len(line); s.space() {
		if err := s.word(); err != nil {
			return nil, err
		}
	}
	return s.words, nil
}

// wrong makes an error at an offset of a line.
func wrong(line string, at int, format string, args ...any) *fault.Error {
	at = min(max(at, 0), len(line))
	start := strings.LastIndexByte(line[:at], '\n') + 1
	return fault.New(fault.CommandInvalid, format, args...).
		At(fault.Pos{File: "(command)", Line: 1 + strings.Count(line[:at], "\n"), Column: 1 + utf8.RuneCountInString(line[start:at])})
}

type splitter struct {
	line  string
	at    int
	words []Word
}

func (s *splitter) space() {
	for s.at < len(s.line) && strings.IndexByte(" \t\r\n", s.line[s.at]) >= 0 {
		s.at++
	}
}

func (s *splitter) word() error {
	w := Word{At: s.at}
	var b strings.Builder
	for s.at < len(s.line) && strings.IndexByte(" \t\r\n", s.line[s.at]) < 0 {
		switch c := s.line[s.at]; c {
		case '\'':
			end := strings.IndexByte(s.line[s.at+1:], '\'')
			if end < 0 {
				return wrong(s.line, s.at, "the quote ' is never closed")
			}
			b.WriteString(s.line[s.at+1 : s.at+1+end])
			s.at += end + 2
			w.Quoted = true
		case '"':
			if err := s.double(&b); err != nil {
				return err
			}
			w.Quoted = true
		case '\\':
			if s.at+1 == len(s.line) {
				return wrong(s.line, s.at, "nothing follows the backslash")
			}
			if s.line[s.at+1] != '\n' {
				b.WriteByte(s.line[s.at+1])
			}
			s.at += 2
			w.Quoted = true
		default:
			b.WriteByte(c)
			s.at++
		}
	}
	w.Text = b.String()
	s.words = append(s.words, w)
	return nil
}

// double reads a text in double quotes.
func (s *splitter) double(b *strings.Builder) error {
	start := s.at
	for s.at++; s.at < len(s.line); s.at++ {
		switch c := s.line[s.at]; c {
		case '"':
			s.at++
			return nil
		case '\\':
			if s.at+1 < len(s.line) && strings.IndexByte("\"\\$`\n", s.line[s.at+1]) >= 0 {
				if s.at++; s.line[s.at] != '\n' {
					b.WriteByte(s.line[s.at])
				}
				continue
			}
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
	return wrong(s.line, start, "the quote \" is never closed")
}

// Quote writes a word so that Split gives it unchanged.
func Quote(s string) string {
	if s != "" && !strings.ContainsAny(s, " \t\r\n'\"\\") {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
