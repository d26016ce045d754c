package eventlog_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/remitrun/remit/internal/base/redact"
	"github.com/remitrun/remit/internal/record/eventlog"
)

func TestMain(m *testing.M) {
	// The rotating writer keeps one goroutine for its old files.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/DeRuina/timberjack.(*Logger).millRun"))
}

func open(t testing.TB, dir string, o eventlog.Options) *eventlog.Log {
	t.Helper()
	l, err := eventlog.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// lines closes the log and decodes each line of a file.
func lines(t *testing.T, l *eventlog.Log, file string) []map[string]any {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []map[string]any
	for s := bufio.NewScanner(bytes.NewReader(src)); s.Scan(); {
		var m map[string]any
		if err := json.Unmarshal(s.Bytes(), &m); err != nil {
			t.Fatalf("%s: %q: %v", file, s.Text(), err)
		}
		out = append(out, m)
	}
	return out
}

func entry() eventlog.Entry {
	zero := 0
	return eventlog.Entry{Extension: "builtin", Command: "readme", Action: "fs.read", Runner: "builtin", Session: "0195d3c4", User: "user:ann",
		Duration: 1234567 * time.Nanosecond, ExitCode: &zero, Tool: "fs.read", Args: 1, WorkDir: "/work", Subject: "README.md", Index: 3, Risk: "low", Rule: `files.read.allow[0] "**"`}
}

func TestEventsHaveTheirLevelsAndFiles(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, eventlog.Options{Level: slog.LevelDebug})
	bad := entry()
	bad.Code, bad.Error = "E1001", "denied"
	l.Started(entry())
	l.Executed(entry())
	l.Slow(entry())
	l.Failed(bad)
	l.TimedOut(bad)
	l.Violation(bad)
	l.Weakened(entry())
	l.Logger().Info("run_started", "run", "0195")

	type line struct{ event, level string }
	want := map[string][]line{
		eventlog.CallsFile: {{"capability_started", "DEBUG"}, {"capability_executed", "INFO"}, {"capability_slow", "WARNING"},
			{"capability_failed", "ERROR"}, {"capability_timeout", "ERROR"}, {"security_violation", "ERROR"}, {"isolation_weakened", "WARNING"}},
		eventlog.MainFile: {{"capability_slow", "WARNING"}, {"capability_failed", "ERROR"}, {"capability_timeout", "ERROR"},
			{"security_violation", "ERROR"}, {"isolation_weakened", "WARNING"}, {"run_started", "INFO"}},
		eventlog.SecurityFile: {{"security_violation", "ERROR"}, {"isolation_weakened", "WARNING"}},
	}
	for file, wants := range want {
		got := lines(t, l, filepath.Join(dir, file))
		if len(got) != len(wants) {
			t.Fatalf("%s has %d lines, want %d", file, len(got), len(wants))
		}
		for i, w := range wants {
			if got[i]["event"] != w.event || got[i]["level"] != w.level {
				t.Errorf("%s line %d: %v %v, want %v", file, i, got[i]["event"], got[i]["level"], w)
			}
		}
	}
}

