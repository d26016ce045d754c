package app

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/changeset"
	"github.com/remitrun/remit/internal/fault"
)

// ChangesSettings say how long what runs wrote can be undone. What nobody has
// applied or discarded yet is kept in any case.
type ChangesSettings struct {
	KeepDays  int  `yaml:"keep_days"`  // since it was over; 0: for ever
	KeepBytes Size `yaml:"keep_bytes"` // of all copies, the oldest go first; 0: no bound
}

// Size is a number of bytes, written as 5GiB, 100MiB, 64KiB or a plain number.
type Size int64

// UnmarshalText reads a size.
func (s *Size) UnmarshalText(b []byte) error {
	number, shift := string(b), 0
	for unit, n := range map[string]int{"KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40} {
		if rest, ok := strings.CutSuffix(number, unit); ok {
			number, shift = rest, n
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64>>shift {
		return fmt.Errorf("%q is no size such as 5GiB", b)
	}
	*s = Size(n << shift)
	return nil
}

var defaultChanges = ChangesSettings{KeepDays: 30, KeepBytes: 5 << 30}

const day = 24 * time.Hour

func (c ChangesSettings) check() error {
	if most := int(math.MaxInt64 / day); c.KeepDays < 0 || c.KeepDays > most {
		return fault.New(fault.Usage, "%d is not between 0 and %d", c.KeepDays, most)
	}
	return nil
}

func (c ChangesSettings) retention() changeset.Retention {
	return changeset.Retention{Age: time.Duration(c.KeepDays) * day, Bytes: int64(c.KeepBytes)}
}

// keptCheck tells of what old runs wrote.
func (a *App) keptCheck() Check {
	c := Check{Name: "undo"}
	k, err := a.changesets().Kept()
	if err != nil {
		c.Detail = err.Error()
		return c
	}
	set := a.cfg.Settings.Changes
	age, most := "for ever", ""
	if set.KeepDays > 0 {
		age = fmt.Sprintf("for %d days", set.KeepDays)
	}
	if set.KeepBytes > 0 {
		most = fmt.Sprintf(", at most %d MiB", set.KeepBytes>>20)
	}
	c.OK = true
	c.Detail = fmt.Sprintf("%d changesets wait for a decision; of %d runs %d MiB are kept, %s%s (changes in config.yaml)", k.Waiting, k.Over, k.Bytes>>20, age, most)
	return c
}
