package gateway_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/doors/gateway"
	"github.com/remitrun/remit/internal/service/callers"
	"github.com/remitrun/remit/internal/service/grants"
)

// refusing is a gate that refuses at one place.
type refusing struct {
	everybody
	enter, check error
}

func (r refusing) Enter(ctx context.Context, c callers.Credential) (*callers.Caller, error) {
	if r.enter != nil {
		return nil, r.enter
	}
	return r.everybody.Enter(ctx, c)
}

func (r refusing) Check(_ context.Context, c *callers.Caller) (*callers.Caller, error) {
	return c, r.check
}

// TestALedgerThatIsAwayIsNoRefusal: wherever a request meets a ledger that cannot be used now, the client
// is told to come again. 403 would end its session.
func TestALedgerThatIsAwayIsNoRefusal(t *testing.T) {
	for code, want := range map[fault.Code]int{fault.StoreFailed: 503, fault.GrantRevoked: 401, fault.Denied: 403} {
		err := fault.New(code, "not now")
		for place, o := range map[string]gateway.Options{
			"enter": {Gate: refusing{enter: err}},
			"check": {Gate: refusing{check: err}},
			"begin": {Gate: everybody{}, Begin: func(context.Context, grants.Presented, gateway.Asker) (gateway.Session, error) { return nil, err }},
		} {
			h, end := gateway.New(o).Mount(t.Context())
			r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize"}`))
			r.Header.Set("Authorization", "Bearer x")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if end(t.Context()); w.Code != want {
				t.Errorf("%s: %s gives %d %q, want %d", place, code.Error(), w.Code, w.Body, want)
			}
		}
	}
}

// streams is a client's network. It tells of each stream that is open, and the test can cut it.
type streams struct {
	token string
	open  chan io.Closer
}

func (s streams) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+s.token)
	res, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && r.Method == http.MethodGet && res.StatusCode == http.StatusOK {
		s.open <- res.Body
	}
	return res, err
}

// opened waits for the next open stream.
func (s streams) opened(t *testing.T, cs *mcp.ClientSession) io.Closer {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- cs.Wait() }()
	select {
	case c := <-s.open:
		return c
	case err := <-ended:
		t.Fatalf("the client gave its session up: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("the client opens no stream")
	}
	return nil
}

// TestAStreamWaitsForTheLedger: the stream of a client of the Go SDK is cut while the ledger is away.
// The client opens it again and keeps its session.
func TestAStreamWaitsForTheLedger(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	n := newTwoNodes(t, false)
	net := streams{"ann", make(chan io.Closer, 10)}
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, nil).Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: "http://" + n.at[0] + "/mcp", HTTPClient: &http.Client{Transport: net},
	}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	stream := net.opened(t, cs)
	for range 2 {
		tried := n.tried.Load()
		n.away.Store(true)
		_ = stream.Close() // the client reads an error
		for end := time.Now().Add(time.Minute); n.tried.Load() < tried+3; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the stream does not wait for the ledger")
			}
		}
		n.away.Store(false)
		stream = net.opened(t, cs)
	}
	if res := call(t, cs, "fs_read", map[string]any{}); res.IsError {
		t.Error(text(res))
	}
	if err := cs.Close(); err != nil {
		t.Error(err)
	}
}
