//go:build linux && (amd64 || arm64)

package linux

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/spawn"
	"github.com/remitrun/remit/internal/confine/supervisor"
)

// proxyPort is where the proxy of a command listens that has a sandbox of its own. The network namespace is the sandbox's
// own, so no other sandbox and nothing of the host is there.
const proxyPort = sandbox.ProxyPort

// loopback brings the loopback interface of the sandbox's own network up.
func (b *builder) loopback() {
	const step = "loopback"
	name := make([]byte, 40) // struct ifreq
	copy(name, "lo")
	binary.NativeEndian.PutUint16(name[unix.IFNAMSIZ:], unix.IFF_UP|unix.IFF_RUNNING)
	b.Save(step, b.fd, unix.SYS_SOCKET, spawn.Int(unix.AF_INET), spawn.Int(unix.SOCK_DGRAM|unix.SOCK_CLOEXEC), none)
	b.Call(step, unix.SYS_IOCTL, spawn.From(b.fd), spawn.Int(unix.SIOCSIFFLAGS), spawn.At(b.Bytes(name)))
	b.Call(step, unix.SYS_CLOSE, spawn.From(b.fd))
}

// listen listens inside the sandbox and hands the listener to Remit. The sandbox
// itself keeps no descriptor of it, so Remit alone can close it.
func (b *builder) listen(port uint16) {
	const step = "listener"
	addr := spawn.Object(b.Program, unix.RawSockaddrInet4{Family: unix.AF_INET, Port: port>>8 | port<<8,
		Addr: [4]byte{127, 0, 0, 1}})
	b.Save(step, b.fd, unix.SYS_SOCKET, spawn.Int(unix.AF_INET), spawn.Int(unix.SOCK_STREAM|unix.SOCK_CLOEXEC), none)
	b.Call(step, unix.SYS_BIND, spawn.From(b.fd), spawn.At(addr), spawn.Int(unix.SizeofSockaddrInet4))
	b.Call(step, unix.SYS_LISTEN, spawn.From(b.fd), spawn.Int(512))
	b.Hand(step, b.fd)
	b.Call(step, unix.SYS_CLOSE, spawn.From(b.fd))
}

// resolver makes the files by which programs find hosts. With direct it hands out the socket at which Remit answers for all names.
func (b *builder) resolver(direct bool) {
	const step = "name service"
	if !direct {
		b.newFile("/etc/nsswitch.conf", nameServices+"hosts: files\n")
		return
	}
	b.newFile("/etc/nsswitch.conf", nameServices+"hosts: files dns\n")
	b.newFile("/etc/resolv.conf", "nameserver "+dnsAt+"\n")
	addr := spawn.Object(b.Program, unix.RawSockaddrInet4{Family: unix.AF_INET, Port: dnsPort << 8, Addr: [4]byte{127, 0, 0, 1}})
	b.Save(step, b.fd, unix.SYS_SOCKET, spawn.Int(unix.AF_INET), spawn.Int(unix.SOCK_DGRAM|unix.SOCK_CLOEXEC), none)
	b.Call(step, unix.SYS_BIND, spawn.From(b.fd), spawn.At(addr), spawn.Int(unix.SizeofSockaddrInet4))
	b.Hand(step, b.fd)
	b.Call(step, unix.SYS_CLOSE, spawn.From(b.fd))
}

const nameServices = "passwd: files\ngroup: files\n"

// sockets listens on Unix sockets that stand for the host's, and hands the listeners to Remit in
// the profile's order, those that Remit serves last. They are made in the hidden folder, and mounted from there.
func (b *builder) sockets() {
	for i, at := range listeners(b.p) {
		step, name := fmt.Sprintf("socket %q", at), socketName(i)
		addr := unix.RawSockaddrUnix{Family: unix.AF_UNIX}
		for j := range len(name) {
			addr.Path[j] = int8(name[j])
		}
		b.Call(step, unix.SYS_FCHDIR, spawn.From(b.tree.hidden)) // a relative name: an absolute one is the host's still
		b.Save(step, b.fd, unix.SYS_SOCKET, spawn.Int(unix.AF_UNIX), spawn.Int(unix.SOCK_STREAM|unix.SOCK_CLOEXEC), none)
		b.Call(step, unix.SYS_BIND, spawn.From(b.fd), spawn.At(spawn.Object(b.Program, addr)), spawn.Int(2+len(name)+1))
		b.Call(step, unix.SYS_LISTEN, spawn.From(b.fd), spawn.Int(128))
		b.Hand(step, b.fd)
		b.Call(step, unix.SYS_CLOSE, spawn.From(b.fd))
	}
}

// listeners are the paths of all sockets of a profile, in the order in which they are made.
func listeners(p sandbox.Profile) []string { return slices.Concat(p.Sockets, p.Services) }

// socketName is the name of a socket in the hidden folder.
func socketName(i int) string { return "socket" + strconv.Itoa(i) }

// trust makes the file of certificates, if there is one.
func (b *builder) trust(ca []byte) {
	if ca != nil {
		b.newFile(sandbox.TrustFile, string(ca))
	}
}

