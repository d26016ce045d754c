package redact

import (
	"io"
	"slices"
	"strings"
)

const (
	maxWord    = 64 << 10 // held back of a text without white space, in bytes
	maxKeyHeld = 16 << 10 // held back of a private key whose end has not come, in bytes
)

// KeyWriter passes text on without the known formats of keys, see [Keys]. It holds back the last word, and a private key
// that has begun. Call Flush at the end. It is not safe for concurrent use.
type KeyWriter struct {
	To io.Writer
	// Rules are those that matched so far, each once.
	Rules []string

	held []byte
}

// Write implements io.Writer.
func (w *KeyWriter) Write(b []byte) (int, error) {
	w.held = append(w.held, b...)
	s := string(w.held)
	if err := w.pass(s[:ready(s)]); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Flush passes the held text on.
func (w *KeyWriter) Flush() error { return w.pass(string(w.held)) }

// pass masks and writes s, the beginning of the held text.
func (w *KeyWriter) pass(s string) error {
	if s == "" {
		return nil
	}
	w.held = append(w.held[:0], w.held[len(s):]...)
	text, rules := Keys(s)
	for _, r := range rules {
		if !slices.Contains(w.Rules, r) {
			w.Rules = append(w.Rules, r)
		}
	}
	_, err := io.WriteString(w.To, text)
	return err
}

// ready is how many bytes of a text can be passed on: no key of them goes on behind.
func ready(s string) int {
	n := strings.LastIndexAny(s, " \t\r\n") + 1
	if at := lastBegin(s); at >= 0 && len(s)-at < maxKeyHeld {
		open, end := openKey(s[at:])
		if open {
			return min(n, at)
		}
		n = max(n, at+end)
	}
	if len(s)-n <= maxWord {
		return n
	}
	n = len(s) - maxWord/2
	for _, k := range findKeys(s) {
		if k.from < n && n < k.to {
			if n = k.from; n == 0 {
				n = k.to
			}
		}
	}
	return n
}

// openKey reports whether a text that begins with -----BEGIN may be a private key that goes on, and where one that does not
// ends; 0: it is none.
func openKey(s string) (open bool, end int) {
	title, rest, ok := strings.Cut(s[len("-----BEGIN"):], "-----")
	if !ok {
		return len(title) < 120 && !strings.Contains(title, "\n"), 0
	}
	if !strings.Contains(title, "PRIVATE KEY") {
		return false, 0
	}
	body, after, ended := strings.Cut(rest, "-----END")
	for line := range strings.Lines(body) {
		if !strings.HasSuffix(line, "\n") && len(line) < maxLineStart {
			break // its end may come
		}
		if at := lineStart().FindStringIndex(line); at != nil {
			line = line[at[1]:]
		}
		if line = strings.Trim(line, " \t\r\n\"'+,\\"); strings.Contains(line, ": ") {
			continue
		}
		for i := range len(line) {
			if c := line[i]; !keyByte(c) && c != '\\' {
				return false, 0
			}
		}
	}
	if _, after, closed := strings.Cut(after, "-----"); ended && closed {
		return false, len(s) - len(after)
	}
	return true, 0
}

// lineStart matches what tools write before a line of a file.
var lineStart = lazy(`^` + linePart)

// maxLineStart bounds the last line of a text that may go on, in bytes.
const maxLineStart = 1 << 10

// lastBegin is where the last -----BEGIN is; -1: there is none. Most text has none, which is found faster from the front.
func lastBegin(s string) int {
	if !strings.Contains(s, "-----BEGIN") {
		return -1
	}
	return strings.LastIndex(s, "-----BEGIN")
}
