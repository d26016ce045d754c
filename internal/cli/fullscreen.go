package cli

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"

	"github.com/remitrun/remit/internal/base/fault"
)

// fullscreen draws frames over a whole terminal and reads single keys. It must be closed.
type fullscreen struct {
	s       *session
	in, out *os.File
	restore func()
	drawn   string // the last frame
}

// openFullscreen takes the terminal over. Its argument names the command, as approvals watch;
// without a terminal, hint names a replacement.
func (s *session) openFullscreen(what, hint string) (*fullscreen, error) {
	in, isFile := s.In.(*os.File)
	out, _ := s.Out.(*os.File)
	if s.json || !isFile || out == nil || !isTerminal(s.In) || !s.moves(s.Out) {
		return nil, fault.New(fault.Usage, "remit %s needs a terminal", what).WithHint("%s", hint)
	}
	state, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, fault.Wrap(fault.Usage, err, "the terminal's mode cannot be set")
	}
	s.printf("\x1b[?1049h\x1b[?25l") // the alternate screen, without a cursor
	return &fullscreen{s: s, in: in, out: out, restore: func() { _ = term.Restore(int(in.Fd()), state) }}, nil
}

// close gives the terminal back as it was.
func (f *fullscreen) close() {
	f.s.printf("\x1b[?25h\x1b[?1049l")
	f.restore()
}

// size returns the terminal's columns and rows.
func (f *fullscreen) size() (w, h int) {
	w, h, err := term.GetSize(int(f.out.Fd()))
	if err != nil || w < 1 || h < 1 {
		return 80, 24
	}
	return w, h
}

// line is a line of a frame: safe text in one colour.
type line struct {
	text   string
	colour colour
}

// draw shows a frame. Lines are cut to the terminal's width, and so is their number to its height.
func (f *fullscreen) draw(lines []line) {
	w, h := f.size()
	var b strings.Builder
	b.WriteString("\x1b[H")
	for i, l := range lines[:min(len(lines), h)] {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(f.s.paint(l.colour, runewidth.Truncate(l.text, w, "…")) + "\x1b[K")
	}
	b.WriteString("\x1b[J")
	if frame := b.String(); frame != f.drawn {
		f.s.printf("%s", frame)
		f.drawn = frame
	}
}

// The keys that are no characters.
const (
	keyUp       = "up"
	keyDown     = "down"
	keyPageUp   = "page up"
	keyPageDown = "page down"
)

// sequences are the keys that terminals send as several bytes.
var sequences = map[string]string{
	"\x1b[A": keyUp, "\x1bOA": keyUp, "\x1b[B": keyDown, "\x1bOB": keyDown, "\x1b[5~": keyPageUp, "\x1b[6~": keyPageDown,
}

// keys returns the typed keys, waiting at most the given time. Each key is a character, or one of
// the names above; unknown sequences are dropped.
func (f *fullscreen) keys(ctx context.Context, wait time.Duration) ([]string, error) {
	typed, err := awaitInput(ctx, int(f.in.Fd()), wait)
	if err != nil || !typed {
		return nil, err
	}
	buf := make([]byte, 4096)
	n, err := f.in.Read(buf)
	return splitKeys(string(buf[:n])), err
}

func splitKeys(typed string) (keys []string) {
	for typed != "" {
		if typed[0] == 0x1b && len(typed) > 1 {
			end := sequenceEnd(typed)
			if name := sequences[typed[:end]]; name != "" {
				keys = append(keys, name)
			}
			typed = typed[end:]
			continue
		}
		r := []rune(typed)[0]
		keys = append(keys, string(r))
		typed = typed[min(len(string(r)), len(typed)):]
	}
	return keys
}

// sequenceEnd is the length of the escape sequence that a text begins with.
func sequenceEnd(typed string) int {
	if typed[1] != '[' && typed[1] != 'O' {
		return 2
	}
	for i := 2; i < len(typed); i++ {
		if c := typed[i]; c >= '@' && c <= '~' {
			return i + 1
		}
	}
	return len(typed)
}

// rewrap breaks safe lines at a width. The rest of a broken line is marked, so that it cannot
// pass for a line of its own.
func rewrap(text string, w int) (out []string) {
	const more = "  + "
	for one := range strings.Lines(text) {
		one = strings.TrimSuffix(one, "\n")
		first := chop([]string{one}, w)
		out = append(out, first[0])
		if len(first) == 1 {
			continue
		}
		for _, rest := range chop([]string{one[len(first[0]):]}, max(w-len(more), 1)) {
			out = append(out, more+rest)
		}
	}
	return out
}
