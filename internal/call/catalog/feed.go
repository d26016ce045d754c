package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/inspect"
	"github.com/remitrun/remit/internal/base/tool"
)

const (
	// retryAfter is how long a source that failed is left alone: its tools are
	// refused at once meanwhile.
	retryAfter = 5 * time.Second
	// closeWithin bounds how long a discovery that does not end is waited for.
	closeWithin = 5 * time.Second
	// noticeEvery is how often change notices alone make a source be asked.
	noticeEvery = time.Second
)

// feed is a source with what it offered last. It asks it once at a time: who
// comes meanwhile waits for the same answer.
type feed struct {
	c    *Catalog
	src  Source
	name string
	bad  error // why it cannot be used at all

	mu     sync.Mutex
	last   *snapshot // nil: it never answered
	err    error     // of the last attempt
	since  time.Time // when it began to fail
	tried  time.Time // when the last attempt ended
	gen    uint64    // change notices so far
	flight *flight   // the attempt under way, nil if none
	begun  time.Time // when the last attempt began, by the machine's clock
	closed bool

	failures int  // in a row
	missed   bool // a list went without it, and is told when it answers
	recalled bool // failures that an earlier process recorded were read
	kept     bool // the last failure was remembered beyond this process
	pursued  bool // it is asked again until it answers

	done  chan struct{}
	tasks sync.WaitGroup
}

// flight is one attempt to discover.
type flight struct {
	gen    uint64 // the change notices before it began
	began  time.Time
	cancel context.CancelFunc
	done   chan struct{}
}

func newFeed(c *Catalog, s Source) *feed {
	return &feed{c: c, src: s, name: s.Name(), done: make(chan struct{})}
}

// unfit says why a source cannot have its name. c.mu is held.
func (c *Catalog) unfit(name string) error {
	kind, rest, ok := strings.Cut(name, ":")
	if _, err := tool.ParseID(name); err != nil || !ok || kind == "" || rest == "" || kind == BuiltIn || strings.Contains(rest, ":") {
		return fault.New(fault.Usage, "%q is not a valid source name; expected KIND:NAME, as mcp:github", name).WithHint("give it another name")
	}
	for _, f := range c.feeds {
		switch {
		case f.bad != nil:
		case f.name == name:
			return fault.New(fault.Usage, "two sources are called %s", name).WithHint("give one of them another name")
		case inspect.Alike(f.name, name):
			return fault.New(fault.Usage, "its name looks like that of %s", f.name).WithHint("give one of them another name")
		}
	}
	return nil
}

// listen notes the source's change notices until it is closed, and asks it again
// if anybody ever did; one that tells of changes all the time not more often than
// noticeEvery.
func (f *feed) listen() {
	notices := f.src.Changed()
	if f.bad != nil || notices == nil {
		return
	}
	f.tasks.Go(func() {
		var due <-chan time.Time
		for {
			select {
			case <-f.done:
				return
			case _, open := <-notices:
				if !open {
					return
				}
				if f.notice(); due == nil && !f.renew() {
					due = time.After(noticeEvery)
				}
			case <-due:
				if due = nil; !f.renew() {
					due = time.After(noticeEvery)
				}
			}
		}
	})
}

// notice marks the discovered tools as out of date.
func (f *feed) notice() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gen++
}

// Refresh has every source asked again before its tools are used, except one that was asked
// within the last second.
func (c *Catalog) Refresh() {
	for _, f := range c.all() {
		f.mu.Lock()
		if time.Since(f.begun) >= noticeEvery {
			f.gen++
		}
		f.mu.Unlock()
	}
}

// renew asks the source again if there is a notice to follow. It reports false
// where that has to wait.
func (f *feed) renew() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.last == nil && f.err == nil && f.flight == nil:
		return true // not needed yet
	case f.last != nil && f.last.gen >= f.gen:
		return true
	case f.flight != nil || time.Since(f.begun) < noticeEvery:
		return false
	}
	f.start()
	return true
}

