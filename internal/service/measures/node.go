package measures

import (
	"context"
	"time"

	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/telemetry"
	"github.com/remitrun/remit/internal/service/notify"
)

// Node provides the measurements of a service's own node, when its metrics are read.
type Node struct {
	Version     string
	Ledger      store.Backend
	Witnesses   func() map[string]float64   // the seconds since each took a checkpoint
	Undelivered func() (waiting, given int) // notifications that wait, and that were given up

	Workers func() (connected, calls int) // workers that are connected, and commands that they run
	Dir     string                        // $REMIT_HOME
}

// health is the part of a ledger that reports its own state besides the events.
type health interface {
	OnSync(told func(time.Duration))
	Unintegrated(ctx context.Context) (int64, error)
}

// leased is a ledger that several nodes share.
type leased interface{ LeaseLeft() time.Duration }

// headWithin bounds how long metrics wait for the ledger.
const headWithin = 2 * time.Second

// Measure adds the meters to the metrics.
func (n Node) Measure(m *telemetry.Metrics) {
	syncs := m.Histogram("remit_ledger_sync_seconds", "How long it took to make events durable.")
	m.FuncBy("remit_build_info", "The version of the program; the number is 1.", "version", func() map[string]float64 { return map[string]float64{n.Version: 1} })
	m.FuncBy("remit_ledger_events", "Events in the ledger; missing if it cannot be read.", "", n.ofHead(func(c ledger.Checkpoint) int64 { return c.Size }))
	m.FuncBy("remit_ledger_unsigned_events", "Events that no signed checkpoint covers yet.", "", n.ofHead(func(c ledger.Checkpoint) int64 { return c.Size - c.Prev }))
	m.FuncBy("remit_witness_age_seconds", "Seconds since a witness last took the newest checkpoint.", "witness", n.Witnesses)
	m.FuncBy("remit_notifications_undelivered", "Notifications that no webhook has taken: waiting, or given up.", "state", func() map[string]float64 {
		waiting, given := n.Undelivered()
		return map[string]float64{"waiting": float64(waiting), "given_up": float64(given)}
	})
	if l, ok := n.Ledger.(health); ok {
		l.OnSync(func(took time.Duration) { syncs.Observe(took) })
		m.FuncBy("remit_ledger_unintegrated_events", "Events of a shared ledger that are not in the Merkle tree yet.", "", n.ask(func(ctx context.Context) (float64, error) {
			lag, err := l.Unintegrated(ctx)
			return float64(lag), err
		}))
	}
	m.FuncBy("remit_lease_left_seconds", "How long this node may act without renewing its lease; missing if the ledger is not shared.", "", func() map[string]float64 {
		if l, ok := n.Ledger.(leased); ok {
			return map[string]float64{"": l.LeaseLeft().Seconds()}
		}
		return nil
	})
	n.measureWork(m)
}

// measureWork adds the meters of what waits and of who works.
func (n Node) measureWork(m *telemetry.Metrics) {
	m.FuncBy("remit_queue_runs", "Queued runs: waiting for a place, or scheduled for later.", "state", func() map[string]float64 {
		ctx, stop := context.WithTimeout(context.Background(), headWithin)
		defer stop()
		all, later, err := n.Ledger.QueueSize(ctx, n.Ledger.Now())
		if err != nil {
			return nil
		}
		return map[string]float64{"waiting": float64(all - later), "scheduled": float64(later)}
	})
	m.FuncBy("remit_queue_age_seconds", "How long the longest-waiting queued run could have been started already.", "", n.ask(func(ctx context.Context) (float64, error) {
		age, err := n.Ledger.QueueAge(ctx, n.Ledger.Now())
		return age.Seconds(), err
	}))
	m.Func("remit_workers_connected", "Workers that are connected to this node.", func() float64 { connected, _ := n.Workers(); return float64(connected) })
	m.Func("remit_workers_calls", "Commands that workers run for this node.", func() float64 { _, calls := n.Workers(); return float64(calls) })
	m.FuncBy("remit_home_free_bytes", "Free bytes where $REMIT_HOME is.", "", func() map[string]float64 {
		free, _, err := notify.Free(n.Dir)
		if err != nil {
			return nil
		}
		return map[string]float64{"": float64(free)}
	})
}

// ask looks up a number; it is missing if there is an error.
func (n Node) ask(of func(context.Context) (float64, error)) func() map[string]float64 {
	return func() map[string]float64 {
		ctx, stop := context.WithTimeout(context.Background(), headWithin)
		defer stop()
		v, err := of(ctx)
		if err != nil {
			return nil
		}
		return map[string]float64{"": v}
	}
}

// ofHead looks up a number of the log's newest state.
func (n Node) ofHead(of func(ledger.Checkpoint) int64) func() map[string]float64 {
	return n.ask(func(ctx context.Context) (float64, error) {
		c, err := n.Ledger.Head(ctx)
		return float64(of(c)), err
	})
}
