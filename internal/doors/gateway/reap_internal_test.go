package gateway

import (
	"context"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/service/grants"
)

// standing is a session with the standing of its grant.
type standing struct {
	Session
	err   error
	ended bool
}

func (*standing) Chain() policy.Chain            { return nil }
func (s *standing) Usable(context.Context) error { return s.err }
func (s *standing) End(context.Context) error {
	s.ended = true
	return nil
}

// TestBusyClientsOfRevokedGrantsEnd: a client with requests under way ends with its grant, and only
// then: not for a failure of the store.
func TestBusyClientsOfRevokedGrantsEnd(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		ends bool
	}{
		"usable": {nil, false}, "revoked": {fault.New(fault.GrantRevoked, "revoked"), true},
		"expired": {fault.New(fault.GrantExpired, "expired"), true}, "unknown standing": {fault.New(fault.StoreFailed, "the disk is full"), false},
	} {
		s := &standing{}
		g := New(Options{
			Tools: func(context.Context) []*tool.Spec { return nil },
			Begin: func(context.Context, grants.Presented, Asker) (Session, error) { return s, nil },
		})
		w := newWeb(g)
		conn, err := g.connect(t.Context(), grants.Presented{})
		if err != nil {
			t.Fatal(err)
		}
		released := false
		w.clients["key"] = &client{key: "key", active: 1, conn: conn, release: func() { released = true }}
		s.err = tt.err
		w.endGone(t.Context())
		if s.ended != tt.ends || released != tt.ends || (len(w.clients) == 0) != tt.ends {
			t.Errorf("%s: ended %v, place given back %v", name, s.ended, released)
		}
	}
}
