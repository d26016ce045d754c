package redact

import (
	"io"
	"slices"
	"strings"
)

// maxWord is how much of a text without white space is held back, in bytes.
const maxWord = 64 << 10

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
	if at := lastBegin(s); at >= 0 && len(s)-at < maxPEM {
		end, open := pemKey(s[at:])
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
