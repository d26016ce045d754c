package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/remitrun/remit/bench/grown"
	"github.com/remitrun/remit/bench/stat"
)

const (
	grownLedger = 1_000_000 // calls, unless -grown says otherwise
	grownRun    = 1000      // calls of each run
	firstPage   = 300 * time.Millisecond
	verifyRate  = 150_000 // events/s

	// soakFactor is how many times the bar a figure may be before a soak fails: a soak runs
	// on any machine, beside anything.
	soakFactor = 20
)

// growth measures the operations that must not slow down as the ledger grows: lists whose filters
// few events, or none, have passed, single runs, verification and doctor.
func (b *bench) growth() error {
	home, err := os.MkdirTemp(b.dir, "grown-")
	if err != nil {
		return err
	}
	if err := grown.Make(b.ctx, home, grown.Size{Calls: b.grown, RunLength: grownRun}); err != nil {
		return err
	}
	for _, filter := range [][]string{
		{"--failed"}, {"--denied"}, {"--since", "1s"}, {"--until", "2020-01-01"}, {"--event", "run_finished"}, {"--event", "capability_slow"},
		{"--event", "violation"}, {"--extension", "notes"}, {"--extension", "absent"}, {"--tool", "absent"}, {"--status", "timeout"},
	} {
		if err := b.bounded(home, 5, firstPage, append([]string{"audit"}, filter...)...); err != nil {
			return err
		}
	}
	run, err := b.newestRun(home)
	if err != nil {
		return err
	}
	for _, look := range []struct {
		most time.Duration
		args []string
	}{
		{firstPage, []string{"runs"}},
		{firstPage, []string{"show", run, "--step", "500"}},
		{time.Second, []string{"report", run, "--format", "html", "-o", "report.html"}},
		{time.Second, []string{"doctor"}},
	} {
		if err := b.bounded(home, 5, look.most, look.args...); err != nil {
			return err
		}
	}
	if err := b.verify(home, b.grown); err != nil {
		return err
	}
	return b.bounded(home, 5, time.Second, "verify", "--since-last")
}

// bounded measures a command on the grown ledger. In a soak it fails far beyond the bar.
func (b *bench) bounded(home string, rounds int, most time.Duration, args ...string) error {
	var took []time.Duration
	for range rounds {
		x, err := b.start(home, home, args...)
		if err != nil {
			return err
		}
		took = append(took, x.took)
	}
	median, what := stat.Median(took), strings.Join(args, " ")
	if len(args) > 1 && !strings.HasPrefix(args[1], "--") {
		what = strings.Replace(what, args[1], "RUN", 1)
	}
	b.table.add("`remit "+what+"`, ledger of "+thousands(float64(b.grown))+" calls", fmt.Sprintf("≤ %.1f s", most.Seconds()), ms(median), median <= most)
	if b.soak && median > soakFactor*most {
		return fmt.Errorf("remit %s took %s on a ledger of %d calls", what, median, b.grown)
	}
	return nil
}

// newestRun gives the ID of the newest run of a grown ledger.
func (b *bench) newestRun(home string) (string, error) {
	r, err := b.start(home, home, "runs", "--json", "--limit", "1")
	if err != nil {
		return "", err
	}
	var list struct {
		Items []struct {
			ID    string `json:"run_id"`
			Total int    `json:"total"`
		} `json:"items"`
	}
	if err := json.Unmarshal(r.out, &list); err != nil {
		return "", err
	}
	if len(list.Items) != 1 || list.Items[0].Total != grownRun {
		return "", fmt.Errorf("the newest runs are %+v", list.Items)
	}
	return list.Items[0].ID, nil
}
