package catalog

import (
	"time"

	"github.com/remitrun/remit/internal/base/fault"
)

// Failure is the remembered failure of a source, shared by all processes.
type Failure struct {
	Since   time.Time  `json:"since"`
	Tried   time.Time  `json:"tried"` // when it failed last
	Count   int        `json:"count"` // failures in a row
	Code    fault.Code `json:"code"`
	Message string     `json:"message"`
}

// FailureMemory is a [Memory] that keeps failures too. Where it fails, they are
// forgotten when the process ends.
type FailureMemory interface {
	// Failure returns the remembered failure; nil: the source answered last time.
	Failure(source string) *Failure
	// Failed remembers a failure, or with nil that there is none any more.
	Failed(source string, f *Failure)
}

// maxBackoff bounds how long a list does not ask a failing source.
const maxBackoff = 10 * time.Minute

// backoff is how long a source that failed so many times in a row is not asked for
// lists. A call asks it sooner, after retryAfter.
func backoff(failures int) time.Duration {
	d := retryAfter
	for range failures - 1 {
		if d *= 2; d >= maxBackoff {
			return maxBackoff
		}
	}
	return d
}

// recallFailure takes over what an earlier process remembered, once. f.mu is held.
func (f *feed) recallFailure() {
	m, ok := f.c.memory.(FailureMemory)
	if !ok || f.recalled || f.err != nil || f.last != nil || f.flight != nil {
		return
	}
	f.recalled = true
	was := m.Failure(f.name)
	if was == nil || was.Count < 1 || was.Tried.After(f.c.now()) || was.Since.After(was.Tried) {
		return
	}
	f.failures, f.since, f.tried = was.Count, was.Since, was.Tried
	f.err, f.kept = fault.New(was.Code, "%s", was.Message), true
}

// keepFailure remembers how the last attempt ended. f.mu is held.
func (f *feed) keepFailure() {
	m, ok := f.c.memory.(FailureMemory)
	switch {
	case !ok:
	case f.err != nil:
		m.Failed(f.name, &Failure{Since: f.since, Tried: f.tried, Count: f.failures, Code: fault.CodeOf(f.err), Message: fault.Message(f.err)})
		f.kept = m.Failure(f.name) != nil
	case m.Failure(f.name) != nil:
		m.Failed(f.name, nil)
	}
}

// forgotten reports whether another process made the remembered failure be forgotten,
// as a login does, or found that the source answers. f.mu is held.
func (f *feed) forgotten() bool {
	m, ok := f.c.memory.(FailureMemory)
	return ok && f.kept && m.Failure(f.name) == nil
}
