package main

import (
	"strings"
	"time"

	"github.com/remitrun/remit/bench/stat"
)

const (
	grownLedger = 1_000_000 // calls
	firstPage   = 300 * time.Millisecond
)

// growth looks at what must not slow down as the ledger grows: lists whose filters few
// events, or none, have passed.
func (b *bench) growth() error {
	home, err := b.fill(grownLedger)
	if err != nil {
		return err
	}
	for _, filter := range [][]string{
		{"--failed"}, {"--denied"}, {"--since", "1s"}, {"--until", "2020-01-01"}, {"--event", "run_finished"}, {"--event", "capability_slow"},
		{"--extension", "absent"}, {"--tool", "absent"}, {"--status", "timeout"},
	} {
		var took []time.Duration
		for range lookRounds {
			x, err := b.start(home, home, append([]string{"audit"}, filter...)...)
			if err != nil {
				return err
			}
			took = append(took, x.took)
		}
		median := stat.Median(took)
		b.table.add("`remit audit "+strings.Join(filter, " ")+"`, ledger of 1,000,000 calls", "≤ 0.3 s", ms(median), median <= firstPage)
	}
	return nil
}
