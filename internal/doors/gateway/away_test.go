package gateway_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

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
