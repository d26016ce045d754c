// Package workers admits the workers of a node and connects a worker to its node. A node has
// a certificate authority of its own for that: a join token, which is valid once, makes it
// sign a worker's key. Start at [Workers.Token] and [Workers.Serve] on a node, and at [Run]
// on a worker.
package workers

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/remote"
	"github.com/remitrun/remit/internal/confine/remote/wire"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/home"
)

// Files below $REMIT_HOME.
const (
	keyFile   = "keys/workers.pem"
	stateFile = "workers.json"
	stateLock = "workers.lock"
)

const (
	authorityLife = 10 * 365 * 24 * time.Hour
	workerLife    = 365 * 24 * time.Hour
	maxTokenLife  = 7 * 24 * time.Hour
	maxTokens     = 100_000 // used ones that are remembered
	clockSkew     = 5 * time.Minute
	seenEvery     = 5 * time.Second
	seenFor       = 3 * seenEvery
)

// Workers are the workers that may connect to the nodes of one $REMIT_HOME.
type Workers struct {
	Home  *home.Home
	Store func(context.Context) (store.Backend, error)
	Life  time.Duration // of a worker's certificate; 0: a year
}

func (s *Workers) life() time.Duration { return cmp.Or(s.Life, workerLife) }

// Worker is a worker that has joined.
type Worker struct {
	Name    string    `json:"name"`
	Labels  []string  `json:"labels"`
	Key     string    `json:"key"` // public, hexadecimal
	Joined  time.Time `json:"joined_at"`
	Until   time.Time `json:"until"` // of its certificate
	Seen    time.Time `json:"seen_at,omitzero"`
	Removed time.Time `json:"removed_at,omitzero"`
}

// State is "connected", "away" or "removed".
func (w Worker) State(now time.Time) string {
	switch {
	case !w.Removed.IsZero():
		return "removed"
	case now.Sub(w.Seen) < seenFor && !w.Seen.IsZero():
		return "connected"
	}
	return "away"
}

type state struct {
	Workers []Worker `json:"workers"`
}

// has reports whether a worker that was not removed has a name.
func (st state) has(name string) bool {
	return slices.ContainsFunc(st.Workers, func(w Worker) bool { return w.Name == name && w.Removed.IsZero() })
}

// change changes the list under its lock.
func (s *Workers) change(do func(*state) error) error {
	return s.Home.Locked(stateLock, func() error {
		st, err := s.read()
		if err == nil {
			err = do(&st)
		}
		if err != nil {
			return err
		}
		return s.Home.Write(stateFile, st)
	})
}

func (s *Workers) read() (state, error) {
	var st state
	if err := s.Home.Read(stateFile, &st); err != nil {
		return st, fault.Wrap(fault.StoreFailed, err, "%s cannot be read: %v", filepath.Join(s.Home.Dir, stateFile), err)
	}
	return st, nil
}

// List gives the workers that have joined, by name.
func (s *Workers) List() ([]Worker, error) {
	st, err := s.read()
	slices.SortFunc(st.Workers, func(a, b Worker) int { return strings.Compare(a.Name+a.Key, b.Name+b.Key) })
	return st.Workers, err
}

// Remove refuses a worker from now on, by its name.
func (s *Workers) Remove(name string) error {
	st, err := s.read()
	if err != nil {
		return err
	}
	if !st.has(name) {
		return fault.New(fault.NotFound, "no worker is named %q", name).ForOperator("remit workers list shows them")
	}
	return s.Home.Recorded("worker.remove", ledger.OperatorAction{Target: name}, func() error {
		return s.change(func(st *state) error {
			for i := range st.Workers {
				if w := &st.Workers[i]; w.Name == name && w.Removed.IsZero() {
					w.Removed = time.Now().UTC()
				}
			}
			return nil
		})
	})
}

// authority is the certificate authority of the nodes. Its key also signs permit tokens.
type authority struct {
	key  ed25519.PrivateKey
	cert *x509.Certificate
}

