// Package eventlog writes events as JSON lines, for people with grep and for log
// collectors: calls.log has every call, security.log every violation, remit.log the
// program's own messages, warnings and errors. Start at [Open] and [Log.Executed].
//
// Repeated events of one kind are sampled in security.log and remit.log, so that a
// flood cannot rotate out earlier events.
//
// The ledger is the record; these files are a convenience. They never contain an
// argument's value: the author of an entry passes a short subject, which is redacted
// and shortened here again.
package eventlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/DeRuina/timberjack"

	"github.com/remitrun/remit/internal/base/redact"
)

// The files in the log folder.
const (
	MainFile     = "remit.log"
	CallsFile    = "calls.log"
	SecurityFile = "security.log"
)

// The events.
const (
	EventStarted   = "capability_started"
	EventExecuted  = "capability_executed"
	EventSlow      = "capability_slow"
	EventFailed    = "capability_failed"
	EventTimeout   = "capability_timeout"
	EventViolation = "security_violation"
	EventWeakened  = "isolation_weakened"
)

// maxText is how many bytes of a subject or an error an entry keeps.
const maxText = 256

// Options say how logs are written. The zero Options are ready to use.
type Options struct {
	Level      slog.Level       // the least level written; the zero value is INFO
	MaxSizeMB  int              // size in MiB at which a file is rotated; 0 means 20
	MaxBackups int              // rotated files kept of each; 0 means 5
	FlushEvery time.Duration    // how long calls.log may lag; 0 means a second
	Redactor   *redact.Redactor // nil: knows the well-known formats only
}

// Entry is one event of one call. Empty fields are written as null or left out,
// as in the format of AgentOS's audit log, which the names follow.
type Entry struct {
	Extension string        // whose tool it is: an extension's ID, "mcp:github", "builtin"
	Command   string        // the requested command: "/postman", or a plan step's ID
	Action    string        // of an extension's command; else the tool's ID
	Runner    string        // the executor: "exec.postman_cli", "mcp", "builtin"
	Session   string        // the session's ID, or the run's if it has no session
	User      string        // the principal
	Duration  time.Duration // of the call so far
	ExitCode  *int          // of a process
	Tool      string        // the tool's ID, or the program of an extension's command
	Args      int           // number of arguments
	WorkDir   string        // where the tool's program starts, or the workspace
	Subject   string        // the object of the call, in short
	Index     int           // the call's place in its run, from 1
	Risk      string
	Rule      string // the deciding rule
	Code      string // as "E1001"
	Error     string // the message that the caller was given
}

// Log writes the three files. It is safe for concurrent use.
type Log struct {
	main, calls, security *slog.Logger
	files                 []io.Closer
	buffer                *buffered
	redactor              *redact.Redactor
	flood                 flood
	stop                  chan struct{}
	stopped               sync.WaitGroup
	once                  sync.Once
	closed                error
}

// Open makes the folder where it is missing (mode 0700) and opens the logs in it
// (mode 0600). The Log must be closed.
func Open(dir string, o Options) (*Log, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("the log folder: %w", err)
	}
	o = o.withDefaults()
	l := &Log{redactor: o.Redactor, stop: make(chan struct{})}
	writers := map[string]io.Writer{}
	for _, name := range []string{MainFile, CallsFile, SecurityFile} {
		f, err := openFile(filepath.Join(dir, name), o)
		if err != nil {
			return nil, errors.Join(err, l.closeFiles())
		}
		l.files = append(l.files, f)
		writers[name] = f
	}
	l.buffer = &buffered{to: writers[CallsFile]}
	l.main = slog.New(handler(writers[MainFile], o.Level)).With("logger", "remit")
	l.calls = slog.New(handler(l.buffer, o.Level)).With("logger", "remit.runner")
	l.security = slog.New(handler(writers[SecurityFile], slog.LevelDebug)).With("logger", "remit.runner")
	l.stopped.Go(func() { l.flushEvery(o.FlushEvery) })
	return l, nil
}

func (o Options) withDefaults() Options {
	if o.MaxSizeMB <= 0 {
		o.MaxSizeMB = 20
	}
	if o.MaxBackups <= 0 {
		o.MaxBackups = 5
	}
	if o.FlushEvery <= 0 {
		o.FlushEvery = time.Second
	}
	return o
}

