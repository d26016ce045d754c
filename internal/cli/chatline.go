package cli

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/remitrun/remit/internal/base/wholefile"
	"golang.org/x/term"
)

// errInterrupt is returned when Ctrl-C is typed instead of a line.
var errInterrupt = errors.New("interrupted")

// lines reads the person's input: with editing, history and completion on a
// terminal, else line by line.
type lines struct {
	s        *session
	plain    *bufio.Scanner // without a terminal
	history  *typedLines
	complete func(line string) []string // returns whole lines
}

// maxLine is the maximum length of an input line in bytes.
const maxLine = 1 << 20

func (s *session) newLines(h *typedLines, complete func(string) []string) *lines {
	l := &lines{s: s, history: h, complete: complete}
	if !isTerminal(s.In) || !isTerminal(s.Out) {
		l.plain = bufio.NewScanner(s.In)
		l.plain.Buffer(nil, maxLine)
	}
	return l
}

// read returns the next line, io.EOF after the last one, and errInterrupt after
// Ctrl-C. With keep, the line goes into the history.
func (l *lines) read(prompt string, keep bool) (string, error) {
	if l.plain != nil {
		if l.plain.Scan() {
			return l.plain.Text(), nil
		}
		if err := l.plain.Err(); err != nil {
			return "", err
		}
		return "", io.EOF
	}
	in, _ := l.s.In.(*os.File)
	was, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return "", err
	}
	defer func() { _ = term.Restore(int(in.Fd()), was) }()
	keys := &keyboard{in: l.s.In}
	t := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{keys, l.s.Out}, prompt)
	if w, h, err := term.GetSize(int(in.Fd())); err == nil && w > 0 && h > 0 {
		_ = t.SetSize(w, h) // on an error the default size stays
	}
	t.History = &kept{l.history, keep}
	t.AutoCompleteCallback = l.tab(t)
	line, err := t.ReadLine()
	if errors.Is(err, term.ErrPasteIndicator) {
		err = nil
	}
	if keys.interrupted {
		l.s.printf("\r\n")
		return "", errInterrupt
	}
	return line, err
}

// tab completes a line with the cursor at its end: it adds the longest common prefix
// of the completions, and lists them if that adds nothing.
func (l *lines) tab(t *term.Terminal) func(string, int, rune) (string, int, bool) {
	return func(line string, pos int, key rune) (string, int, bool) {
		if key != '\t' || l.complete == nil || pos != len(line) {
			return "", 0, false
		}
		list := l.complete(line)
		if len(list) == 0 {
			return line, pos, true
		}
		common := list[0]
		for _, c := range list[1:] {
			for !strings.HasPrefix(c, common) {
				common = common[:len(common)-1]
			}
		}
		if len(list) > 1 && len(common) <= len(line) {
			go func() { _, _ = t.Write([]byte(show(strings.Join(list, "   ")) + "\n")) }() // the terminal is locked here
			return line, pos, true
		}
		if len(list) == 1 && !strings.HasSuffix(common, " ") {
			common += " "
		}
		return common, len(common), true
	}
}

// keyboard detects Ctrl-C, which the line editor reports as the end of the input.
type keyboard struct {
	in          io.Reader
	interrupted bool
}

const ctrlC = 3

func (k *keyboard) Read(b []byte) (int, error) {
	n, err := k.in.Read(b[:min(len(b), 1)]) // byte by byte, so that input after the line stays unread
	if n > 0 && b[0] == ctrlC {
		k.interrupted = true
	}
	return n, err
}

// typedLines is the history of typed lines, newest last, in a file that is the person's alone.
type typedLines struct {
	file string // "": not saved
	list []string
}

// maxHistory is the number of lines that are kept.
const maxHistory = 1000

func openHistory(home string) *typedLines {
	h := &typedLines{file: filepath.Join(home, "chat_history")}
	b, err := os.ReadFile(h.file)
	if err != nil {
		return h // no history yet
	}
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSuffix(line, "\n"); line != "" {
			h.list = append(h.list, line)
		}
	}
	h.list = h.list[max(0, len(h.list)-maxHistory):]
	return h
}

func (h *typedLines) add(line string) {
	if line = strings.TrimSpace(line); line == "" || strings.ContainsAny(line, "\n\r") || len(h.list) > 0 && h.list[len(h.list)-1] == line {
		return
	}
	h.list = append(h.list, line)
	h.list = h.list[max(0, len(h.list)-maxHistory):]
}

// save writes the history to its file.
func (h *typedLines) save() error {
	if h.file == "" || len(h.list) == 0 {
		return nil
	}
	return wholefile.Replace(h.file, []byte(strings.Join(h.list, "\n")+"\n"))
}

// kept is the history in the line editor's order: entry 0 is the newest.
type kept struct {
	h    *typedLines
	keep bool
}

func (k *kept) Add(line string) {
	if k.keep {
		k.h.add(line)
	}
}

func (k *kept) Len() int {
	if !k.keep {
		return 0
	}
	return len(k.h.list)
}

func (k *kept) At(i int) string { return k.h.list[len(k.h.list)-1-i] }
