package egress_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/confine/egress"
)

// source serves as many bytes as the path says, and counts what it is sent.
func source(t testing.TB) *canary {
	return newCanary(t, false, func(w http.ResponseWriter, r *http.Request) {
		var n int
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &n)
		if r.URL.Query().Get("length") != "" {
			w.Header().Set("Content-Length", fmt.Sprint(n))
		}
		for n > 0 {
			k := min(n, 10000)
			if _, err := w.Write(make([]byte, k)); err != nil {
				return
			}
			w.(http.Flusher).Flush()
			n -= k
		}
	})
}

// sink is a raw server that counts, and answers with so many bytes as the first
// line says.
func sink(t testing.TB) (addr string, got func() int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	total := 0
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				var n int
				if _, err := fmt.Fscanf(c, "%d\n", &n); err != nil {
					return
				}
				sent := make(chan struct{})
				defer func() { <-sent }() // before it is closed
				wg.Go(func() {
					defer close(sent)
					piece := make([]byte, 1<<20)
					for n > 0 {
						k, err := c.Write(piece[:min(n, len(piece))])
						if err != nil {
							return
						}
						n -= k
					}
					_ = c.(*net.TCPConn).CloseWrite()
				})
				buf := make([]byte, 64<<10)
				for {
					k, err := c.Read(buf)
					mu.Lock()
					total += k
					mu.Unlock()
					if err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return l.Addr().String(), func() int { mu.Lock(); defer mu.Unlock(); return total }
}

func TestAResponseIsNoLargerThanAllowed(t *testing.T) {
	srv := source(t)
	w := &world{servers: map[uint16]string{0: srv.at()}}
	b := serve(t, w, egress.Options{Permit: allowing(t, `{allow: ["http://a.test"], max_bytes: 100000}`)})
	c := b.client(t, nil)
	tests := map[string]struct {
		url    string
		status int
		length int
		broken bool
	}{
		"as large as allowed":        {"/100000", 200, 100000, false},
		"as large, with its length":  {"/100000?length=1", 200, 100000, false},
		"one more":                   {"/100001", 200, 100000, true},
		"one more, with its length":  {"/100001?length=1", 403, 0, false},
		"much more, with its length": {"/100000000?length=1", 403, 0, false},
	}
	for name, tt := range tests {
		status, body, _ := get(t, c, "http://a.test"+tt.url)
		if status != tt.status || strings.HasSuffix(body, "BROKE OFF") != tt.broken || status == 200 && !tt.broken && len(body) != tt.length {
			t.Errorf("%s: %d, %d bytes", name, status, len(body))
		}
	}
	b.Close()
	if got := refusals(b); len(got) != 3 || !strings.HasPrefix(got[0], "network.max_bytes: ") {
		t.Errorf("%q", got)
	}
}

func TestATunnelBringsInNoMoreThanAllowed(t *testing.T) {
	for name, section := range map[string]string{"by the kernel": "", "counted": ", total_bytes: 1GiB"} {
		t.Run(name, func(t *testing.T) {
			at, _ := sink(t)
			b := serve(t, nil, egress.Options{Permit: allowing(t, `{allow: ["tcp://`+at+`"], max_bytes: 3000000`+section+`}`)})
			for _, tt := range []struct{ send, want int }{{3000000, 3000000}, {3000001, 3000000}, {30000000, 3000000}} {
				c, reply := b.connect(t, at)
				if c == nil {
					t.Fatal(reply)
				}
				fmt.Fprintf(c, "%d\n", tt.send)
				n, _ := io.Copy(io.Discard, c)
				if int(n) > tt.want || tt.send == tt.want && int(n) != tt.want {
					t.Errorf("of %d came %d", tt.send, n)
				}
				c.Close()
			}
			b.Close()
			if got := refusals(b); len(got) != 1 || !strings.HasPrefix(got[0], "network.max_bytes: ") || b.Connections()[1].Count != 2 {
				t.Errorf("%q", got)
			}
		})
	}
}

func TestTheTotalHoldsForAllConnectionsTogether(t *testing.T) {
	const total = 1 << 20
	at, got := sink(t)
	srv := source(t)
	b := serve(t, nil, egress.Options{Permit: allowing(t, `{allow: ["tcp://`+at+`", "http://`+srv.at()+`"], total_bytes: 1MiB}`)})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			c, _ := b.connect(t, at)
			if c == nil {
				return
			}
			defer c.Close()
			fmt.Fprintf(c, "0\n")
			_, _ = c.Write(make([]byte, total))
			_, _ = io.Copy(io.Discard, c)
		})
	}
	wg.Wait()
	c := b.client(t, nil)
	resp, err := c.Post("http://"+srv.at()+"/0", "text/plain", bytes.NewReader(make([]byte, total)))
	if err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode != 403 || resp.Header.Get("Remit-Denied") != "network.total_bytes" {
			t.Errorf("status %d, %v", resp.StatusCode, resp.Header)
		}
	}
	b.Close()
	var in, out int64
	for _, r := range b.Connections() {
		in += r.In
		out += r.Out
	}
	if got() > total || in+out > total || in+out < total/2 {
		t.Errorf("%d bytes arrived; the report says %d in, %d out", got(), in, out)
	}
	if got := refusals(b); len(got) == 0 || !strings.HasPrefix(got[0], "network.total_bytes: ") {
		t.Errorf("%q", got)
	}
}

