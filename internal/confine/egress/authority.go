package egress

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"sync"
	"time"
)

// Authority signs certificates for the hosts whose TLS is inspected. Its key is
// made for one run or for the sessions of agents, stays in memory and is good for a week. It is safe for
// concurrent use. The zero Authority signs nothing.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	host *ecdsa.PrivateKey // of all hosts
	pem  []byte

	mu     sync.Mutex
	leaves map[string]*tls.Certificate
}

const (
	authorityLasts = 7 * 24 * time.Hour // longer than a call, and no use without this process
	clockSkew      = time.Hour
	maxLeaves      = 256
)

// Signer gives the same authority for days, so that sandboxes that stay need not be made anew. It is safe for concurrent use;
// the zero Signer is ready, and a nil one gives nil.
type Signer struct {
	mu   sync.Mutex
	now  *Authority
	made time.Time
}

// renewAfter leaves the authority enough time for the longest command.
const renewAfter = authorityLasts / 2

// Authority returns an authority that is good for half a week at least.
func (s *Signer) Authority(now time.Time) *Authority {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == nil || now.Sub(s.made) > renewAfter || now.Before(s.made) {
		s.now, s.made = NewAuthority(now), now
	}
	return s.now
}

// NewAuthority makes an authority that is good from now on for a week.
func NewAuthority(now time.Time) *Authority {
	a := &Authority{leaves: map[string]*tls.Certificate{}}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	host, err2 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil || err2 != nil {
		return &Authority{} // signs nothing, so inspected connections fail
	}
	subject := pkix.Name{Organization: []string{"Remit"}, CommonName: "Remit inspection"}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: subject, NotBefore: now.Add(-clockSkew), NotAfter: now.Add(authorityLasts),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return &Authority{}
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return &Authority{}
	}
	a.key, a.host = key, host
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

func serial() *big.Int {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never an error: without randomness the program ends
	b[0] &= 0x7f
	return new(big.Int).SetBytes(b[:])
}

// CA is the authority's own certificate, PEM.
func (a *Authority) CA() []byte { return append([]byte(nil), a.pem...) }

// keyHash is the SHA-256 of the public key of all certificates for hosts, in Base64.
func (a *Authority) keyHash() string {
	if a.host == nil {
		return ""
	}
	der, err := x509.MarshalPKIXPublicKey(a.host.Public())
	if err != nil {
		return "" // nothing is trusted, so inspected connections fail
	}
	sum := sha256.Sum256(der)
	return base64.StdEncoding.EncodeToString(sum[:])
}

// leaf gives a certificate for a canonical host.
func (a *Authority) leaf(host string, now time.Time) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.key == nil {
		return nil, fmt.Errorf("the certificate authority is missing")
	}
	if c := a.leaves[host]; c != nil {
		return c, nil
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{Organization: []string{"Remit"}},
		NotBefore: now.Add(-clockSkew), NotAfter: a.cert.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, a.host.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("no certificate for the host: %w", err)
	}
	c := &tls.Certificate{Certificate: [][]byte{der, a.cert.Raw}, PrivateKey: a.host}
	if len(a.leaves) >= maxLeaves {
		clear(a.leaves) // made again when needed
	}
	a.leaves[host] = c
	return c, nil
}
