package main

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/remitrun/remit/bench/calls"
	"github.com/remitrun/remit/bench/decide"
	"github.com/remitrun/remit/bench/stat"
)

const (
	warm     = 200 // calls that are not counted
	oneByOne = 4000
	callers  = 64
	rounds   = 7
	perRound = 20000
	stored   = 20000
)

func (b *bench) ledgerOf() (*calls.Bench, error) {
	chain, err := decide.Chain()
	if err != nil {
		return nil, err
	}
	return calls.New(b.dir, chain)
}

// calls measures one caller: calls that only read, and calls with side
// effects in turns with a bare durable insert.
func (b *bench) calls() (err error) {
	x, err := b.ledgerOf()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	dir, err := os.MkdirTemp(b.dir, "bare-")
	if err != nil {
		return err
	}
	bare, err := calls.NewBare(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bare.Close()) }()
	var reads, writes, inserts []time.Duration
	var failed error
	take := func(into *[]time.Duration, i int, f func() error) {
		d := stat.Time(func() { failed = errors.Join(failed, f()) })
		if i > warm {
			*into = append(*into, d)
		}
	}
	for i := 1; i <= oneByOne+warm && failed == nil; i++ {
		take(&reads, i, func() error { return x.Call(calls.Read, i) })
	}
	for i := 1; i <= oneByOne+warm && failed == nil; i++ {
		take(&writes, i, func() error { return x.Call(calls.Write, i) })
		take(&inserts, i, bare.Insert)
	}
	if failed != nil {
		return failed
	}
	r, w, s := stat.Median(reads), stat.Median(writes), stat.Median(inserts)
	b.table.add("overhead of a read-only call, one caller, p50", "≤ 70 µs where a bare durable insert takes 180",
		fmt.Sprintf("%s where it takes %s (p99 %s)", us(r), us(s), us(stat.Quantile(reads, 0.99))), r*180 <= s*70)
	ratio := float64(w) / float64(s)
	b.table.add("overhead of a call with side effects, beside one bare durable SQLite insert", "≤ 2 ×",
		fmt.Sprintf("%.2f × (%s beside %s, p50)", ratio, us(w), us(s)), ratio <= 2)
	return nil
}

// throughput has many callers at once.
func (b *bench) throughput() (err error) {
	x, err := b.ledgerOf()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	var rates []float64
	n := 0
	for range rounds {
		d, err := together(x, n, perRound)
		if err != nil {
			return err
		}
		n += perRound
		rates = append(rates, perRound/d.Seconds())
	}
	r := stat.Median(rates)
	b.table.add(fmt.Sprintf("%d callers, side effects", callers), "≥ 25,000 calls/s",
		fmt.Sprintf("%s calls/s (best of %d: %s)", thousands(r), rounds, thousands(stat.Quantile(rates, 1))), r >= 25000)
	return nil
}

// together makes n calls by all callers at once.
func together(x *calls.Bench, from, n int) (time.Duration, error) {
	var next, failures atomic.Int64
	var first error
	var once sync.Once
	var wg sync.WaitGroup
	d := stat.Time(func() {
		for range callers {
			wg.Go(func() {
				for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
					if err := x.Call(calls.Write, from+i); err != nil {
						failures.Add(1)
						once.Do(func() { first = err })
						return
					}
				}
			})
		}
		wg.Wait()
	})
	if failures.Load() > 0 {
		return 0, first
	}
	return d, nil
}

// storage counts the bytes that calls add to the closed database.
func (b *bench) storage() error {
	var size [2]int64
	for i, n := range []int{0, stored} {
		x, err := b.ledgerOf()
		if err != nil {
			return err
		}
		if n > 0 {
			_, err = together(x, 0, n)
		}
		if err = errors.Join(err, x.Close()); err != nil {
			return err
		}
		if size[i], err = x.Size(); err != nil {
			return err
		}
	}
	per := float64(size[1]-size[0]) / stored
	b.table.add(fmt.Sprintf("storage of a call with side effects, small arguments and result (%s calls)", thousands(stored)), "< 500 bytes",
		fmt.Sprintf("%.0f bytes", per), per < 500)
	return nil
}

func thousands(f float64) string {
	s := fmt.Sprintf("%.0f", f)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
