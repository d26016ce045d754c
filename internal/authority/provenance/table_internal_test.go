package provenance

import (
	"math/rand/v2"
	"os"
	"testing"
)

// The table holds what a map holds, also of hashes that collide.
func TestATableIsAMap(t *testing.T) {
	steps := 200_000
	if os.Getenv("REMIT_SOAK") != "" {
		steps = 50_000_000
	}
	r := rand.New(rand.NewPCG(1, 2))
	var is table
	was := map[uint64]slot{}
	for range steps {
		h := r.Uint64()
		switch r.IntN(4) {
		case 0:
			h = h%5000 + 1
		case 1:
			h = h%5000<<40 + 7 // all begin at one place
			h %= 1 << 43
		}
		if s := is.get(h); s != was[h] {
			t.Fatalf("%d: %v, want %v", h, s, was[h])
		}
		s := slot{r.Uint32() | 1, r.Uint32()}
		if at, known := is.slotAt(h, 20_000), was[h] != (slot{}); at != nil {
			*at, was[h] = s, s
		} else if known || len(was) < 20_000 {
			t.Fatalf("%d is not there", h)
		}
		if is.n != len(was) {
			t.Fatalf("%d hashes, want %d", is.n, len(was))
		}
	}
	for h, s := range was {
		if got := is.get(h); got != s {
			t.Fatalf("%d: %v, want %v", h, got, s)
		}
	}
}
