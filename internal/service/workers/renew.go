package workers

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"slices"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/service/home"
)

// renewEvery is how often a worker looks at its certificate.
const renewEvery = time.Hour

// isDue reports whether a certificate is in the last third of its time.
func isDue(c *x509.Certificate, now time.Time) bool {
	return c.NotAfter.Sub(now) < c.NotAfter.Sub(c.NotBefore)/3
}

// renew signs the key of a worker again, under the name and the labels of its present
// certificate, which was verified. A worker that was removed is not renewed.
func (s *Workers) renew(a authority, c *x509.Certificate, q joinRequest) ([]byte, error) {
	id, err := identityOf(c)
	if err != nil {
		return nil, err
	}
	req, err := x509.ParseCertificateRequest(q.Request)
	if err != nil || req.CheckSignature() != nil || !id.Key.Equal(req.PublicKey) {
		return nil, fault.New(fault.GrantInvalid, "a worker can only renew the certificate of its own key")
	}
	now := time.Now()
	if !isDue(c, now) {
		return nil, fault.New(fault.Conflict, "the worker's certificate is valid until %s; it is renewed in the last third of its time", c.NotAfter.UTC().Format(time.RFC3339))
	}
	w := Worker{Name: id.Name, Labels: id.Labels, Key: hex.EncodeToString(id.Key), Joined: now.UTC(), Until: now.Add(s.life()).UTC()}
	st, err := s.read()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(st.Workers, func(k Worker) bool { return k.Key == w.Key && k.Removed.IsZero() })
	if i < 0 {
		return nil, fault.New(fault.GrantInvalid, "the worker was removed, or is not known here")
	}
	if st.Workers[i].Until.After(c.NotAfter.Add(time.Second)) { // it was renewed before, and the answer was lost
		return a.sign(w, id.Key)
	}
	key := sha256.Sum256(id.Key)
	err = s.Home.Recorded("worker.renew", ledger.OperatorAction{Target: w.Name, Digest: hex.EncodeToString(key[:])}, func() error {
		return s.change(func(st *state) error {
			for i := range st.Workers {
				if k := &st.Workers[i]; k.Key == w.Key && k.Removed.IsZero() {
					k.Until = w.Until
				}
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return a.sign(w, id.Key)
}

// member is a worker's membership, which is renewed while it runs.
type member struct {
	mu sync.Mutex
	m  membership
}

func (k *member) now() membership {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.m
}

// renewed keeps the certificate valid until ctx ends. One that could not be renewed is tried
// again: it has a third of its time left.
func (k *member) renewed(ctx context.Context, addr string, q RunRequest) {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		if c, err := x509.ParseCertificate(k.now().cert); err == nil && isDue(c, time.Now()) {
			if err := k.renew(ctx, addr, q.Home); err != nil {
				q.Told("renewal failed", fault.Message(err))
			} else {
				q.Told("renewed", addr)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// renew asks the node for another certificate of the same key, and keeps it.
func (k *member) renew(ctx context.Context, addr string, h *home.Home) error {
	m := k.now()
	cert, err := m.ask(ctx, addr, "", m.client())
	if err != nil {
		return err
	}
	c, err := x509.ParseCertificate(cert)
	if err != nil || !m.key.Public().(ed25519.PublicKey).Equal(c.PublicKey) {
		return fault.New(fault.GrantInvalid, "the node renewed the certificate of another key")
	}
	m.cert = cert
	b, err := encodePair(m.key, m.cert, m.ca.Raw)
	if err == nil {
		err = h.WriteFile(membershipFile, b)
	}
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.m = m
	return nil
}
