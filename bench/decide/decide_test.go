package decide_test

import (
	"testing"

	"github.com/remitrun/remit/bench/decide"
)

// Each engine gives each question the right answer: Engines checks it.
func TestEnginesAgree(t *testing.T) {
	if _, err := decide.Engines(); err != nil {
		t.Fatal(err)
	}
}

// A decision that allows does not allocate.
func TestAllowingDoesNotAllocate(t *testing.T) {
	engines, err := decide.Engines()
	if err != nil {
		t.Fatal(err)
	}
	for i, q := range decide.Questions {
		if !q.Allow {
			continue
		}
		if n := testing.AllocsPerRun(100, func() { engines[0].Allow(i) }); n != 0 {
			t.Errorf("%s %s%s: %v allocations", q.Tool, q.Path, q.To.Host, n)
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	engines, err := decide.Engines()
	if err != nil {
		b.Fatal(err)
	}
	for _, e := range engines {
		b.Run(e.Name, func(b *testing.B) {
			for i, q := range decide.Questions {
				b.Run(q.Tool+q.Path+q.To.Host, func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						e.Allow(i)
					}
				})
			}
		})
	}
}