// openFile opens one rotated log. An existing file of a laxer mode is tightened;
// anything but a regular file is refused, since writing to it could block or go
// elsewhere.
func openFile(name string, o Options) (*timberjack.Logger, error) {
	if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("the log %q is not a regular file", name)
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("the log: %w", err)
	}
	if err := errors.Join(f.Chmod(0o600), f.Close()); err != nil {
		return nil, fmt.Errorf("the log: %w", err)
	}
	return &timberjack.Logger{Filename: name, MaxSize: o.MaxSizeMB, MaxBackups: o.MaxBackups, FileMode: 0o600}, nil
}

// handler writes JSON lines whose time is called timestamp and whose message is
// called event.
func handler(w io.Writer, level slog.Level) slog.Handler {
	return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) > 0 {
			return a
		}
		switch a.Key {
		case slog.TimeKey:
			return slog.Time("timestamp", a.Value.Time().UTC())
		case slog.LevelKey:
			if a.Value.Any() == slog.LevelWarn {
				return slog.String(a.Key, "WARNING")
			}
		case slog.MessageKey:
			a.Key = "event"
		}
		return a
	}})
}

// Logger returns the logger of the program's own messages, in remit.log.
func (l *Log) Logger() *slog.Logger { return l.main }

// Started logs that a call is about to be executed.
func (l *Log) Started(e Entry) { l.write(slog.LevelDebug, EventStarted, e) }

// Executed logs that a call completed.
func (l *Log) Executed(e Entry) { l.write(slog.LevelInfo, EventExecuted, e) }

// Slow logs that a call takes or took longer than expected.
func (l *Log) Slow(e Entry) { l.write(slog.LevelWarn, EventSlow, e) }

// Failed logs that a call failed.
func (l *Log) Failed(e Entry) { l.write(slog.LevelError, EventFailed, e) }

// TimedOut logs that a call timed out.
func (l *Log) TimedOut(e Entry) { l.write(slog.LevelError, EventTimeout, e) }

// Violation logs that a policy, a handle or a limit refused a call.
func (l *Log) Violation(e Entry) { l.write(slog.LevelError, EventViolation, e) }

// Weakened logs that a call ran a command with less than full isolation, as its
// policies allow.
func (l *Log) Weakened(e Entry) { l.write(slog.LevelWarn, EventWeakened, e) }

// write hands the entry to every file that is to have it.
func (l *Log) write(level slog.Level, event string, e Entry) {
	ctx := context.Background()
	security := event == EventViolation || event == EventWeakened
	if !security && !l.calls.Enabled(ctx, level) {
		return
	}
	attrs := l.attrs(event, e)
	l.calls.LogAttrs(ctx, level, event, attrs...)
	if security {
		left, ok := l.flood.admit(event, e, time.Now())
		if !ok {
			return // calls.log has it, and the next one of its kind says how many there were
		}
		if left > 0 {
			attrs = append(attrs, slog.Int("suppressed", left))
		}
	}
	if level >= slog.LevelWarn {
		l.main.LogAttrs(ctx, level, event, attrs...)
	}
	if security {
		l.security.LogAttrs(ctx, level, event, attrs...)
	}
}

func (l *Log) attrs(event string, e Entry) []slog.Attr {
	attrs := make([]slog.Attr, 0, 13)
	for _, f := range [...]struct{ key, value string }{
		{"extension_id", e.Extension}, {"command", e.Command}, {"action", e.Action}, {"runner", e.Runner},
		{"session_id", e.Session}, {"user_id", e.User},
	} {
		attrs = append(attrs, slog.String(f.key, l.text(f.value)))
	}
	if event != EventStarted {
		attrs = append(attrs, slog.Bool("success", e.Code == "" && e.Error == ""))
	}
	d := e.Duration.Round(time.Microsecond)
	attrs = append(attrs, slog.Float64("duration_seconds", d.Seconds()), slog.Float64("duration_ms", float64(d.Microseconds())/1000))
	if e.ExitCode != nil {
		attrs = append(attrs, slog.Int("exit_code", *e.ExitCode))
	} else {
		attrs = append(attrs, slog.Any("exit_code", nil))
	}
	attrs = append(attrs, l.metadata(e))
	if e.Error == "" && e.Code == "" {
		return append(attrs, slog.Any("error", nil))
	}
	return append(attrs, slog.Group("error", slog.String("code", l.text(e.Code)), slog.String("message", l.text(e.Error))))
}

