package measures

import (
	"context"
	"time"

	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/telemetry"
)

// Node is what is measured of a service's own node, when its metrics are read.
type Node struct {
	Version     string
	Head        func(context.Context) (ledger.Checkpoint, error)
	Witnesses   func() map[string]float64   // the seconds since each took a checkpoint
	Undelivered func() (waiting, given int) // notifications that wait, and that were given up
}

// headWithin bounds how long metrics wait for the ledger.
const headWithin = 2 * time.Second

// Measure adds the meters to the metrics.
func (n Node) Measure(m *telemetry.Metrics) {
	m.FuncBy("remit_build_info", "The version of the program; the number is 1.", "version", func() map[string]float64 { return map[string]float64{n.Version: 1} })
	m.FuncBy("remit_ledger_events", "Events in the ledger; missing if it cannot be read.", "", n.ofHead(func(c ledger.Checkpoint) int64 { return c.Size }))
	m.FuncBy("remit_ledger_unsigned_events", "Events that no signed checkpoint covers yet.", "", n.ofHead(func(c ledger.Checkpoint) int64 { return c.Size - c.Prev }))
	m.FuncBy("remit_witness_age_seconds", "Seconds since a witness last took the newest checkpoint.", "witness", n.Witnesses)
	m.FuncBy("remit_notifications_undelivered", "Notifications that no webhook has taken: waiting, or given up.", "state", func() map[string]float64 {
		waiting, given := n.Undelivered()
		return map[string]float64{"waiting": float64(waiting), "given_up": float64(given)}
	})
}

// ofHead looks up a number of the log's newest state.
func (n Node) ofHead(of func(ledger.Checkpoint) int64) func() map[string]float64 {
	return func() map[string]float64 {
		ctx, stop := context.WithTimeout(context.Background(), headWithin)
		defer stop()
		c, err := n.Head(ctx)
		if err != nil {
			return nil
		}
		return map[string]float64{"": float64(of(c))}
	}
}
