package seatbelt

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// exit is the way out of one command: nothing, or a proxy on a port of the machine's own
// loopback addresses. Other programs can connect there, too: the proxy serves only clients
// with its password, which only the command knows.
type exit struct {
	proxy  sandbox.Proxy
	port   int
	vars   map[string]string
	open   []net.Listener
	served sync.WaitGroup
}

// exit makes the proxy of one command.
func (b *Box) exit(p permit.Permit, c sandbox.Command, prof sandbox.Profile, tmp string) (*exit, error) {
	e := &exit{}
	if !prof.Proxy {
		return e, nil
	}
	var err error
	if e.open, e.port, err = listen(); err != nil {
		return nil, fault.Wrap(fault.SandboxMissing, err, "no port can be listened on for the command's proxy: %v", err)
	}
	if e.proxy, err = b.conf.Egress(p, c); err != nil {
		for _, l := range e.open {
			_ = l.Close() // nothing was served
		}
		return nil, err
	}
	e.vars = e.proxy.Env(e.port)
	if ca := e.proxy.CA(); ca != nil {
		own := filepath.Join(tmp, filepath.Base(sandbox.TrustFile))
		if err := os.WriteFile(own, sandbox.TrustBundle(ca), 0o600); err != nil {
			e.close()
			return nil, fault.Wrap(fault.ToolFailed, err, "the certificates cannot be given to the command: %v", sandbox.RootCause(err))
		}
		for name, v := range e.vars {
			if v == sandbox.TrustFile {
				e.vars[name] = own
			}
		}
	}
	for _, l := range e.open {
		e.served.Go(func() { _ = e.proxy.Serve(l) }) // it ends with Close; earlier errors are in its report
	}
	return e, nil
}

// close ends the proxy and tells what went through it.
func (e *exit) close() []sandbox.Connection {
	if e.proxy == nil {
		return nil
	}
	e.proxy.Close()
	for _, l := range e.open {
		_ = l.Close() // the proxy has closed those that it served
	}
	e.served.Wait()
	list := e.proxy.Connections()
	e.proxy = nil
	return list
}

// tries bounds the search for a port that is free at both addresses.
const tries = 20

// listen takes one port of both loopback addresses: the profile's rule is about both, so
// that another program's listener must be at neither.
func listen() ([]net.Listener, int, error) {
	var last error
	for range tries {
		four, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return nil, 0, err
		}
		_, port, err := net.SplitHostPort(four.Addr().String())
		if err != nil {
			return nil, 0, errors.Join(err, four.Close())
		}
		n, err := strconv.Atoi(port)
		if err != nil {
			return nil, 0, errors.Join(err, four.Close())
		}
		six, err := net.Listen("tcp6", "[::1]:"+port)
		switch {
		case err == nil:
			return []net.Listener{four, six}, n, nil
		case errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT):
			return []net.Listener{four}, n, nil // the machine has no such address
		}
		last = errors.Join(err, four.Close())
	}
	return nil, 0, last
}
