package app_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/app"
)

// certificate writes one for 127.0.0.1 and gives its files, and who trusts it.
func certificate(t *testing.T) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	kb, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, b := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: kb}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	pool.AddCert(c)
	return cert, key, pool
}

func TestServeOverTLS(t *testing.T) {
	cert, key, pool := certificate(t)
	s := newService(t, func(q *app.ServeRequest) { q.Cert, q.Key = cert, key })
	if s.url[:8] != "https://" || !s.told.TLS {
		t.Fatalf("it serves on %s", s.url)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
	defer client.CloseIdleConnections()
	r := request(t, "GET", s.url+"/v1/agents", "", "Authorization", "Bearer "+s.token)
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != 200 {
		t.Errorf("%s", res.Status)
	}
}

// BenchmarkServeRead reads a session of the real service, over real connections, with
// the client on the same processors: p50, and requests a second.
func BenchmarkServeRead(b *testing.B) {
	s := newService(b, func(q *app.ServeRequest) { q.Limits.Rate, q.Limits.Burst = 1e9, 1e9 })
	id := s.session(s.token, `["current_time"]`)
	const at = 16
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: at}}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	var times []time.Duration
	b.ResetTimer()
	began := time.Now()
	var all sync.WaitGroup
	for k := range at {
		all.Go(func() {
			var own []time.Duration
			for i := k; i < b.N; i += at {
				t := time.Now()
				r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, s.url+"/v1/sessions/"+id, http.NoBody)
				if err != nil {
					b.Error(err)
					return
				}
				r.Header.Set("Authorization", "Bearer "+s.token)
				res, err := client.Do(r)
				if err != nil {
					b.Error(err)
					return
				}
				_, err = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				if err != nil || res.StatusCode != 200 {
					b.Errorf("%d %v", res.StatusCode, err)
					return
				}
				own = append(own, time.Since(t))
			}
			mu.Lock()
			defer mu.Unlock()
			times = append(times, own...)
		})
	}
	all.Wait()
	took := time.Since(began)
	b.StopTimer()
	if slices.Sort(times); len(times) > 0 {
		b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-µs")
		b.ReportMetric(float64(len(times))/took.Seconds(), "req/s")
	}
}
