package fleet_test

import (
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// wire is what lies between one node and the server, or a worker and its node: it passes on
// what they say, until it is told to hold it back or to call a function at a message.
type wire struct {
	network string // unix or tcp
	addr    string

	mu     sync.Mutex
	server string // address of the server
	conns  map[net.Conn]bool
	gates  [2]chan struct{} // by direction; not nil: nothing passes until it is closed
	trap   trap
}

// The directions of a wire.
const (
	toServer = iota
	toNode
)

// trap is called at a message of the node, after left others: before the message is passed
// on, which then is not, or after it.
type trap struct {
	left   int
	before bool
	call   func()
}

// socketIn is the address of a PostgreSQL server whose socket is in a folder.
func socketIn(dir string) string { return filepath.Join(dir, ".s.PGSQL.5432") }

// newWire makes the wire to the PostgreSQL server at a socket.
func newWire(t *testing.T, server string) *wire {
	t.Helper()
	dir, err := os.MkdirTemp("", "wire") // short: the path of a socket has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // an empty folder that stays does no harm
	w := wireAt(t, "unix", socketIn(dir), socketIn(server))
	for _, path := range []string{dir, w.addr} { // a pool runs as another user
		if err := os.Chmod(path, 0o777); err != nil { //nolint:gosec // a folder of this test
			t.Fatal(err)
		}
	}
	return w
}

// wireAt makes a wire that listens at an address.
func wireAt(t *testing.T, network, addr, server string) *wire {
	t.Helper()
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{network: network, addr: l.Addr().String(), server: server, conns: map[net.Conn]bool{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { w.carry(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		w.reset()
		all.Wait()
	})
	return w
}

// carry passes on what is said over one connection.
func (w *wire) carry(node net.Conn) {
	w.mu.Lock()
	to := w.server
	w.mu.Unlock()
	server, err := net.Dial(w.network, to)
	if err != nil { // the server is down
		_ = node.Close()
		return
	}
	w.mu.Lock()
	w.conns[node], w.conns[server] = true, true
	w.mu.Unlock()
	var both sync.WaitGroup
	pump := func(from, to net.Conn, direction int) {
		defer func() { // the other side is told
			_ = from.Close()
			_ = to.Close()
		}()
		buf := make([]byte, 64<<10)
		for {
			n, err := from.Read(buf)
			if err != nil || !w.pass(direction, func() error { _, err := to.Write(buf[:n]); return err }) {
				return
			}
		}
	}
	both.Go(func() { pump(node, server, toServer) })
	both.Go(func() { pump(server, node, toNode) })
	both.Wait()
	w.mu.Lock()
	delete(w.conns, node)
	delete(w.conns, server)
	w.mu.Unlock()
}

// pass passes a message on as soon as the direction is open.
func (w *wire) pass(direction int, on func() error) bool {
	w.mu.Lock()
	gate, t := w.gates[direction], trap{}
	if direction == toServer && w.trap.call != nil {
		if w.trap.left--; w.trap.left < 0 {
			t, w.trap = w.trap, trap{}
		}
	}
	w.mu.Unlock()
	if gate != nil {
		<-gate
	}
	if t.call != nil && t.before {
		t.call()
		return false
	}
	err := on()
	if t.call != nil {
		t.call()
	}
	return err == nil
}

// at calls a function at a message of the node.
func (w *wire) at(t trap) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trap = t
}

// cut holds back what is said in the given directions.
func (w *wire) cut(directions ...int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range directions {
		if w.gates[d] == nil {
			w.gates[d] = make(chan struct{})
		}
	}
}

// heal delivers what was held back, as retransmitted packets are.
func (w *wire) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for d, gate := range w.gates {
		if gate != nil {
			close(gate)
			w.gates[d] = nil
		}
	}
}

// reset ends all connections: what was held back is lost.
func (w *wire) reset() {
	w.mu.Lock()
	for c := range w.conns {
		_ = c.Close()
	}
	w.mu.Unlock()
	w.heal()
}

// move leads new connections to the server at another address.
func (w *wire) move(server string) {
	w.mu.Lock()
	w.server = server
	w.mu.Unlock()
	w.reset()
}
