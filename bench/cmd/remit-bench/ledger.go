package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/remitrun/remit/bench/decide"
	"github.com/remitrun/remit/bench/stat"
)

const (
	shortLedger = 1000
	longLedger  = 100000
	runLength   = 100 // calls in each run
	lookRounds  = 15
	flat        = 1.25 // more than this is not flat
)

// ledger looks at a short and a long ledger with whole processes.
func (b *bench) ledger() error {
	short, err := b.fill(shortLedger)
	if err != nil {
		return err
	}
	long, err := b.fill(longLedger)
	if err != nil {
		return err
	}
	run, err := b.middleRun(short)
	if err != nil {
		return err
	}
	other, err := b.middleRun(long)
	if err != nil {
		return err
	}
	for _, look := range []struct {
		what        string
		short, long []string
	}{
		{"`remit runs`", []string{"runs"}, []string{"runs"}},
		{"`remit show RUN` of 100 calls", []string{"show", run}, []string{"show", other}},
	} {
		var s, l []time.Duration
		for range lookRounds {
			x, err := b.start(short, short, look.short...)
			if err != nil {
				return err
			}
			y, err := b.start(long, long, look.long...)
			if err != nil {
				return err
			}
			s, l = append(s, x.took), append(l, y.took)
		}
		ratio := float64(stat.Median(l)) / float64(stat.Median(s))
		b.table.add(look.what+", ledger of 100,000 calls beside 1,000", "flat (≤ 1.25 ×)",
			fmt.Sprintf("%.2f × (%s beside %s)", ratio, ms(stat.Median(l)), ms(stat.Median(s))), ratio <= flat)
	}
	return b.verify(long, longLedger)
}

// fill makes a ledger of n calls with side effects and gives its folder.
func (b *bench) fill(n int) (string, error) {
	x, err := b.ledgerOf()
	if err != nil {
		return "", err
	}
	chain, err := decide.Chain()
	for done := 0; done < n && err == nil; done += runLength {
		if _, err = together(x, done, runLength); err == nil {
			err = x.Finish()
		}
		if err == nil {
			err = x.Begin(chain)
		}
	}
	return x.Home, errors.Join(err, x.Close())
}

// middleRun gives the ID of a run that is neither old nor new.
func (b *bench) middleRun(home string) (string, error) {
	r, err := b.start(home, home, "runs", "--json", "--limit", "10000")
	if err != nil {
		return "", err
	}
	var list struct {
		Runs []struct {
			ID    string `json:"run_id"`
			Total int    `json:"total"`
		} `json:"items"`
	}
	if err := json.Unmarshal(r.out, &list); err != nil {
		return "", err
	}
	if len(list.Runs) == 0 {
		return "", errors.New("`remit runs` lists no runs")
	}
	one := list.Runs[len(list.Runs)/2]
	if one.Total != runLength {
		return "", fmt.Errorf("a run has %d calls, not %d", one.Total, runLength)
	}
	return one.ID, nil
}

// verify counts what `remit verify` gets through, its start included.
func (b *bench) verify(home string, calls int) error {
	var rates []float64
	var events float64
	for range 3 {
		r, err := b.start(home, home, "verify", "--json")
		if err != nil {
			return err
		}
		var rep map[string]any
		if err := json.Unmarshal(r.out, &rep); err != nil {
			return err
		}
		n, ok := rep["events"].(float64)
		if !ok || n < 1.9*float64(calls) {
			return fmt.Errorf("it verified %v events", rep["events"])
		}
		events = n
		rates = append(rates, n/r.took.Seconds())
	}
	rate := stat.Median(rates)
	b.table.add(fmt.Sprintf("`remit verify` of %s events, whole process", thousands(events)), "≥ 150,000 events/s",
		thousands(rate)+" events/s", rate >= verifyRate)
	if b.soak && rate < verifyRate/soakFactor {
		return fmt.Errorf("remit verify checked %.0f events/s", rate)
	}
	return nil
}
