package gateway_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/doors/gateway"
	"github.com/remitrun/remit/internal/record/store"
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

// kept is the rows of sessions of which there is one; err: it cannot be read.
type kept struct {
	store.Ephemera
	row []byte // nil: there is none
	err error
}

func (k kept) Ephemeral(context.Context, string, [32]byte) (store.Ephemeral, bool, error) {
	return store.Ephemeral{Data: k.row, Until: time.Now().Add(time.Hour)}, k.row != nil, k.err
}

// unusable is a run that cannot be used; err may be nil.
type unusable struct {
	asking
	err error
}

func (u *unusable) Usable(context.Context) error { return u.err }

// keptSession is the row of a session of the token x.
func keptSession(t *testing.T, hello string) []byte {
	t.Helper()
	sum := sha256.Sum256([]byte("x"))
	b, err := json.Marshal(map[string]any{"token": sum[:], "hello": []byte(hello)})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// visit makes a request of a client to a gateway of its own.
func visit(t *testing.T, o gateway.Options, session string) *httptest.ResponseRecorder {
	t.Helper()
	o.Tools = func(context.Context) []*tool.Spec { return nil }
	h, end := gateway.New(o).Mount(t.Context())
	defer end(t.Context())
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize"}`))
	r.Header.Set("Authorization", "Bearer x")
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestARefusalSaysWhatHappened: each kind of error, wherever a request meets it, also one that continues
// the session of another node. A client repeats its request after 503, begins a new session after 404, and
// ends its session after 403.
func TestARefusalSaysWhatHappened(t *testing.T) {
	begin := func(usable, err error) func(context.Context, grants.Presented, gateway.Asker) (gateway.Session, error) {
		return func(context.Context, grants.Presented, gateway.Asker) (gateway.Session, error) {
			if err != nil {
				return nil, err
			}
			return &unusable{err: usable}, nil
		}
	}
	shared := func(k kept) func(context.Context) (store.Ephemera, error) {
		return func(context.Context) (store.Ephemera, error) { return k, nil }
	}
	broken := keptSession(t, `{"jsonrpc":"2.0","id":1,"method":"initia`)
	for code, want := range map[fault.Code]int{
		fault.StoreFailed: 503, fault.StoreFull: 503, fault.StoreReadOnly: 503, fault.StoreVersion: 503, fault.StoreMissing: 503, fault.SessionBusy: 503,
		fault.StoreCorrupt: 500, fault.Internal: 500, fault.GrantRevoked: 401, fault.BudgetSpent: 401, fault.Denied: 403, fault.SessionUnknown: 404,
	} {
		err := fault.New(code, "not now")
		for place, o := range map[string]gateway.Options{
			"enter":            {Gate: refusing{enter: err}},
			"check":            {Gate: refusing{check: err}},
			"begin":            {Gate: everybody{}, Begin: begin(nil, err)},
			"sessions":         {Gate: everybody{}, Shared: func(context.Context) (store.Ephemera, error) { return nil, err }},
			"a session":        {Gate: everybody{}, Shared: shared(kept{err: err})},
			"begin, elsewhere": {Gate: everybody{}, Shared: shared(kept{row: broken}), Begin: begin(nil, err)},
			"a repeated hello": {Gate: everybody{}, Shared: shared(kept{row: broken}), Begin: begin(err, nil)},
		} {
			session := ""
			if o.Shared != nil {
				session = "made-elsewhere"
			}
			if w := visit(t, o, session); w.Code != want || !strings.Contains(w.Body.String(), code.Error()) {
				t.Errorf("%s: %s gives %d %q, want %d with its code", place, code.Error(), w.Code, w.Body, want)
			}
		}
	}
	for name, tt := range map[string]struct {
		row  []byte
		want int
	}{
		"no row": {nil, 404}, "a row that cannot be read": {[]byte("{"), 500}, "a damaged hello": {broken, 500},
	} {
		w := visit(t, gateway.Options{Gate: everybody{}, Shared: shared(kept{row: tt.row}), Begin: begin(nil, nil)}, "made-elsewhere")
		if w.Code != tt.want || !strings.Contains(w.Body.String(), "E") {
			t.Errorf("%s: %d %q, want %d", name, w.Code, w.Body, tt.want)
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
