package provenance

import (
	"math/rand/v2"
	"os"
	"testing"
)

// The table holds what a map holds, also of hashes that collide and of the hash 0.
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
		switch r.IntN(3) {
		case 0:
			h %= 5000
		case 1:
			h = h % 5000 << 40 // all begin at one place
			h %= 1 << 43
		}
		if s, ok := is.get(h); ok != func() bool { _, ok := was[h]; return ok }() || s != was[h] {
			t.Fatalf("%d: %v %v, want %v", h, s, ok, was[h])
		}
		if len(was) < 20_000 || r.IntN(2) == 0 {
			s := slot{r.Uint32(), r.Uint32()}
			is.set(h, s)
			was[h] = s
		}
		if is.len() != len(was) {
			t.Fatalf("%d hashes, want %d", is.len(), len(was))
		}
	}
	for h, s := range was {
		if got, ok := is.get(h); !ok || got != s {
			t.Fatalf("%d: %v, want %v", h, got, s)
		}
	}
}
