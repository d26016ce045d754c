package gateway_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/remitrun/remit/internal/app"
)

// directServer is a server of the SDK with one tool, as fast as one can be.
func directServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "direct", Version: "1"}, nil)
	s.AddTool(&mcp.Tool{Name: "time_now", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "now"}}, StructuredContent: map[string]any{"time": "now"}}, nil
	})
	return s
}

func benchClient(b *testing.B, t mcp.Transport) *mcp.ClientSession {
	b.Helper()
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil).Connect(b.Context(), t, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cs.Close() })
	return cs
}

// median makes calls one by one and reports the median of their times.
func median(b *testing.B, cs *mcp.ClientSession) {
	b.Helper()
	times := make([]time.Duration, 0, b.N)
	for b.Loop() {
		began := time.Now()
		if res, err := cs.CallTool(b.Context(), &mcp.CallToolParams{Name: "time_now"}); err != nil || res.IsError {
			b.Fatal(err, res)
		}
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds()), "µs-p50")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "µs-p99")
}

// throughput makes calls from several goroutines.
func throughput(b *testing.B, cs *mcp.ClientSession) {
	b.Helper()
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if res, err := cs.CallTool(context.Background(), &mcp.CallToolParams{Name: "time_now"}); err != nil || res.IsError {
				b.Error(err, res)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}

// BenchmarkCall compares a call through the gateway, decided and recorded, with
// one of a server that does nothing.
func BenchmarkCall(b *testing.B) {
	w := newWorld(b)
	token := w.grant(w.policy(policy), "agent:x")
	direct := func(b *testing.B) *mcp.ClientSession {
		b.Helper()
		inR, inW := io.Pipe()
		outR, outW := io.Pipe()
		ctx, stop := context.WithCancel(context.Background())
		b.Cleanup(stop)
		go func() { _ = directServer().Run(ctx, &mcp.IOTransport{Reader: inR, Writer: outW}) }()
		return benchClient(b, &mcp.IOTransport{Reader: outR, Writer: inW})
	}
	gateway := func(b *testing.B) *mcp.ClientSession {
		b.Helper()
		r, wr := w.serve(app.MCPRequest{Policy: w.policy(policy)})
		b.Cleanup(func() { <-w.served })
		return benchClient(b, &mcp.IOTransport{Reader: r, Writer: wr})
	}
	// Without more, Go's client keeps two connections and opens the others anew.
	keeps := &http.Transport{MaxIdleConnsPerHost: 64}
	b.Cleanup(keeps.CloseIdleConnections)
	directHTTP := func(b *testing.B) *mcp.ClientSession {
		b.Helper()
		s := directServer()
		srv := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
		b.Cleanup(srv.Close)
		return benchClient(b, &mcp.StreamableClientTransport{Endpoint: srv.URL, HTTPClient: &http.Client{Transport: keeps}})
	}
	gatewayHTTP := func(b *testing.B) *mcp.ClientSession {
		b.Helper()
		return benchClient(b, &mcp.StreamableClientTransport{Endpoint: "http://" + w.listen(app.MCPRequest{}), HTTPClient: &http.Client{Transport: bearer{token, keeps}}})
	}
	for _, c := range []struct {
		name   string
		client func(*testing.B) *mcp.ClientSession
	}{{"stdio/direct", direct}, {"stdio/gateway", gateway}, {"http/direct", directHTTP}, {"http/gateway", gatewayHTTP}} {
		b.Run(c.name, func(b *testing.B) { median(b, c.client(b)) })
		b.Run(c.name+"/parallel", func(b *testing.B) { throughput(b, c.client(b)) })
	}
}
