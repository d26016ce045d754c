package cli

import (
	"fmt"
	"sync"

	"github.com/remitrun/remit/internal/confine/sandbox"
)

// refusals collects the refused connections of a command on a terminal: printing them
// at once would overwrite a full-screen program. The zero value is ready to use.
type refusals struct {
	mu    sync.Mutex
	list  []sandbox.Connection // each once
	times map[[2]string]int    // by target and reason
	more  int                  // not kept
}

// maxRefusals is the maximum number to print at the end, and maxTold while the command runs; the record has all of them.
const (
	maxRefusals = 8
	maxTold     = 100
)

// first reports whether a connection is the first one to its target with its reason, as long as there are not too many.
func (r *refusals) first(c sandbox.Connection) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := [2]string{c.Target(), c.Why()}
	if r.times == nil {
		r.times = map[[2]string]int{}
	}
	if r.times[key] > 0 || len(r.times) < maxTold {
		r.times[key]++
	}
	return r.times[key] == 1
}

// add keeps a connection for the end.
func (r *refusals) add(c sandbox.Connection) {
	first := r.first(c)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case first && len(r.list) < maxRefusals:
		r.list = append(r.list, c)
	case first:
		r.more++
	}
}

// printRefusals prints the refused connections and paths after the command has ended.
func (s *session) printRefusals(r *refusals, o sandbox.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.list {
		times := ""
		if n := r.times[[2]string{c.Target(), c.Why()}]; n > 1 {
			times = fmt.Sprintf(" %d times", n)
		}
		s.errorf("%s %s\n", s.paintErr(red, "✗ refused"+times), refusal(c))
	}
	shown := min(len(o.Refusals), maxRefusals)
	for _, path := range o.Refusals[:shown] {
		s.errorf("%s %s\n", s.paintErr(red, "✗ refused"), show(path.String()))
	}
	if more := r.more + len(o.Refusals) - shown; more > 0 {
		s.errorf("%s\n", s.paintErr(dim, fmt.Sprintf("and %d more", more)))
	}
}
