package admission_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/doors/admission"
	"github.com/remitrun/remit/internal/record/store"
)

// memory is a ledger's buckets at one moment.
type memory struct {
	mu    sync.Mutex
	full  map[[32]byte]int64
	asked int
	err   error
}

func (m *memory) take(_ context.Context, key [32]byte, b store.Bucket, want int) (got int, wait time.Duration, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked++
	got, m.full[key], wait = b.Take(noon.UnixMicro(), m.full[key], want)
	return got, wait, m.err
}

// TestProcessesShareRates: processes together get what one may, and less than one more of each
// part is asked for.
func TestProcessesShareRates(t *testing.T) {
	for _, c := range []struct {
		each              float64
		burst, most, asks int
	}{
		{each: 1e-3, burst: 10, most: 10, asks: 12}, // each request asks
		{each: 100, burst: 201, most: 101, asks: 13},
	} {
		m := &memory{full: map[[32]byte]int64{}}
		var nodes []*admission.Shared
		for range 2 {
			nodes = append(nodes, admission.NewShared(c.each, c.burst, m.take))
		}
		taken := 0
		for i := range 400 {
			wait, err := nodes[i%2].Take(t.Context(), "root", fmt.Sprint("leaf ", i))
			if err != nil {
				t.Fatal(err)
			}
			if wait == 0 {
				taken++
			}
		}
		if taken != c.most {
			t.Errorf("%v a second: two processes took %d, want %d", c.each, taken, c.most)
		}
		m.asked = 0
		for range 400 {
			if wait, err := nodes[0].Take(t.Context(), "other", "other"); err != nil || wait < 0 {
				t.Fatal(wait, err)
			}
			if m.asked == c.asks {
				break
			}
		}
		m.err = errors.New("down")
		if _, err := nodes[0].Take(t.Context(), "third"); !errors.Is(err, m.err) {
			t.Errorf("a failure of the ledger: %v", err)
		}
	}
}
