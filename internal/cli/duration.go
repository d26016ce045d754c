package cli

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// durationValue is a flag that takes a duration as parseDuration reads it.
type durationValue time.Duration

// durationVar adds such a flag.
func durationVar(c *cobra.Command, to *time.Duration, name string, value time.Duration, usage string) {
	*to = value
	c.Flags().Var((*durationValue)(to), name, usage)
}

// String implements pflag.Value.
func (d *durationValue) String() string { return time.Duration(*d).String() }

// Type implements pflag.Value.
func (d *durationValue) Type() string { return "duration" }

// Set implements pflag.Value.
func (d *durationValue) Set(text string) error {
	v, err := parseDuration(text)
	if err == nil {
		*d = durationValue(v)
	}
	return err
}

var errDuration = errors.New("expected a duration as 90s, 1h30m, 7d or 2w")

// parseDuration reads a duration as Go writes it, with days and weeks before:
// 90s, 1h30m, 7d, 2w, 1d12h.
func parseDuration(text string) (time.Duration, error) {
	rest, sum := text, time.Duration(0)
	for _, u := range [...]struct {
		name string
		unit time.Duration
	}{{"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}} {
		number, after, ok := strings.Cut(rest, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(number, 10, 16)
		if err != nil || n > uint64((math.MaxInt64-sum)/u.unit) {
			return 0, errDuration
		}
		rest, sum = after, sum+time.Duration(n)*u.unit //nolint:gosec // it was compared
	}
	if rest == "" && sum > 0 {
		return sum, nil
	}
	d, err := time.ParseDuration(rest)
	if err != nil || sum > 0 && (d < 0 || d > math.MaxInt64-sum) {
		return 0, errDuration
	}
	return sum + d, nil
}
