package model

import (
	"context"
	"errors"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
)

// Bounds of asking again.
const (
	tries    = 4                      // requests for one answer
	firstGap = 500 * time.Millisecond // before the second; doubled for each further one
	maxGap   = time.Minute            // that a service may want: one that wants more is not waited for
)

// again is an error after which the same may be asked once more.
type again struct {
	error
	after time.Duration // that the service wants; 0: it does not say
}

func (a again) Unwrap() error { return a.error }

// Again marks an error as one after which the same may be asked again, at the
// earliest after some time; 0 leaves that open.
func Again(err error, after time.Duration) error { return again{err, after} }

// Retry asks until there is an answer, or an error that is not marked by Again,
// or it was asked often enough. sleep is Sleep, but in tests. The error that is
// left is not marked any more.
func Retry(ctx context.Context, sleep func(context.Context, time.Duration) error, ask func() (Response, error)) (Response, error) {
	gap := firstGap
	for n := 1; ; n++ {
		r, err := ask()
		if err == nil {
			return r, nil
		}
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		var more again
		if !errors.As(err, &more) {
			return r, err
		}
		wait := max(gap, more.after)
		switch {
		case more.after > maxGap:
			return r, retryHint(more.error, more.after)
		case n == tries:
			return r, more.error
		}
		if end, ok := ctx.Deadline(); ok && time.Until(end) < wait {
			return r, more.error
		}
		if err := sleep(ctx, wait); err != nil {
			return r, err
		}
		gap *= 2
	}
}

// retryHint says how long a service wants to be left alone.
func retryHint(err error, d time.Duration) error {
	var coded *fault.Error
	if !errors.As(err, &coded) {
		return err
	}
	return coded.WithHint("the service asks to wait %s", d.Round(time.Second))
}

// Once removes the mark of Again if a part of the answer came in: a begun answer is not asked for
// anew.
func Once(err error, begun bool) error {
	var more again
	if begun && errors.As(err, &more) {
		return more.error
	}
	return err
}
