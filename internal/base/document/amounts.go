package document

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/regex"
)

var (
	sizeForm = regex.Lazy(`^(0|[1-9][0-9]{0,17}) ?(B|KB|MB|GB|TB|KiB|MiB|GiB|TiB)?$`)
	daysForm = regex.Lazy(`^(?:([0-9]{1,5})w)?(?:([0-9]{1,6})d)?(.*)$`)
)

var sizeUnits = map[string]int64{"": 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
	"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}

// ParseSize reads a number of bytes with an optional unit, decimal (KB, MB, …)
// or binary (KiB, MiB, …).
func ParseSize(s string) (int64, error) {
	m := sizeForm.FindStringSubmatch(s)
	if m == nil {
		return 0, fmt.Errorf("%q is not a valid size; expected a number of bytes such as 4096, 512KB or 5MiB", clip.Text(s, 60))
	}
	v, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil || v > math.MaxInt64/sizeUnits[m[2]] {
		return 0, fmt.Errorf("the size %q is too large", clip.Text(s, 60))
	}
	return v * sizeUnits[m[2]], nil
}

// ParseDuration reads a time as [time.ParseDuration] does, with weeks and days
// before it: 90s, 1h30m, 7d, 2w, 1d12h. A day is 24 hours.
func ParseDuration(s string) (time.Duration, error) {
	invalid := fmt.Errorf("%q is not a valid time; expected a number with a unit such as 500ms, 30s, 1h30m, 7d or 2w", clip.Text(s, 60))
	m := daysForm.FindStringSubmatch(s)
	if m == nil {
		return 0, invalid
	}
	weeks, _ := strconv.ParseInt("0"+m[1], 10, 64) // digits only
	days, _ := strconv.ParseInt("0"+m[2], 10, 64)
	days += 7 * weeks
	long := m[1]+m[2] != ""
	if days > 100*366 {
		return 0, invalid
	}
	var rest time.Duration
	if m[3] != "" || !long {
		var err error
		if rest, err = time.ParseDuration(m[3]); err != nil || rest < 0 || long && (rest >= 24*time.Hour || m[3][0] == '+') {
			return 0, invalid
		}
	}
	return time.Duration(days)*24*time.Hour + rest, nil
}
