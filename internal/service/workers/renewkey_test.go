package workers

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
)

// TestOnlyTheOwnKeyIsRenewed: a worker cannot get a certificate for another key, nor many.
func TestOnlyTheOwnKeyIsRenewed(t *testing.T) {
	pair, err := newAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	var a authority
	if a.key, a.cert, err = readPair(pair); err != nil {
		t.Fatal(err)
	}
	pub, own, _ := ed25519.GenerateKey(rand.Reader)
	_, other, _ := ed25519.GenerateKey(rand.Reader)
	for _, c := range []struct {
		name string
		left time.Duration
		key  ed25519.PrivateKey
		cut  int // bytes that the request lacks
		want fault.Code
	}{
		{"another key", time.Minute, other, 0, fault.GrantInvalid},
		{"a request that is cut off", time.Minute, own, 1, fault.GrantInvalid},
		{"too early", workerLife, own, 0, fault.Conflict},
	} {
		der, err := a.sign(Worker{Name: "w1", Joined: time.Now(), Until: time.Now().Add(c.left)}, pub)
		if err != nil {
			t.Fatal(err)
		}
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		req, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, c.key)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := (&Workers{}).renew(a, cert, joinRequest{Request: req[:len(req)-c.cut]}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}
