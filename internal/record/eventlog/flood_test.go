package eventlog_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/record/eventlog"
)

// What happened before a flood is still in security.log after it, whatever the flood
// consists of, and so is what another one does meanwhile.
func TestAFloodDoesNotRotateEvidenceOut(t *testing.T) {
	const lines = 20000
	for name, next := range map[string]func(i int) eventlog.Entry{
		"a stranger": func(int) eventlog.Entry {
			return eventlog.Entry{Action: "api", Code: "E6002", Error: "the signature does not hold"}
		},
		"one grant": func(i int) eventlog.Entry {
			return eventlog.Entry{Action: "fs.read", User: "agent:x", Code: "E1001", Subject: fmt.Sprint(i)}
		},
		"many holders": func(i int) eventlog.Entry {
			return eventlog.Entry{Action: "fs.read", User: fmt.Sprintf("agent:%d", i), Code: "E1001"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l, err := eventlog.Open(dir, eventlog.Options{MaxSizeMB: 1, MaxBackups: 1})
			if err != nil {
				t.Fatal(err)
			}
			l.Violation(eventlog.Entry{Action: "grant", User: "user:eve", Code: "E6001", Error: "the evidence"})
			for i := range lines {
				l.Violation(next(i))
				if i == lines/2 {
					l.Violation(eventlog.Entry{Action: "grant", User: "user:eve", Code: "E6001", Error: "more evidence"})
				}
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(filepath.Join(dir, eventlog.SecurityFile))
			if err != nil {
				t.Fatal(err)
			}
			text := string(b)
			if !strings.Contains(text, "the evidence") || !strings.Contains(text, "more evidence") {
				t.Error("the evidence is gone")
			}
			if n := strings.Count(text, "\n"); n < 60 || n > 1000 {
				t.Errorf("a flood of %d wrote %d lines", lines, n)
			}
			if !strings.Contains(text, `"suppressed":`) {
				t.Error("it does not say how many are left out")
			}
		})
	}
}