func TestFields(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, eventlog.Options{})
	l.Started(entry()) // below the level
	l.Executed(entry())
	got := lines(t, l, filepath.Join(dir, eventlog.CallsFile))
	if len(got) != 1 {
		t.Fatalf("%d lines, want 1", len(got))
	}
	if _, err := time.Parse(time.RFC3339Nano, got[0]["timestamp"].(string)); err != nil || !strings.HasSuffix(got[0]["timestamp"].(string), "Z") {
		t.Errorf("timestamp %v is not RFC 3339 in UTC", got[0]["timestamp"])
	}
	delete(got[0], "timestamp")
	b, err := json.Marshal(got[0])
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"action":"fs.read","command":"readme","duration_ms":1.235,"duration_seconds":0.001235,"error":null,"event":"capability_executed","exit_code":0,` +
		`"extension_id":"builtin","level":"INFO","logger":"remit.runner","metadata":{"args_count":1,"index":3,"risk":"low","rule":"files.read.allow[0] \"**\"","subject":"README.md","tool":"fs.read","work_dir":"/work"},` +
		`"runner":"builtin","session_id":"0195d3c4","success":true,"user_id":"user:ann"}`
	if string(b) != want {
		t.Errorf("got  %s\nwant %s", b, want)
	}
}

func TestNothingInjectsALine(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, eventlog.Options{})
	const bad = "x\n{\"event\":\"capability_executed\"}\r\n\u2028\x1b[2J\xff\u202e"
	l.Violation(eventlog.Entry{Extension: bad, Command: bad, Action: bad, Runner: bad, Session: bad, User: bad, Subject: bad, Risk: bad, Rule: bad, Code: bad, Error: bad, Tool: bad, WorkDir: bad})
	for _, file := range []string{eventlog.MainFile, eventlog.CallsFile, eventlog.SecurityFile} {
		if got := lines(t, l, filepath.Join(dir, file)); len(got) != 1 || got[0]["event"] != "security_violation" {
			t.Errorf("%s: %v", file, got)
		}
		src, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.ContainsAny(src, "\x1b\r\u2028\u202e") || bytes.Count(src, []byte("\n")) != 1 {
			t.Errorf("%s holds raw control characters: %q", file, src)
		}
	}
}

func TestSecretsAndLongTextStayOut(t *testing.T) {
	dir := t.TempDir()
	const secret = "tangerine-dream-1974"
	l := open(t, dir, eventlog.Options{Redactor: redact.New(map[string]string{"A_TOKEN": secret})})
	e := entry()
	e.Subject = strings.Repeat("y", 250) + secret + strings.Repeat("z", 1<<20)
	e.Error = "Authorization: Bearer abcdef"
	l.Failed(e)
	got := lines(t, l, filepath.Join(dir, eventlog.CallsFile))[0]
	subject := got["metadata"].(map[string]any)["subject"].(string)
	if len(subject) > 300 || !strings.HasSuffix(subject, "…") {
		t.Errorf("the subject has %d bytes", len(subject))
	}
	src, err := os.ReadFile(filepath.Join(dir, eventlog.CallsFile))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(src, []byte("tanger")) || bytes.Contains(src, []byte("abcdef")) {
		t.Errorf("a secret is in the log: %s", src)
	}
}

func TestFilesArePrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	lax := filepath.Join(dir, eventlog.CallsFile)
	if err := os.WriteFile(lax, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	l := open(t, dir, eventlog.Options{})
	l.Violation(entry())
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{eventlog.MainFile, eventlog.CallsFile, eventlog.SecurityFile} {
		info, err := os.Stat(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, want 0600", file, info.Mode().Perm())
		}
	}
}

func TestALinkInThePlaceOfALogIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(t.TempDir(), "elsewhere"), filepath.Join(dir, eventlog.SecurityFile)); err != nil {
		t.Fatal(err)
	}
	if l, err := eventlog.Open(dir, eventlog.Options{}); err == nil {
		t.Error("opened")
		_ = l.Close()
	}
}

func TestViolationsAreThereAtOnceAndCallsSoon(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, eventlog.Options{FlushEvery: time.Millisecond})
	l.Violation(entry())
	if info, err := os.Stat(filepath.Join(dir, eventlog.SecurityFile)); err != nil || info.Size() == 0 {
		t.Errorf("security.log is empty (%v)", err)
	}
	deadline := time.Now().Add(time.Minute)
	for {
		info, err := os.Stat(filepath.Join(dir, eventlog.CallsFile))
		if err == nil && info.Size() > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("calls.log was never flushed")
		}
		time.Sleep(time.Millisecond)
	}
}

func TestManyWritersAndRotation(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, eventlog.Options{MaxSizeMB: 1, MaxBackups: 20})
	const writers, each = 8, 600
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			e := entry()
			e.Session = strconv.Itoa(w)
			for i := range each {
				e.Index = i + 1
				l.Executed(e)
			}
		})
	}
	wg.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "calls*.log"))
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, f := range files {
		total += len(lines(t, l, f))
		if info, err := os.Stat(f); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", f, info.Mode(), err)
		}
	}
	if total != writers*each {
		t.Errorf("%d lines in %d files, want %d", total, len(files), writers*each)
	}
	if len(files) < 2 {
		t.Error("no file was rotated: the test shows nothing")
	}
}

func BenchmarkExecuted(b *testing.B) {
	l := open(b, b.TempDir(), eventlog.Options{})
	e := entry()
	b.ReportAllocs()
	for b.Loop() {
		l.Executed(e)
	}
}

func BenchmarkViolation(b *testing.B) {
	l := open(b, b.TempDir(), eventlog.Options{})
	e := entry()
	b.ReportAllocs()
	for b.Loop() {
		l.Violation(e)
	}
}
