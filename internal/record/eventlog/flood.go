package eventlog

import (
	"sync"
	"time"
)

const (
	// eachKind is how many events of one kind are written each day before only every
	// tenth, hundredth, and so on is.
	eachKind = 50
	// maxKinds is how many kinds are told apart on one day; all others are one.
	maxKinds = 500
)

// flood decides which events of a day are written, so that older ones are not rotated
// out. Of a million events of one kind it lets about 100 pass, which is some
// megabytes a day in all. The zero value is ready to use.
type flood struct {
	mu    sync.Mutex
	day   int64
	kinds map[kind]*seen
}

// kind are the fields by which events count as equal.
type kind struct{ event, user, action, code string }

type seen struct {
	n    int // events of the day
	left int // of them that were not written since the last one that was
}

// admit reports whether an event is written, and how many of its kind were not since
// the last one that was.
func (f *flood) admit(event string, e Entry, now time.Time) (left int, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if day := now.Unix() / (24 * 60 * 60); day != f.day || f.kinds == nil {
		f.day, f.kinds = day, map[kind]*seen{}
	}
	k := kind{event, e.User, e.Action, e.Code}
	s := f.kinds[k]
	if s == nil && len(f.kinds) >= maxKinds {
		k = kind{event: event}
		s = f.kinds[k]
	}
	if s == nil {
		s = &seen{}
		f.kinds[k] = s
	}
	s.n++
	if s.n%step(s.n) != 0 {
		s.left++
		return 0, false
	}
	left, s.left = s.left, 0
	return left, true
}

// step is of how many events one is written, the n-th included.
func step(n int) int {
	s := 1
	for most := eachKind; n > most; most *= 10 {
		s *= 10
	}
	return s
}