// current returns the tools that the source offers: the cached list while it is fresh, the same for
// as long again while a new one is fetched, and only an answer that began after the last change
// notice once there was one. The error says why there is none.
func (f *feed) current(ctx context.Context) (*snapshot, error) {
	if f.bad != nil {
		return nil, f.bad
	}
	f.mu.Lock()
	now, want := f.c.now(), f.gen
	if s := f.usable(want, now); s != nil {
		if now.Sub(s.at) >= f.c.cfg.Fresh && now.Sub(f.tried) >= retryAfter {
			f.start()
		}
		f.mu.Unlock()
		return s, nil
	}
	hangs := f.flight != nil && now.Sub(f.flight.began) >= f.c.cfg.Timeout
	if f.err != nil && (hangs || f.flight == nil && now.Sub(f.tried) < retryAfter) {
		err := f.failure()
		f.mu.Unlock()
		return nil, err
	}
	f.mu.Unlock()
	return f.wait(ctx, want)
}

// usable is the last answer if it may still be gone by. f.mu is held.
func (f *feed) usable(want uint64, now time.Time) *snapshot {
	if s := f.last; s != nil && s.gen >= want && now.Sub(s.at) < 2*f.c.cfg.Fresh {
		return s
	}
	return nil
}

// glance is current for who lists all sources: one that failed before is not
// waited for, and is asked again meanwhile.
func (f *feed) glance(ctx context.Context) (*snapshot, error) {
	f.mu.Lock()
	f.recallFailure()
	if f.bad != nil || f.err == nil {
		f.mu.Unlock()
		return f.current(ctx)
	}
	defer f.mu.Unlock()
	if f.isDue() {
		f.start()
	}
	return f.last, f.failure()
}

// isDue reports whether a list should ask a failing source again. f.mu is held.
func (f *feed) isDue() bool {
	return f.c.now().Sub(f.tried) >= backoff(f.failures) || f.forgotten()
}

// pursue asks a failing source again, each time that is due, until it answers: the
// client whose list went without its tools is told then.
func (f *feed) pursue() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.missed = true; f.pursued || f.closed || f.bad != nil {
		return
	}
	f.pursued = true
	f.tasks.Go(func() {
		tick := time.NewTicker(f.c.cfg.Poll)
		defer tick.Stop()
		for f.retry() {
			select {
			case <-f.done:
				return
			case <-tick.C:
			}
		}
	})
}

// retry is one step of pursue. It reports false once the source answered or is closed.
func (f *feed) retry() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil || f.closed {
		f.pursued = false
		return false
	}
	if f.isDue() {
		f.start()
	}
	return true
}

// wait waits for an answer that began after so many change notices.
func (f *feed) wait(ctx context.Context, want uint64) (*snapshot, error) {
	ctx, stop := context.WithTimeoutCause(ctx, f.c.cfg.Timeout, errLate)
	defer stop()
	for {
		f.mu.Lock()
		if s := f.usable(want, f.c.now()); s != nil { // it came meanwhile
			f.mu.Unlock()
			return s, nil
		}
		fl := f.start()
		f.mu.Unlock()
		if fl == nil {
			return nil, fault.New(fault.ToolFailed, "the source %s is closed", f.name)
		}
		select {
		case <-fl.done:
		case <-ctx.Done():
			if err := f.late(ctx, fl); err != nil {
				return nil, err
			}
		}
		f.mu.Lock()
		s, err := f.usable(want, f.c.now()), f.failure()
		f.mu.Unlock()
		switch {
		case s != nil:
			return s, nil
		case err == nil: // the answer is out of date already, as after a sleep of the machine
		case fl.gen >= want:
			return nil, err
		}
	}
}

var errLate = errors.New("the source did not answer in time")

// late says why an attempt is not waited for any more, or nothing if it ended
// just now.
func (f *feed) late(ctx context.Context, fl *flight) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.flight != fl {
		return nil
	}
	if !errors.Is(context.Cause(ctx), errLate) {
		f.missed = true
		return fault.Wrap(fault.ToolCancelled, ctx.Err(), "the source %s did not answer before the call was cancelled", f.name)
	}
	if f.since.IsZero() {
		f.since = f.c.now()
	}
	f.err = fault.New(fault.ToolTimeout, "it did not list its tools within %s", f.c.cfg.Timeout)
	f.tried = f.c.now()
	return f.failure()
}