func (l *Log) metadata(e Entry) slog.Attr {
	meta := append(make([]slog.Attr, 0, 7), slog.String("tool", l.text(e.Tool)), slog.Int("args_count", e.Args), slog.String("work_dir", l.text(e.WorkDir)))
	if e.Index > 0 {
		meta = append(meta, slog.Int("index", e.Index))
	}
	for _, f := range [...]struct{ key, value string }{{"subject", e.Subject}, {"risk", e.Risk}, {"rule", e.Rule}} {
		if f.value != "" {
			meta = append(meta, slog.String(f.key, l.text(f.value)))
		}
	}
	return slog.Attr{Key: "metadata", Value: slog.GroupValue(meta...)}
}

// lookMost is how many bytes of a text are looked through.
const lookMost = 16 * maxText

// text redacts secrets, makes control characters visible and shortens long text.
// Redaction comes first, so that no part of a secret stays.
func (l *Log) text(s string) string {
	if s == "" {
		return s
	}
	long := len(s) > lookMost
	if long {
		s = s[:lookMost]
	}
	s = l.redactor.Text(s)
	if long { // the last secret may have been cut in two
		s = s[:max(0, len(s)-lookMost/2)]
	}
	s = redact.Show(s)
	if long || len(s) > maxText {
		s = strings.ToValidUTF8(s[:min(len(s), maxText)], "") + "…"
	}
	return s
}

// flushEvery writes buffered lines to the file until the log is closed.
func (l *Log) flushEvery(d time.Duration) {
	t := time.NewTicker(d)
	defer t.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-t.C:
			_ = l.flush() // it is told, and done again
		}
	}
}

func (l *Log) flush() error {
	lost, err := l.buffer.flush()
	switch {
	case err != nil:
		l.main.Error("log_failed", "file", CallsFile, "error", err.Error())
	case lost > 0:
		l.main.Error("log_failed", "file", CallsFile, "lost", lost)
	}
	return err
}

// Close flushes and closes the logs. Closing again does nothing more.
func (l *Log) Close() error {
	l.once.Do(func() {
		close(l.stop)
		l.stopped.Wait()
		l.closed = errors.Join(l.flushLast(), l.closeFiles())
	})
	return l.closed
}

func (l *Log) flushLast() error {
	l.buffer.refuse()
	return l.flush()
}

func (l *Log) closeFiles() error {
	var errs []error
	for _, f := range l.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// Bounds of the entries for calls.log that are not yet written, in bytes.
const (
	flushAt  = 64 << 10
	heldMost = 1 << 20 // while the file cannot be written
)

// buffered is a writer with a buffer for several goroutines. It takes whole entries only, so that
// rotation never cuts one. A write that fails keeps its entries for the next one, since a disk may
// have room again. A closed one takes nothing.
type buffered struct {
	mu   sync.Mutex
	to   io.Writer
	held []byte
	lost int // entries that did not fit since the last flush that was told
	done bool
}

var errClosed = errors.New("the log is closed")

func (b *buffered) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done {
		return 0, errClosed
	}
	if len(b.held)+len(p) > flushAt {
		if err := b.write(); err != nil && len(b.held)+len(p) > heldMost {
			b.lost++
			return 0, err
		}
	}
	b.held = append(b.held, p...)
	return len(p), nil
}

func (b *buffered) write() error {
	if len(b.held) == 0 {
		return nil
	}
	n, err := b.to.Write(b.held)
	b.held = append(b.held[:0], b.held[n:]...)
	return err
}

// flush writes all entries. It returns the number of lost entries, once.
func (b *buffered) flush() (lost int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.write(); err != nil {
		return 0, err
	}
	lost, b.lost = b.lost, 0
	return lost, nil
}

// refuse has no more entries taken.
func (b *buffered) refuse() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done = true
}