// authority reads the authority, or makes it.
func (s *Workers) authority() (a authority, err error) {
	err = s.Home.Locked(stateLock, func() error {
		b, err := s.Home.ReadFile(keyFile)
		if err != nil {
			return fault.Wrap(fault.StoreFailed, err, "%s cannot be read: %v", filepath.Join(s.Home.Dir, keyFile), err)
		}
		if b == nil {
			if b, err = newAuthority(time.Now()); err != nil {
				return err
			}
			if err := s.Home.WriteFile(keyFile, b); err != nil {
				return err
			}
		}
		a.key, a.cert, err = readPair(b)
		return err
	})
	return a, err
}

func newAuthority(now time.Time) ([]byte, error) {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	t := &x509.Certificate{SerialNumber: serial(), Subject: pkix.Name{CommonName: "Remit workers"}, NotBefore: now.Add(-clockSkew), NotAfter: now.Add(authorityLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, t, t, pub, key)
	if err != nil {
		return nil, err
	}
	return encodePair(key, der)
}

func serial() *big.Int {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never an error: without randomness the program ends
	return new(big.Int).SetBytes(b[:])
}

// encodePair writes a key and its certificate.
func encodePair(key ed25519.PrivateKey, cert []byte, more ...[]byte) ([]byte, error) {
	b, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	out := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: b})
	for _, der := range append([][]byte{cert}, more...) {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	return out, nil
}

// readPair reads a key and its certificate.
func readPair(b []byte) (ed25519.PrivateKey, *x509.Certificate, error) {
	bad := fault.New(fault.StoreCorrupt, "the key of the workers cannot be read").WithHint("restore $REMIT_HOME/%s from a backup; without it all workers must join again", keyFile)
	k, rest := pem.Decode(b)
	if k == nil {
		return nil, nil, bad
	}
	c, _ := pem.Decode(rest)
	if c == nil {
		return nil, nil, bad
	}
	any, err := x509.ParsePKCS8PrivateKey(k.Bytes)
	key, ok := any.(ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, nil, bad
	}
	cert, err := x509.ParseCertificate(c.Bytes)
	if err != nil {
		return nil, nil, bad
	}
	return key, cert, nil
}

// TokenTerms are the terms of a join token.
type TokenTerms struct {
	Name   string // of the worker
	Labels []string
	Life   time.Duration
}

// ticket is the content of a join token.
type ticket struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Labels  []string  `json:"labels"`
	Expires time.Time `json:"expires"`
	CA      []byte    `json:"ca"` // the authority's certificate, which the worker pins
}

// signedTicket is a join token.
type signedTicket struct {
	Ticket    []byte `json:"ticket"`
	Signature []byte `json:"signature"`
}

const (
	tokenBegin   = "remit-worker-"
	ticketPrefix = "remit worker join token v1\n"
)

// Token makes a join token, with which one worker can join until it expires.
func (s *Workers) Token(t TokenTerms) (string, error) {
	if err := policy.CheckLabels(append([]string{t.Name}, t.Labels...)); err != nil {
		return "", err
	}
	if t.Life <= 0 || t.Life > maxTokenLife {
		return "", fault.New(fault.Usage, "a join token is valid for up to %s, not for %s", maxTokenLife, t.Life)
	}
	a, err := s.authority()
	if err != nil {
		return "", err
	}
	labels := slices.Clone(t.Labels)
	slices.Sort(labels)
	body, err := json.Marshal(ticket{rand.Text(), t.Name, slices.Compact(labels), time.Now().Add(t.Life).UTC().Truncate(time.Second), a.cert.Raw})
	if err != nil {
		return "", err
	}
	b, err := json.Marshal(signedTicket{body, ed25519.Sign(a.key, append([]byte(ticketPrefix), body...))})
	if err == nil {
		err = s.Home.Recorded("worker.token", ledger.OperatorAction{Target: t.Name}, func() error { return nil })
	}
	return tokenBegin + base64.RawURLEncoding.EncodeToString(b), err
}

func refused(format string, args ...any) error {
	return fault.New(fault.GrantInvalid, "the join token is refused: "+format, args...).ForOperator("make another with remit worker token on the node")
}

// readTicket reads a join token. Its signature is not checked.
func readTicket(text string) (t ticket, s signedTicket, err error) {
	b, ok := strings.CutPrefix(strings.TrimSpace(text), tokenBegin)
	raw, derr := base64.RawURLEncoding.DecodeString(b)
	if !ok || derr != nil || json.Unmarshal(raw, &s) != nil || json.Unmarshal(s.Ticket, &t) != nil {
		return t, s, refused("it is not a join token; expected %s…", tokenBegin)
	}
	return t, s, nil
}

