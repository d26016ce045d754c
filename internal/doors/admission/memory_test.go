package admission_test

import (
	"math"
	"testing"

	"github.com/remitrun/remit/internal/doors/admission"
)

func TestClientsByMemory(t *testing.T) {
	for memory, want := range map[int64]int{0: 64, 512 << 20: 64, 1 << 30: 64, 2 << 30: 128, 8 << 30: 512, 1 << 40: 4096, math.MaxInt64: 4096} {
		if got := admission.ClientsFor(memory); got != want {
			t.Errorf("%d bytes are for %d clients, want %d", memory, got, want)
		}
	}
	if n := admission.Clients(); n < 64 || n > 4096 {
		t.Errorf("this machine is for %d clients", n)
	}
}
