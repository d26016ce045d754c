// Package stat sums up measurements.
package stat

import (
	"slices"
	"time"
)

// Median is the middle of the values, or 0 if there are none.
func Median[T ~int64 | ~float64](values []T) T {
	return Quantile(values, 0.5)
}

// Quantile is the value that the share q of the values does not exceed.
func Quantile[T ~int64 | ~float64](values []T, q float64) T {
	if len(values) == 0 {
		return 0
	}
	s := slices.Clone(values)
	slices.Sort(s)
	return s[min(len(s)-1, int(float64(len(s))*q))]
}

// Time is how long f takes.
func Time(f func()) time.Duration {
	t := time.Now()
	f()
	return time.Since(t)
}