// admit uses a join token up and signs the key of the worker that presents it.
func (s *Workers) admit(ctx context.Context, a authority, q joinRequest) ([]byte, error) {
	t, signed, err := readTicket(q.Token)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	if !ed25519.Verify(a.key.Public().(ed25519.PublicKey), append([]byte(ticketPrefix), signed.Ticket...), signed.Signature) {
		return nil, refused("this node did not make it")
	}
	if !now.Before(t.Expires) {
		return nil, refused("it expired at %s", t.Expires.Format(time.RFC3339))
	}
	req, err := x509.ParseCertificateRequest(q.Request)
	if err != nil || req.CheckSignature() != nil {
		return nil, refused("the worker does not prove that it has its key")
	}
	pub, ok := req.PublicKey.(ed25519.PublicKey)
	if !ok {
		return nil, refused("the worker's key is not an Ed25519 key")
	}
	st, err := s.Store(ctx)
	if err != nil {
		return nil, err
	}
	rec := store.RequestRecord{Holder: "worker-join", Key: sha256.Sum256([]byte(t.ID)), Print: sha256.Sum256(pub), Until: t.Expires.Add(time.Hour)}
	if _, state, err := st.BeginRequest(ctx, rec, maxTokens); err != nil || state != store.RequestClaimed {
		if err == nil {
			err = refused("it was used before")
		}
		return nil, err
	}
	w := Worker{Name: t.Name, Labels: t.Labels, Key: hex.EncodeToString(pub), Joined: now.UTC(), Until: now.Add(s.life()).UTC()}
	known, err := s.read()
	if err == nil && known.has(w.Name) {
		err = taken(w.Name)
	}
	if err != nil {
		return nil, err
	}
	key := sha256.Sum256(pub)
	err = s.Home.Recorded("worker.join", ledger.OperatorAction{Target: w.Name, Digest: hex.EncodeToString(key[:])}, func() error { return s.add(w) })
	if err != nil {
		return nil, err
	}
	return a.sign(w, pub)
}

func taken(name string) error {
	return fault.New(fault.Conflict, "a worker is named %q already", name).ForOperator("remove it with remit workers remove %s, or choose another name", name)
}

// add adds a worker under a name that no other has.
func (s *Workers) add(w Worker) error {
	return s.change(func(st *state) error {
		if st.has(w.Name) {
			return taken(w.Name)
		}
		st.Workers = append(st.Workers, w)
		return nil
	})
}

// sign makes the certificate of a worker: its name, and its labels as URIs.
func (a authority) sign(w Worker, pub ed25519.PublicKey) ([]byte, error) {
	t := &x509.Certificate{SerialNumber: serial(), Subject: pkix.Name{CommonName: w.Name}, NotBefore: w.Joined.Add(-clockSkew), NotAfter: w.Until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, l := range w.Labels {
		t.URIs = append(t.URIs, &url.URL{Scheme: "remit-label", Opaque: l})
	}
	return x509.CreateCertificate(rand.Reader, t, a.cert, pub, a.key)
}

// identityOf reads a verified certificate.
func identityOf(c *x509.Certificate) (remote.Identity, error) {
	id := remote.Identity{Name: c.Subject.CommonName}
	key, ok := c.PublicKey.(ed25519.PublicKey)
	if !ok {
		return id, fault.New(fault.GrantInvalid, "the worker's key is not an Ed25519 key")
	}
	id.Key = key
	for _, u := range c.URIs {
		if u.Scheme == "remit-label" {
			id.Labels = append(id.Labels, u.Opaque)
		}
	}
	return id, policy.CheckLabels(append([]string{id.Name}, id.Labels...))
}

// nodeCertificate makes the certificate that a node shows to workers.
func (a authority) nodeCertificate(now time.Time) ([]byte, ed25519.PrivateKey, error) {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	t := &x509.Certificate{SerialNumber: serial(), Subject: pkix.Name{CommonName: wire.NodeName}, DNSNames: []string{wire.NodeName}, NotBefore: now.Add(-clockSkew),
		NotAfter: now.Add(workerLife), KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, pub, a.key)
	return der, key, err
}
