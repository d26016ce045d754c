//go:build linux && (amd64 || arm64)

package linux_test

import (
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/confine/sandbox"
)

// A socket that Remit serves is there for the command that it is given to, also beside the policy's
// sockets, and for no other. Serving ends with the command.
func TestServices(t *testing.T) {
	const at = "/run/remit/service.sock"
	w, connections := socketWorld(t, openPolicy)
	named := w.dir + "/named.sock"
	_ = hostSocket(t, named)
	w.allow(allowSocket(named))
	var ended atomic.Int32
	service := sandbox.Service{At: at, Serve: func(l net.Listener) error {
		defer ended.Add(1)
		for {
			c, err := l.Accept()
			if err != nil {
				return err
			}
			buf := make([]byte, 100)
			n, _ := c.Read(buf)
			_, _ = c.Write([]byte("service got " + string(buf[:n])))
			_ = c.Close()
		}
	}}
	exe, err := os.Executable()
	must(t, err)
	say := func(to string, with ...sandbox.Service) string {
		out, err := w.run(sandbox.Command{Argv: []string{exe, "probe", "say", to}, Timeout: time.Minute, Services: with})
		must(t, err)
		return string(out.Stdout.Data)
	}
	if got := say(at, service); !strings.HasPrefix(got, "service got hello") {
		t.Errorf("the service: %q", got)
	}
	if list := connections(); len(list) > 0 {
		t.Errorf("the service's connections are the proxy's: %+v", list)
	}
	if got := say(named, service); !strings.HasPrefix(got, "named.sock got hello") {
		t.Errorf("the policy's socket: %q", got)
	}
	if n := ended.Load(); n != 2 {
		t.Errorf("%d of 2 services ended", n)
	}
	if got := say(at); strings.Contains(got, "service got") {
		t.Errorf("another command reached the service: %q", got)
	}
	if _, err := os.Lstat(at); err == nil {
		t.Error("the socket is on the host")
	}
}
