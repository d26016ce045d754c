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

// maxRefusals is the maximum number to print; the record has all of them.
const maxRefusals = 8

func (r *refusals) add(c sandbox.Connection) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := [2]string{c.Target(), c.Why()}
	switch {
	case r.times[key] > 0:
		r.times[key]++
	case len(r.list) >= maxRefusals:
		r.more++
	default:
		if r.times == nil {
			r.times = map[[2]string]int{}
		}
		r.times[key] = 1
		r.list = append(r.list, c)
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