// failure is the last error in words. f.mu is held.
func (f *feed) failure() error {
	if f.err == nil {
		return nil
	}
	why := "" // an error without a code is for the operator only
	if e, ok := errors.AsType[*fault.Error](f.err); ok {
		why = ": " + e.Msg
	}
	return fault.Wrap(fault.ToolFailed, f.err, "the source %s fails%s", f.name, why).ForOperator("remit tools tells since when")
}

// start begins an attempt unless one is under way, and gives the one that is.
// f.mu is held. It gives nil once the source is closed.
func (f *feed) start() *flight {
	if f.flight != nil || f.closed {
		return f.flight
	}
	ctx, cancel := context.WithTimeout(context.Background(), f.c.cfg.Timeout)
	fl := &flight{gen: f.gen, began: f.c.now(), cancel: cancel, done: make(chan struct{})}
	f.flight, f.begun = fl, time.Now()
	f.tasks.Go(func() {
		defer cancel()
		s, err := f.discover(ctx)
		if err == nil {
			s.gen = fl.gen
		}
		f.land(fl, s, err)
	})
	return fl
}

// discover asks the source for its tools, and checks its answer.
func (f *feed) discover(ctx context.Context) (s *snapshot, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fault.New(fault.ToolPanicked, "it crashed: %v", p)
		}
	}()
	var ahead sync.WaitGroup
	defer ahead.Wait()
	ahead.Go(func() { _, _ = f.c.memory.Load(f.name) }) // it is kept; if it fails, the next user reports it
	tools, err := f.src.Discover(ctx)
	if err != nil {
		return nil, err
	}
	return f.c.admit(f.name, tools), nil
}

// land takes an attempt's outcome in, also when it came too late for who waited.
func (f *feed) land(fl *flight, s *snapshot, err error) {
	f.mu.Lock()
	was, now := f.last, f.c.now()
	f.flight, f.tried = nil, now
	if f.err = err; err != nil {
		f.failures++
		if f.since.IsZero() {
			f.since = now
		}
	} else {
		f.last, f.since, f.failures = s, time.Time{}, 0
	}
	closed, missed := f.closed, f.missed
	f.missed = missed && err != nil
	if !closed { // else it was cut off
		f.keepFailure()
	}
	f.mu.Unlock()
	close(fl.done)
	if err == nil && (missed || !sameTools(was, s)) {
		f.c.announceChange(f.name)
	}
}

// sameTools reports whether two snapshots offer the same. The first one is not a change.
func sameTools(a, b *snapshot) bool {
	return a == nil || slices.EqualFunc(a.sorted, b.sorted, func(x, y *listed) bool {
		return x.said.ID == y.said.ID && x.entry.Digest == y.entry.Digest
	})
}

// state is the feed's last answer and its failure, without asking the source.
func (f *feed) state() (last *snapshot, since time.Time, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.bad != nil {
		return nil, time.Time{}, f.bad
	}
	return f.last, f.since, f.err
}

// knownIDs are the IDs of its tools, as discovered or else as remembered.
func (f *feed) knownIDs() []string {
	var out []string
	last, _, _ := f.state()
	if last != nil {
		for _, l := range last.sorted {
			out = append(out, string(l.said.ID))
		}
		return out
	}
	if f.bad != nil {
		return nil
	}
	records, err := f.c.memory.Load(f.name)
	if err != nil {
		return nil // listing it says so
	}
	for id := range records {
		out = append(out, string(id))
	}
	slices.Sort(out)
	return out
}

// close ends the source and waits for the requests to it.
func (f *feed) close() error {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return nil
	}
	f.closed = true
	if f.flight != nil {
		f.flight.cancel()
	}
	f.mu.Unlock()
	close(f.done)
	err := f.src.Close()
	ended := make(chan struct{})
	go func() { f.tasks.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(closeWithin):
		err = errors.Join(err, fmt.Errorf("the source %s does not stop", f.name))
	}
	return err
}