func TestBandwidth(t *testing.T) {
	at, _ := sink(t)
	b := serve(t, nil, egress.Options{Permit: allowing(t, `{allow: ["tcp://`+at+`"], bandwidth: 1000000}`)})
	begin := time.Now()
	var wg sync.WaitGroup
	for range 2 { // they share it
		wg.Go(func() {
			c, reply := b.connect(t, at)
			if c == nil {
				t.Error(reply)
				return
			}
			fmt.Fprintf(c, "%d\n", 300000)
			if n, err := io.Copy(io.Discard, c); n != 300000 {
				t.Errorf("%d bytes, %v", n, err)
			}
		})
	}
	wg.Wait()
	if took := time.Since(begin); took < 450*time.Millisecond || took > 20*time.Second {
		t.Errorf("600 kB at 1 MB/s took %v", took)
	}
}

func TestSilenceAndSlownessEnd(t *testing.T) {
	at, _ := sink(t)
	limits := egress.Limits{Header: 100 * time.Millisecond, Idle: time.Second}
	b := serve(t, nil, egress.Options{Permit: allowing(t, `{allow: ["tcp://`+at+`"]}`), Limits: limits})
	for name, say := range map[string]string{"nothing": "", "half a head": "GET http://a", "half a greeting": "\x05\x02"} {
		c, err := net.Dial("tcp", b.addr)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(c, say)
		begin := time.Now()
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		_, _ = io.ReadAll(c)
		if took := time.Since(begin); took > 20*time.Second {
			t.Errorf("%s: open for %v", name, took)
		}
		c.Close()
	}
	c, reply := b.connect(t, at)
	if c == nil {
		t.Fatal(reply)
	}
	fmt.Fprint(c, "0\n")
	begin := time.Now()
	for time.Since(begin) < 2500*time.Millisecond { // bytes one way keep both alive
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatalf("after %v: %v", time.Since(begin), err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	begin = time.Now()
	for time.Since(begin) < time.Minute {
		if b.Connections(); len(b.Connections()) > 2 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("a silent tunnel was open for %v", took)
	}
}

func TestAReceiverThatTakesNothingIsLetGo(t *testing.T) {
	at, _ := sink(t)
	b := serve(t, nil, egress.Options{Permit: allowing(t, `{allow: ["tcp://`+at+`"]}`), Limits: egress.Limits{Idle: 100 * time.Millisecond}})
	c, reply := b.connect(t, at)
	if c == nil {
		t.Fatal(reply)
	}
	fmt.Fprintf(c, "%d\n", 1<<30)
	_ = c.(*net.TCPConn).CloseWrite()
	for begin := time.Now(); len(b.Connections()) == 0; time.Sleep(5 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatal("the tunnel goes on")
		}
	}
	if r := b.Connections()[0]; r.Refused() || !strings.Contains(r.Reason, "nothing passed") {
		t.Errorf("%+v", r)
	}
}

func TestConnectionsAtOnce(t *testing.T) {
	at, _ := sink(t)
	b := serve(t, nil, egress.Options{Permit: allowing(t, `{allow: ["tcp://`+at+`"]}`), Limits: egress.Limits{Connections: 3}})
	var held []net.Conn
	for range 3 {
		c, reply := b.connect(t, at)
		if c == nil {
			t.Fatal(reply)
		}
		held = append(held, c)
	}
	if c, reply := b.connect(t, at); c != nil {
		t.Errorf("a fourth: %q", reply)
	}
	held[0].Close()
	for range 3000 {
		if c, _ := b.connect(t, at); c != nil {
			b.Close()
			if got := refusals(b); !strings.HasPrefix(got[0], "limit: ") {
				t.Errorf("%q", got)
			}
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("a place never became free")
}

func TestTheRequestsTimeout(t *testing.T) {
	stop := make(chan struct{})
	srv := newCanary(t, false, func(http.ResponseWriter, *http.Request) { <-stop })
	t.Cleanup(func() { close(stop) })
	b := serve(t, nil, egress.Options{Permit: allowing(t, `{allow: ["http://`+srv.at()+`"], timeout: 100ms}`)})
	begin := time.Now()
	if status, body, _ := get(t, b.client(t, nil), "http://"+srv.at()+"/"); status != 504 || time.Since(begin) > 20*time.Second {
		t.Errorf("%d %s after %v", status, body, time.Since(begin))
	}
}

func TestManyConnectionsLeaveNothing(t *testing.T) {
	srv := newCanary(t, false, nil)
	at, _ := sink(t)
	b := serve(t, nil, egress.Options{Permit: allowing(t, `{allow: ["http://`+srv.at()+`", "tcp://`+at+`"]}`)})
	before := runtime.NumGoroutine()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 25 {
				b.raw1(t, "GET http://"+srv.at()+"/ HTTP/1.1\r\nHost: "+srv.at()+"\r\nConnection: close\r\n$AUTH\r\n")
				if c, _ := b.connect(t, at); c != nil {
					fmt.Fprint(c, "10\n")
					_ = c.(*net.TCPConn).CloseWrite()
					_, _ = io.Copy(io.Discard, c)
					c.Close()
				}
			}
		})
	}
	wg.Wait()
	srv.CloseClientConnections()
	for range 3000 {
		if runtime.NumGoroutine() <= before+2 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > before+2 {
		t.Errorf("%d goroutines, %d before", n, before)
	}
	b.Close()
	if n := len(b.Connections()); n != 400 {
		t.Errorf("%d connections in the report", n)
	}
}

// raw1 sends a request and reads until the connection is closed.
func (b *box) raw1(t testing.TB, send string) string {
	t.Helper()
	c, err := net.Dial("tcp", b.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, strings.ReplaceAll(send, "$AUTH", b.auth()))
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	got, _ := io.ReadAll(c)
	return string(got)
}
