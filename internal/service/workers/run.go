package workers

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/remote/wire"
	"github.com/remitrun/remit/internal/confine/remote/worker"
	"github.com/remitrun/remit/internal/service/home"
)

// RunRequest says what a worker joins.
type RunRequest struct {
	URL   string // https://HOST:PORT of the node
	Token string // the join token; it is only used the first time
	Home  *home.Home
	// Told is called as the worker connects, loses its connection, and works.
	Told func(event, detail string)
}

// membershipFile has a worker's key, its certificate, and that of the node's authority.
const membershipFile = "worker/membership.pem"

// membership is the state of a worker that has joined.
type membership struct {
	key  ed25519.PrivateKey
	cert []byte
	ca   *x509.Certificate
}

const (
	reconnectFirst = 200 * time.Millisecond
	reconnectMost  = 5 * time.Second
)

// Run joins, connects, and carries out commands until ctx ends. A lost connection is made
// again.
func Run(ctx context.Context, q RunRequest) error {
	addr, err := addressOf(q.URL)
	if err != nil {
		return err
	}
	m, err := join(ctx, addr, q)
	if err != nil {
		return err
	}
	dir := filepath.Join(q.Home.Dir, "worker")
	if real, err := filepath.EvalSymlinks(dir); err == nil { // join has made it
		dir = real
	}
	w, err := worker.New(worker.Config{Dir: dir, Key: m.key, Node: m.ca.PublicKey.(ed25519.PublicKey), Told: func(argv []string, ended string) {
		if ended == "" {
			q.Told("runs", argv[0])
		} else {
			q.Told("ended", argv[0]+": "+ended)
		}
	}})
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }() // its commands have ended
	k := &member{m: m}
	var renewing sync.WaitGroup
	renewing.Go(func() { k.renewed(ctx, addr, q) })
	defer renewing.Wait()
	wait := reconnectFirst
	for ctx.Err() == nil {
		conn, err := dial(ctx, addr, k.now().client(), wire.WorkProtocol)
		if err == nil {
			q.Told("connected", addr)
			began := time.Now()
			w.Serve(ctx, conn)
			_ = conn.Close() // it has ended
			if time.Since(began) > reconnectMost {
				wait = reconnectFirst
			}
		}
		if ctx.Err() != nil {
			break
		}
		q.Told("away", reason(err))
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait = min(2*wait, reconnectMost)
	}
	return nil
}

func reason(err error) string {
	if err == nil {
		return "the connection ended: the node stopped, or removed this worker"
	}
	return fault.Message(err)
}

// addressOf reads the address of a node.
func addressOf(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.Port() == "" || u.User != nil || u.Path != "" && u.Path != "/" || u.RawQuery != "" {
		return "", fault.New(fault.Usage, "--join %q is not the address of a node; expected https://HOST:PORT, as remit serve --workers prints it", text)
	}
	return u.Host, nil
}

// dial connects to a node and checks its certificate, independent of its name in the network.
func dial(ctx context.Context, addr string, conf *tls.Config, protocol string) (net.Conn, error) {
	conf.NextProtos, conf.ServerName, conf.MinVersion = []string{protocol}, wire.NodeName, tls.VersionTLS13
	ctx, stop := context.WithTimeout(ctx, handshakeTime)
	defer stop()
	conn, err := (&tls.Dialer{Config: conf}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fault.Wrap(fault.NotFound, err, "the node at %s cannot be reached: %v", addr, err)
	}
	if conn.(*tls.Conn).ConnectionState().NegotiatedProtocol != protocol {
		_ = conn.Close()
		return nil, fault.New(fault.NotFound, "the service at %s does not accept workers", addr).WithHint("use the address that remit serve --workers prints")
	}
	return conn, nil
}

func (m membership) client() *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(m.ca)
	conf := &tls.Config{RootCAs: pool}
	if m.cert != nil {
		conf.Certificates = []tls.Certificate{{Certificate: [][]byte{m.cert}, PrivateKey: m.key}}
	}
	return conf
}

// join reads the membership, or joins with the token.
func join(ctx context.Context, addr string, q RunRequest) (m membership, err error) {
	t, _, terr := readTicket(q.Token)
	b, err := q.Home.ReadFile(membershipFile)
	if err != nil {
		return m, fault.Wrap(fault.StoreFailed, err, "%s cannot be read: %v", membershipFile, err)
	}
	if b != nil {
		m, err := readMembership(b)
		if err != nil || terr != nil || bytes.Equal(m.ca.Raw, t.CA) {
			return m, err // the token was used before
		}
	}
	if terr != nil {
		return m, terr
	}
	if m.ca, err = x509.ParseCertificate(t.CA); err != nil {
		return m, refused("it has no certificate of the node")
	}
	if _, ok := m.ca.PublicKey.(ed25519.PublicKey); !ok {
		return m, refused("it has no Ed25519 key of the node")
	}
	if _, m.key, err = ed25519.GenerateKey(rand.Reader); err != nil {
		return m, err
	}
	if m.cert, err = m.ask(ctx, addr, q.Token, m.client()); err != nil {
		return m, err
	}
	if b, err = encodePair(m.key, m.cert, m.ca.Raw); err != nil {
		return m, err
	}
	q.Told("joined", t.Name)
	return m, q.Home.WriteFile(membershipFile, b)
}

// ask presents the token, or the present certificate, and gets the key signed.
func (m membership) ask(ctx context.Context, addr, token string, conf *tls.Config) ([]byte, error) {
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, m.key)
	if err != nil {
		return nil, err
	}
	conn, err := dial(ctx, addr, conf, wire.JoinProtocol)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // all was read
	_ = conn.SetDeadline(time.Now().Add(3 * handshakeTime))
	if err := wire.Write(conn, joinRequest{token, csr}); err != nil {
		return nil, err
	}
	var a joinAnswer
	if err := wire.Read(bufio.NewReader(io.LimitReader(conn, maxJoin)), &a); err != nil {
		return nil, fault.Wrap(fault.NotFound, err, "the node at %s ended the connection", addr)
	}
	if a.Refusal != nil {
		return nil, fault.New(a.Refusal.Code, "%s", a.Refusal.Message)
	}
	c, err := x509.ParseCertificate(a.Certificate)
	if err != nil || c.CheckSignatureFrom(m.ca) != nil {
		return nil, refused("the node's certificate for this worker is not valid")
	}
	return a.Certificate, nil
}

func readMembership(b []byte) (m membership, err error) {
	var cert *x509.Certificate
	if m.key, cert, err = readPair(b); err != nil {
		return m, err
	}
	m.cert = cert.Raw
	_, rest := pem.Decode(b)
	_, rest = pem.Decode(rest)
	c, _ := pem.Decode(rest)
	if c != nil {
		m.ca, err = x509.ParseCertificate(c.Bytes)
	}
	if c == nil || err != nil {
		return m, fault.New(fault.StoreCorrupt, "%s cannot be read", membershipFile).WithHint("remove it, and join with a new token")
	}
	if _, ok := m.ca.PublicKey.(ed25519.PublicKey); !ok {
		return m, fault.New(fault.StoreCorrupt, "%s has no key of the node", membershipFile).WithHint("remove it, and join with a new token")
	}
	return m, nil
}
