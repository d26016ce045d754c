package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/remitrun/remit/bench/stat"
	"github.com/remitrun/remit/internal/record/store/postgres/postgrestest"
)

const (
	doorWarm   = 500  // calls that are not counted
	doorRound  = 3000 // calls of all clients
	doorRounds = 5
)

// doorLoad is a load on the HTTP API, with its bars.
type doorLoad struct {
	tool, body string
	clients    int
	rate       float64 // calls in a second, at least
	cpu        time.Duration
}

// door measures calls through the HTTP API.
func (b *bench) door() error {
	for _, l := range []doorLoad{
		{"time.now", "{}", 8, 5000, 200 * time.Microsecond},
		{"fs.write", `{"args":{"path":"out/f%d.txt","content":"x"}}`, 64, 3000, 300 * time.Microsecond},
	} {
		if err := b.throughDoor("SQLite", l, 1); err != nil {
			return err
		}
	}
	return nil
}

// fleetDoor measures calls through the HTTP API of two nodes on one PostgreSQL.
func (b *bench) fleetDoor(pg *postgrestest.Server) error {
	if err := b.execute(pg.URL("public"), "CREATE SCHEMA door"); err != nil {
		return err
	}
	return b.throughDoor("PostgreSQL", doorLoad{"time.now", "{}", 64, 0, 500 * time.Microsecond}, 2, "--db", pg.URL("door"))
}

// throughDoor makes calls at a number of nodes at once, and sums up their rate and CPU time.
func (b *bench) throughDoor(on string, l doorLoad, nodes int, args ...string) error {
	ctx, stop := context.WithCancel(b.ctx)
	defer stop()
	var all []*service
	for range nodes {
		s, err := b.serve(ctx, args...)
		if err != nil {
			return err
		}
		all = append(all, s)
	}
	if _, err := l.call(all, doorWarm); err != nil {
		return err
	}
	var rates []float64
	var cpus, times []time.Duration
	for range doorRounds {
		before, err := usedBy(all)
		if err != nil {
			return err
		}
		var took []time.Duration
		d := stat.Time(func() { took, err = l.call(all, doorRound) })
		after, err2 := usedBy(all)
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		rates, cpus, times = append(rates, doorRound/d.Seconds()), append(cpus, (after-before)/doorRound), append(times, took...)
	}
	what := fmt.Sprintf("%s over HTTP on %s, %d clients", l.tool, on, l.clients)
	rate, cpu := stat.Median(rates), stat.Median(cpus)
	got := fmt.Sprintf("%s calls/s (p50 %s, p99 %s)", thousands(rate), ms(stat.Median(times)), ms(stat.Quantile(times, 0.99)))
	if l.rate > 0 {
		b.table.add(what, "≥ "+thousands(l.rate)+" calls/s", got, rate >= l.rate)
	} else {
		b.table.note(what, got)
	}
	b.table.add("CPU time of the service for such a call", "≤ "+us(l.cpu), us(cpu), cpu <= l.cpu)
	return nil
}

// call makes n calls by all clients at once, at the nodes in turns, and gives their times.
func (l doorLoad) call(nodes []*service, n int) (times []time.Duration, err error) {
	var next atomic.Int64
	var mu sync.Mutex
	var wg sync.WaitGroup
	for c := range l.clients {
		wg.Go(func() {
			var own []time.Duration
			var failed error
			body := l.body
			if l.tool == "fs.write" {
				body = fmt.Sprintf(l.body, c)
			}
			for next.Add(1) <= int64(n) && failed == nil {
				own = append(own, stat.Time(func() {
					_, failed = nodes[c%len(nodes)].do(http.MethodPost, "/v1/tools/"+l.tool+"/invoke", body)
				}))
			}
			mu.Lock()
			defer mu.Unlock()
			times, err = append(times, own...), errors.Join(err, failed)
		})
	}
	wg.Wait()
	return times, err
}

// usedBy is the CPU time that the nodes have used.
func usedBy(nodes []*service) (sum time.Duration, err error) {
	for _, s := range nodes {
		d, err := (&mcpClient{process: s.process}).cpu()
		if err != nil {
			return 0, err
		}
		sum += d
	}
	return sum, nil
}
