package admission_test

import (
	"context"
	"errors"
	"fmt"
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

func TestSeatsAreOfTheRootToo(t *testing.T) {
	s := admission.NewSeats(8)
	var back []func()
	for i := range 10 {
		if release, ok := s.Take("root", fmt.Sprintf("leaf %d", i)); ok {
			back = append(back, release)
		}
	}
	if len(back) != 4 {
		t.Fatalf("one root took %d of 8 places, want half", len(back))
	}
	if _, ok := s.Take("other", "other"); !ok {
		t.Error("another root has none")
	}
	back[0]()
	back[0]() // once only
	if _, ok := s.Take("root", "x"); !ok {
		t.Error("what was given back cannot be taken")
	}
	if _, ok := s.Take("root", "y"); ok {
		t.Error("a place was given back twice")
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
