package network_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/network"
)

func TestResponseIsCappedAfterDecompression(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		defer z.Close()
		zeros := make([]byte, 1<<16)
		for range 1 << 9 { // 32 MiB
			if _, err := z.Write(zeros); err != nil {
				return
			}
		}
	})
	resp, err := network.NewClient(allowing(t, allow(s.URL)+"  max_bytes: 64KiB\n")).Do(t.Context(), network.Request{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if n != 64<<10 || !errors.Is(err, fault.LimitReached) {
		t.Errorf("%d bytes, then %v", n, err)
	}
}

func TestResponseOfExactlyTheLimit(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 64<<10)) })
	resp, err := network.NewClient(allowing(t, allow(s.URL)+"  max_bytes: 64KiB\n")).Do(t.Context(), network.Request{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	if got := len(body(t, resp)); got != 64<<10 {
		t.Errorf("%d bytes", got)
	}
}

func TestHugeHeadersAreRefused(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		for i := range 100 {
			w.Header().Set(fmt.Sprint("X-", i), strings.Repeat("x", 8<<10))
		}
	})
	if _, err := network.NewClient(allowing(t, allow(s.URL))).Do(t.Context(), network.Request{URL: s.URL}); !errors.Is(err, fault.ToolFailed) {
		t.Error(err)
	}
}

func TestSlowServers(t *testing.T) {
	drip := func(line string) func(net.Conn) {
		return func(c net.Conn) {
			for {
				if _, err := io.WriteString(c, line); err != nil {
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
		}
	}
	tests := map[string]func(net.Conn){
		"silent":          func(c net.Conn) { _, _ = io.Copy(io.Discard, c) },
		"headers by drip": func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n"); drip("X: y\r\n")(c) },
		"body by drip": func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
			drip("x")(c)
		},
	}
	for name, act := range tests {
		t.Run(name, func(t *testing.T) {
			addr := rawServer(t, act)
			start := time.Now()
			c := network.NewClient(allowing(t, allow("http://"+addr)+"  timeout: 300ms\n"))
			resp, err := c.Do(t.Context(), network.Request{URL: "http://" + addr})
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			if !errors.Is(err, fault.ToolTimeout) || time.Since(start) > 20*time.Second {
				t.Errorf("%v after %v", err, time.Since(start))
			}
		})
	}
}

// rawServer accepts connections, reads what has come of the request and acts.
func rawServer(t *testing.T, act func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				if _, err := c.Read(make([]byte, 4096)); err == nil {
					act(c)
				}
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	return l.Addr().String()
}

func TestCancelled(t *testing.T) {
	addr := rawServer(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, errors.New("given up"))
	defer cancel()
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer context.AfterFunc(ctx, stop)()
	if _, err := network.NewClient(allowing(t, allow("http://"+addr))).Do(inner, network.Request{URL: "http://" + addr}); !errors.Is(err, fault.ToolCancelled) {
		t.Error(err)
	}
}

func TestBrokenAnswersAreFailures(t *testing.T) {
	for name, raw := range map[string]string{
		"not HTTP":         "SSH-2.0-OpenSSH\r\n",
		"nothing":          "",
		"cut body":         "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
		"two lengths":      "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
		"switch protocols": "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
		"bad gzip":         "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
	} {
		t.Run(name, func(t *testing.T) {
			addr := rawServer(t, func(c net.Conn) { _, _ = io.WriteString(c, raw) })
			resp, err := network.NewClient(allowing(t, allow("http://"+addr))).Do(t.Context(), network.Request{URL: "http://" + addr + "/?token=hunter2"})
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			if !errors.Is(err, fault.ToolFailed) || strings.Contains(fault.Message(err), "hunter2") {
				t.Error(err)
			}
		})
	}
}

func TestOneReadStaysWithinTheLimit(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 2000)) })
	resp, err := network.NewClient(allowing(t, allow(s.URL)+"  max_bytes: 1KiB\n")).Do(t.Context(), network.Request{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if n, err := io.ReadFull(resp.Body, make([]byte, 2000)); n != 1024 || !errors.Is(err, fault.LimitReached) {
		t.Errorf("%d bytes, then %v", n, err)
	}
}
