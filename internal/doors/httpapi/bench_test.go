package httpapi_test

import (
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/doors/httpapi"
)

// BenchmarkRead reads an agent over real connections, 16 at once: p50 and requests a
// second, with the client on the same processors.
func BenchmarkRead(b *testing.B) {
	w := newWorld()
	s := server(b, w, func(o *httpapi.Options) { o.Limits.Rate, o.Limits.Burst, o.Log = 1e9, 1e9, nil })
	base, _ := serve(b, s)
	agentID, _ := agentAndSession(b, s, "admin", base)
	read(b, base+"/v1/agents/"+agentID, "admin")
}

// read makes b.N requests.
func read(b *testing.B, url, token string) {
	b.Helper()
	const at = 16
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: at}}
	defer client.CloseIdleConnections()
	times := make([][]time.Duration, at)
	b.ResetTimer()
	began := time.Now()
	var all sync.WaitGroup
	for k := range at {
		all.Go(func() {
			for i := k; i < b.N; i += at {
				t := time.Now()
				r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, url, http.NoBody)
				if err != nil {
					b.Error(err)
					return
				}
				r.Header.Set("Authorization", "Bearer "+token)
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
				times[k] = append(times[k], time.Since(t))
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	b.StopTimer()
	one := slices.Sorted(slices.Values(slices.Concat(times...)))
	if len(one) > 0 {
		b.ReportMetric(float64(one[len(one)/2].Microseconds()), "p50-µs")
		b.ReportMetric(float64(one[len(one)*99/100].Microseconds()), "p99-µs")
		b.ReportMetric(float64(len(one))/took.Seconds(), "req/s")
	}
}
