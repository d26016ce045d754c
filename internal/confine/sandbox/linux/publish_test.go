//go:build linux && (amd64 || arm64)

package linux_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/confine/sandbox"
)

// freePort gives a port that nothing listens on now.
func freePort(t *testing.T) uint16 {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	defer func() { must(t, l.Close()) }()
	return uint16(l.Addr().(*net.TCPAddr).Port)
}

func exists(p string) bool {
	_, err := os.Stat(p)
	return err == nil
}

// server is a web server in the sandbox that ends when the file out/end is there. It then tries
// to reach the port that it is published at, and a canary of the host.
const server = `import http.server, os, socket, sys, threading, time
host = sys.argv[1]
class S(http.server.ThreadingHTTPServer):
    request_queue_size = 128 # a dropped connection is tried again only after a second
    address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"inside " + self.client_address[0].encode())
    def log_message(self, *a): pass
s = S((host, 3000), H)
threading.Thread(target=s.serve_forever, daemon=True).start()
open("out/begun", "w").close()
while not os.path.exists("out/end"): time.sleep(0.01)
for port in sys.argv[2:]:
    try: socket.create_connection(("127.0.0.1", int(port)), 2); print("REACHED", port)
    except OSError: pass
`

// A published port leads to the sandbox's own server while the command runs, and nothing in the
// sandbox gets out through it.
func TestEscapePublishedPorts(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("NOT TESTED: there is no python3 here")
	}
	canary, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = canary.Close() }()
	for _, host := range []string{"127.0.0.1", "::1"} {
		t.Run(host, func(t *testing.T) {
			w, connections := socketWorld(t, openPolicy)
			w.sh("true") // it skips the test on a machine that cannot confine
			script, at := w.file("server.py", server), freePort(t)
			url := fmt.Sprintf("http://127.0.0.1:%d/", at)
			client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
			ended := make(chan sandbox.Outcome)
			go func() {
				out, err := w.run(sandbox.Command{
					Argv:    []string{"python3", script, host, fmt.Sprint(at), fmt.Sprint(canary.Addr().(*net.TCPAddr).Port)},
					Publish: []sandbox.Port{{Host: at, Inside: 3000}}, Timeout: time.Minute,
				})
				if err != nil {
					t.Error(err)
				}
				ended <- out
			}()
			defer func() {
				w.file("out/end", "")
				out := <-ended
				if out.ExitCode != 0 || strings.Contains(string(out.Stdout.Data), "REACHED") {
					t.Errorf("%s %s", out.Stdout.Data, out.Stderr.Data)
				}
				if c, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", at)); err == nil {
					_ = c.Close()
					t.Error("the port outlives the command")
				}
				if list := connections(); len(list) > 0 {
					t.Errorf("connections: %+v", list)
				}
				list, _ := w.p.Happened()
				if h := list[len(list)-1]; h.On != fmt.Sprintf("publish %d:3000", at) || h.Purpose != "connections: 100" || h.Bytes == 0 || h.Received == 0 {
					t.Errorf("what happened: %+v", list)
				}
			}()
			for begun := time.Now(); !exists(w.dir + "/out/begun"); time.Sleep(time.Millisecond) {
				if time.Since(begun) > time.Minute {
					t.Fatal("the server did not start")
				}
			}
			var all sync.WaitGroup
			for range 100 { // more than there are sockets
				all.Go(func() {
					resp, err := client.Get(url)
					if err != nil {
						t.Error(err)
						return
					}
					b, _ := io.ReadAll(resp.Body)
					_ = resp.Body.Close()
					if string(b) != "inside "+host {
						t.Errorf("%q", b)
					}
				})
			}
			all.Wait()
		})
	}
}

// A port that is taken is an error before the command starts.
func TestATakenPortIsNotPublished(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = l.Close() }()
	w, _ := socketWorld(t, openPolicy)
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	_, err = w.run(sandbox.Command{Argv: []string{"touch", "out/started"}, Publish: []sandbox.Port{{Host: port, Inside: 80}}})
	if err == nil || !strings.Contains(err.Error(), "is taken by another program") {
		t.Errorf("%v", err)
	}
	if exists(w.dir + "/out/started") {
		t.Error("the command was started")
	}
}