// exit is the way out of one sandbox: nothing, or a proxy that serves it.
type exit struct {
	proxy    sandbox.Proxy
	permit   permit.Permit
	sockets  []string // of the profile
	own      []sandbox.Service
	publish  *publisher          // nil: no port is published
	direct   sandbox.DirectProxy // nil: programs that know no proxy have no way out
	port     uint16
	names    *hostNames
	ownNames *hostNames // names, if the sandbox is the command's own
	open     []net.Listener
	served   sync.WaitGroup
}

// exit makes the proxy of one command and adds to its environment what points
// there.
func (b *Box) exit(p permit.Permit, c sandbox.Command, prof sandbox.Profile, st *start) (*exit, error) {
	if !prof.Proxy {
		return &exit{}, nil
	}
	publish, err := newPublisher(prof.Publish)
	if err != nil {
		return nil, err
	}
	proxy := c.Proxy
	if proxy == nil {
		proxy, err = b.conf.Egress(p, c)
	}
	if err != nil {
		publish.close(p)
		return nil, err
	}
	vars := proxy.Env(int(st.port))
	direct, ok := proxy.(sandbox.DirectProxy)
	if st.direct = ok && prof.Supervised && prof.Isolation == policy.FullIsolation; st.direct {
		vars["NO_PROXY"], vars["no_proxy"] = sandbox.OwnHosts, sandbox.OwnHosts // connections to the host's are led to the proxy
	} else {
		direct = nil
	}
	if slices.Contains(prof.Sockets, sandbox.AgentAt) {
		vars["SSH_AUTH_SOCK"] = sandbox.AgentAt
	}
	if ca := proxy.CA(); ca != nil {
		st.ca = sandbox.TrustBundle(ca)
	}
	st.env = sandbox.WithVariables(st.env, vars)
	return &exit{proxy: proxy, permit: p, sockets: prof.Sockets, own: c.Services, publish: publish, direct: direct, port: st.port}, nil
}

// serve takes the listeners from the sandbox and has the proxy serve them. names are those of a sandbox that stays.
func (e *exit) serve(child *spawn.Child, names *hostNames) error {
	if e.proxy == nil {
		return nil
	}
	if e.names = names; e.direct != nil && names == nil {
		e.ownNames.close() // of a sandbox that was stale
		var err error
		if e.ownNames, err = resolve(child.Take()); err != nil {
			return err
		}
		e.names = e.ownNames
	}
	if err := e.take(child, e.proxy.Serve); err != nil {
		return err
	}
	for _, at := range e.sockets {
		if err := e.take(child, func(l net.Listener) error { return e.proxy.ServeSocket(at, l) }); err != nil {
			return err
		}
	}
	for _, s := range e.own {
		if err := e.take(child, s.Serve); err != nil {
			return err
		}
	}
	return e.publish.serve(child)
}

// resolve answers for the names of a sandbox at a socket that it handed over; nil: it ended before.
func resolve(f *os.File) (*hostNames, error) {
	if f == nil {
		return nil, errNoNetwork()
	}
	h := new(hostNames)
	if err := h.serve(f); err != nil {
		return nil, fault.Wrap(fault.ToolFailed, err, "the name service of the sandbox cannot be used: %v", err)
	}
	return h, nil
}

func errNoNetwork() error {
	return fault.New(fault.ToolFailed, "the sandbox ended before its network was there")
}

// detour leads a connection of a program to the proxy, but for those to the sandbox's own servers.
func (e *exit) detour(d *decider) func(to netip.AddrPort) *supervisor.Detour {
	if e.direct == nil {
		return nil
	}
	return func(to netip.AddrPort) *supervisor.Detour {
		host := e.names.host(to.Addr())
		if a := to.Addr(); a.IsLoopback() || a.IsUnspecified() { // both are this host's loopback interface
			if host = d.chain.LoopbackHost(to); host == "" || to.Port() == e.port {
				return nil
			}
		}
		return &supervisor.Detour{Port: e.port, Expect: func() ([]byte, func(), error) {
			hello, forget, err := e.direct.Expect(host, to.Port())
			if err != nil && d.isOver() {
				at := tool.Target{Scheme: "tcp", Host: host, Port: to.Port()}
				d.late(tool.Refused{Action: tool.Network.String() + " " + at.String(), Rule: "call", Reason: err.Error()})
			}
			return hello, forget, err
		}}
	}
}

// take takes the next listener from the sandbox and serves it.
func (e *exit) take(child *spawn.Child, serve func(net.Listener) error) error {
	f := child.Take()
	if f == nil {
		return errNoNetwork()
	}
	l, err := net.FileListener(f)
	_ = f.Close() // l has a descriptor of its own
	if err != nil {
		return fault.Wrap(fault.ToolFailed, err, "the listener of the sandbox cannot be used: %v", err)
	}
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // its name is the sandbox's
	}
	e.open = append(e.open, l)
	e.served.Go(func() {
		_ = serve(l) // it ends with Close; earlier failures are in its report
		_ = l.Close()
	})
	return nil
}

// close ends the proxy and tells what went through it.
func (e *exit) close() []sandbox.Connection {
	if e.proxy == nil {
		return nil
	}
	e.publish.close(e.permit)
	e.proxy.Close()
	for _, l := range e.open {
		_ = l.Close() // the proxy's are closed already
	}
	e.ownNames.close()
	e.served.Wait()
	list := e.proxy.Connections()
	e.proxy = nil
	return list
}
