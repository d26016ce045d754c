package cli

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"
)

// activity shows that long work goes on: one animated line on standard error, which is erased in
// the end. The nil activity shows nothing. It must be stopped.
type activity struct {
	s    *session
	quit chan struct{}
	wait sync.WaitGroup

	mu          sync.Mutex
	text        string
	begun       time.Time // of the work; nothing is shown for short work
	done, total uint64    // total 0: unknown
	held        bool      // something else is printed
	painted     bool
	frame       int
}

// How soon the line appears, and how often it changes.
const (
	activityAfter = 300 * time.Millisecond
	activityEvery = 100 * time.Millisecond
)

// startActivity begins to show a text. It returns nil where only plain text may be printed: with
// --json, without a terminal, and where NO_COLOR or TERM=dumb is set.
func (s *session) startActivity(text string) *activity {
	if s.json || !s.colours(s.Err) {
		return nil
	}
	a := &activity{s: s, quit: make(chan struct{}), text: text, begun: time.Now()}
	a.wait.Go(a.spin)
	return a
}

func (a *activity) spin() {
	tick := time.NewTicker(activityEvery)
	defer tick.Stop()
	for {
		select {
		case <-a.quit:
			return
		case now := <-tick.C:
			a.mu.Lock()
			if a.frame++; !a.held && now.Sub(a.begun) >= activityAfter {
				a.s.errorf("\r%s\x1b[K", a.line(now))
				a.painted = true
			}
			a.mu.Unlock()
		}
	}
}

// line is the animated line. The caller holds a.mu.
func (a *activity) line(now time.Time) string {
	text := frames[a.frame%len(frames)] + " " + a.text
	tail := "  " + age(now.Sub(a.begun))
	if a.total > 0 {
		const cells = 20
		part := min(a.done, a.total)
		full := int(part * cells / a.total)
		tail = fmt.Sprintf("  %s%s %3d %%%s", strings.Repeat("█", full), strings.Repeat("░", cells-full), part*100/a.total, tail)
	}
	w := 80
	if f, ok := a.s.Err.(interface{ Fd() uintptr }); ok {
		if cols, _, err := term.GetSize(int(f.Fd())); err == nil && cols > 0 {
			w = cols
		}
	}
	tail = runewidth.Truncate(tail, w-1, "")
	return runewidth.Truncate(text, max(w-1-runewidth.StringWidth(tail), 0), "…") + tail
}

// step names the work that begins now.
func (a *activity) step(text string) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.text, a.done, a.total = show(text), 0, 0
}

// count tells how much is done.
func (a *activity) count(done, total uint64) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.done, a.total = done, total
}

// hold takes the line away while do prints or asks something.
func (a *activity) hold(do func() error) error {
	if a == nil {
		return do()
	}
	a.setHeld(true)
	defer a.setHeld(false)
	return do()
}

func (a *activity) setHeld(held bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held = held
	a.erase()
}

// erase takes the line away. The caller holds a.mu.
func (a *activity) erase() {
	if a.painted {
		a.s.errorf("\r\x1b[K")
		a.painted = false
	}
}

// stop ends the animation and takes the line away.
func (a *activity) stop() {
	if a == nil {
		return
	}
	close(a.quit)
	a.wait.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.erase()
}
