//go:build linux && (amd64 || arm64)

package linux

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// hostNames gives each host name in a sandbox an address that stands for the name there. A connection to that address is
// one to the name. No name leaves the sandbox before a connection to it is allowed.
type hostNames struct {
	mu    sync.Mutex
	order []string // the number of a name is that of its address
	at    map[string]netip.Addr
	conn  net.PacketConn
	done  sync.WaitGroup
	begun sync.Once
	err   error // of the beginning
}

const (
	// maxHostNames bounds the names of one sandbox. No address ever stands for another name: programs keep addresses.
	maxHostNames = 16 << 10
	maxHostName  = 253 // RFC 1035, without the last dot
	dnsTime      = 5   // seconds for which a client may keep an answer
	maxQuery     = 512 // RFC 1035: a message over UDP
	dnsAt        = "127.0.0.1"
	dnsPort      = 53
)

// firstHost is the beginning of 198.18.0.0/15, which no host of the Internet has (RFC 2544).
var firstHost = [4]byte{198, 18, 0, 0}

// address gives the address of a name. ok is false if there are too many names.
func (h *hostNames) address(name string) (_ netip.Addr, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if a, ok := h.at[name]; ok {
		return a, true
	}
	if len(h.order) >= maxHostNames {
		return netip.Addr{}, false
	}
	n := len(h.order) + 1
	a := netip.AddrFrom4([4]byte{firstHost[0], firstHost[1], byte(n >> 8), byte(n)})
	if h.at == nil {
		h.at = map[string]netip.Addr{}
	}
	h.order, h.at[name] = append(h.order, name), a
	return a, true
}

// host gives the name that an address stands for, or the address as text.
func (h *hostNames) host(a netip.Addr) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if b := a.AsSlice(); len(b) == 4 && b[0] == firstHost[0] && b[1] == firstHost[1] {
		if n := int(b[2])<<8 | int(b[3]); n > 0 && n <= len(h.order) {
			return h.order[n-1]
		}
	}
	return a.String()
}

// reset forgets all names. h can be nil.
func (h *hostNames) reset() {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.order, h.at = nil, nil
}

// serve answers the queries at a socket until close.
func (h *hostNames) serve(f *os.File) error {
	conn, err := net.FilePacketConn(f)
	_ = f.Close() // conn has a descriptor of its own
	if err != nil {
		return err
	}
	h.conn = conn
	h.done.Go(func() {
		query := make([]byte, maxQuery)
		for {
			n, from, err := conn.ReadFrom(query)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				time.Sleep(time.Millisecond) // the machine lacks something for a moment
				continue
			}
			if answer := h.answer(query[:n]); answer != nil {
				_, _ = conn.WriteTo(answer, from) // the client asks again
			}
		}
	})
	return nil
}

// close ends answering. h can be nil.
func (h *hostNames) close() {
	if h != nil && h.conn != nil {
		_ = h.conn.Close()
		h.done.Wait()
	}
}

// answer gives the reply to a query (RFC 1035); nil for messages of other kinds.
func (h *hostNames) answer(query []byte) []byte {
	var p dnsmessage.Parser
	head, err := p.Start(query)
	if err != nil || head.Response {
		return nil
	}
	q, err := p.Question()
	reply := dnsmessage.Header{ID: head.ID, Response: true, OpCode: head.OpCode, Authoritative: true, RecursionDesired: head.RecursionDesired, RecursionAvailable: true}
	var records []dnsmessage.ResourceBody
	switch {
	case err != nil:
		reply.RCode = dnsmessage.RCodeFormatError
	case head.OpCode != 0:
		reply.RCode = dnsmessage.RCodeNotImplemented
	default:
		records, reply.RCode = h.records(q)
	}
	b := dnsmessage.NewBuilder(make([]byte, 0, maxQuery), reply)
	if err == nil {
		_ = b.StartQuestions()
		_ = b.Question(q)
		_ = b.StartAnswers()
	}
	for _, r := range records {
		name := dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: dnsTime}
		switch r := r.(type) {
		case *dnsmessage.AResource:
			_ = b.AResource(name, *r)
		case *dnsmessage.AAAAResource:
			_ = b.AAAAResource(name, *r)
		}
	}
	out, err := b.Finish()
	if err != nil {
		return nil
	}
	return out
}

// records are the answers to a question. A name has an IPv4 address only: a second one would double each refusal.
func (h *hostNames) records(q dnsmessage.Question) ([]dnsmessage.ResourceBody, dnsmessage.RCode) {
	name := strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))
	local := name == "localhost" || strings.HasSuffix(name, ".localhost") // RFC 6761
	switch {
	case q.Class != dnsmessage.ClassINET || !isHostName(name):
		return nil, dnsmessage.RCodeNameError
	case local && q.Type == dnsmessage.TypeA:
		return []dnsmessage.ResourceBody{&dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}}, dnsmessage.RCodeSuccess
	case local && q.Type == dnsmessage.TypeAAAA:
		return []dnsmessage.ResourceBody{&dnsmessage.AAAAResource{AAAA: netip.IPv6Loopback().As16()}}, dnsmessage.RCodeSuccess
	case local || q.Type != dnsmessage.TypeA:
		return nil, dnsmessage.RCodeSuccess
	}
	a, ok := h.address(name)
	if !ok {
		return nil, dnsmessage.RCodeServerFailure
	}
	return []dnsmessage.ResourceBody{&dnsmessage.AResource{A: a.As4()}}, dnsmessage.RCodeSuccess
}

// isHostName reports whether a name in lower case can be one of a host. Names of the reverse lookup are none.
func isHostName(name string) bool {
	if name == "" || len(name) > maxHostName || strings.HasSuffix(name, ".arpa") {
		return false
	}
	return !slices.ContainsFunc([]byte(name), func(c byte) bool {
		return c != '-' && c != '.' && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z')
	})
}
