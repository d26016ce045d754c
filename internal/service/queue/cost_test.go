package queue_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/queue"
)

// TestBlockedRunsCostNoTime prints the processor time of a worker with an empty queue, and with one
// of 1,500 runs that wait for a limit.
func TestBlockedRunsCostNoTime(t *testing.T) {
	if os.Getenv("REMIT_SOAK") == "" {
		t.Skip("REMIT_SOAK is not set")
	}
	p := newPlace(t, writing)
	one := []store.Slot{{Key: "tool:fs.write", Most: 1}}
	release, err := holdSlot(t, p, one)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	passes := func() float64 {
		t.Helper()
		p.work()
		wait := p.Queue.Start(t.Context(), queue.Worker{})
		defer wait()
		<-time.After(time.Second) // the first looks
		began := cpu(t)
		<-time.After(5 * time.Second)
		return (cpu(t) - began) * 12
	}
	empty := passes()
	for i := range 1500 {
		p.add(p.request(fmt.Sprintf("b%d", i)), queue.Options{Limits: one})
	}
	blocked := passes()
	t.Logf("a worker takes %.0f ms of processor time a minute with an empty queue, and %.0f ms with 1,500 blocked runs", empty, blocked)
	if blocked > 2*empty+500 {
		t.Error("a worker takes longer with runs that wait for a limit")
	}
}

// cpu is the processor time of this process in milliseconds.
func cpu(t *testing.T) float64 {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e6
}
