package app_test

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"

	"github.com/remitrun/remit/internal/base/garbage"
)

// percent is how much garbage there may be, in percent of what is in use.
func percent(t *testing.T) uint64 {
	t.Helper()
	s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

func TestTheFirstCollectionIsLater(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	garbage.Later()
	if got := percent(t); got != 401 {
		t.Errorf("at the start %d %%, not 401", got)
	}
	for percent(t) != 100 { // until the test's time is over: cleanups run beside
		runtime.GC()
		runtime.Gosched()
	}
	debug.SetGCPercent(50)
	garbage.Later()
	if got := percent(t); got != 50 {
		t.Errorf("with GOGC=50 %d %%, not 50", got)
	}
}

func TestAServiceCollectsGarbageLessOften(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	tests := map[string]struct {
		said         int
		while, after uint64
	}{
		"by default":                {100, 400, 100},
		"early in the process":      {401, 400, 100},
		"not where GOGC says other": {50, 50, 50},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			debug.SetGCPercent(tt.said)
			t.Run("while it serves", func(t *testing.T) {
				newService(t)
				if got := percent(t); got != tt.while {
					t.Errorf("%d %%, not %d", got, tt.while)
				}
			})
			if got := percent(t); got != tt.after {
				t.Errorf("afterwards %d %%, not %d as before", got, tt.after)
			}
		})
	}
}
