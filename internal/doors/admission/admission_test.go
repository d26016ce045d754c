package admission_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/doors/admission"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// A grant that is narrowed offline as often as one likes has no more requests than
// the root that all of them derive from.
func TestRatesAreOfTheRootToo(t *testing.T) {
	r := admission.NewRates(1, 10)
	taken := 0
	for i := range 100 {
		if r.Take(noon, "root", fmt.Sprintf("leaf %d", i)) {
			taken++
		}
	}
	if taken != 10 {
		t.Errorf("100 leaves of one root took %d, want 10", taken)
	}
	if !r.Take(noon, "other", "other") {
		t.Error("another root has none")
	}
	if !r.Take(noon.Add(time.Second), "root", "leaf 0") || r.Take(noon.Add(time.Second), "root", "leaf 1") {
		t.Error("a second gives one more")
	}
}

// However many keys there are, nobody's bucket is filled again by it.
func TestManyKeysForgetNobody(t *testing.T) {
	r := admission.NewRates(1, 2)
	r.Take(noon, "me")
	r.Take(noon, "me")
	for i := range 30000 {
		r.Take(noon, fmt.Sprint(i))
	}
	if r.Take(noon, "me") {
		t.Error("a bucket that was empty is full again")
	}
	if !r.Take(noon.Add(time.Minute), "new") {
		t.Error("a new key has none when all others are full again")
	}
}

// TestSeatsAreShared: no key has more than half of the seats, whatever keys take and give back, and
// one that has none gets one while any is free.
func TestSeatsAreShared(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		most := 1 + random.IntN(40)
		s := admission.NewSeats(most)
		of, all := map[int][]func(){}, 0
		for range 200 {
			key := random.IntN(1 + random.IntN(8))
			if held := of[key]; len(held) > 0 && random.IntN(4) == 0 {
				held[0]()
				held[0]() // once only
				of[key] = held[1:]
				all--
				continue
			}
			release, ok := s.Take(fmt.Sprint(key))
			if free := most - all; ok != (len(of[key]) < free) {
				t.Fatalf("of %d seats %d are free: a key with %d gets a further one: %v", most, free, len(of[key]), ok)
			}
			if ok {
				of[key] = append(of[key], release)
				all++
			}
			if len(of[key]) > (most+1)/2 {
				t.Fatalf("one key has %d of %d seats", len(of[key]), most)
			}
		}
	}
}

func TestAddress(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.1:1": "192.0.2.1", "[::ffff:192.0.2.1]:1": "192.0.2.1", "[2001:db8::1]:1": "2001:db8::/64", "[2001:db8::2%eth0]:9": "2001:db8::/64", "pipe": "pipe",
	} {
		if got := admission.Address(remote); got != want {
			t.Errorf("%s: %s, want %s", remote, got, want)
		}
	}
}

// from is a listener whose connections come from given addresses.
type from struct {
	mu   sync.Mutex
	next []string
}

func (f *from) Accept() (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.next) == 0 {
		return nil, errors.New("no more")
	}
	a := f.next[0]
	f.next = f.next[1:]
	here, there := net.Pipe()
	_ = there.Close()
	return &addressed{Conn: here, addr: a}, nil
}
func (*from) Close() error   { return nil }
func (*from) Addr() net.Addr { return &net.TCPAddr{} }

type addressed struct {
	net.Conn
	addr string
}

func (a *addressed) RemoteAddr() net.Addr { return addr(a.addr) }

type addr string

func (addr) Network() string  { return "tcp" }
func (a addr) String() string { return string(a) }

// One address has so many connections and no more; others, and loopback, have theirs.
func TestConnectionsOfOneAddressAreBounded(t *testing.T) {
	f := &from{next: []string{"192.0.2.1:1", "192.0.2.1:2", "192.0.2.1:3", "192.0.2.2:1", "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "192.0.2.1:4"}}
	l := admission.Door{Conns: 100, PerAddress: 2}.Listen(f)
	var got []string
	var first net.Conn
	for {
		c, err := l.Accept()
		if err != nil {
			break
		}
		if first == nil {
			first = c
		}
		got = append(got, c.RemoteAddr().String())
	}
	want := "[192.0.2.1:1 192.0.2.1:2 192.0.2.2:1 127.0.0.1:1 127.0.0.1:2 127.0.0.1:3]"
	if fmt.Sprint(got) != want {
		t.Errorf("accepted %v, want %s", got, want)
	}
	_ = first.Close()
	_ = first.Close()
	f.next = []string{"192.0.2.1:5", "192.0.2.1:6"}
	if c, err := l.Accept(); err != nil || c.RemoteAddr().String() != "192.0.2.1:5" {
		t.Errorf("after one is closed: %v", err)
	}
	if c, err := l.Accept(); err == nil {
		t.Errorf("two for the one that was closed: %s", c.RemoteAddr())
	}
}

func TestTurns(t *testing.T) {
	turns := admission.NewTurns(1)
	wait := func(ctx context.Context, key string) func() {
		leave, ok := turns.Wait(ctx, key)
		if !ok {
			t.Fatalf("no turn for %s", key)
		}
		return leave
	}
	leave := wait(t.Context(), "a")
	wait(t.Context(), "b")() // another key does not wait
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, ok := turns.Wait(gone, "a"); ok {
		t.Error("two turns at once")
	}
	leave()
	leave() // counts once
	next := wait(t.Context(), "a")
	if _, ok := turns.Wait(gone, "a"); ok {
		t.Error("two turns after a turn that ended twice")
	}
	next()
}
