package app

import (
	"context"

	"github.com/remitrun/remit/internal/doors/httpapi"
	"github.com/remitrun/remit/internal/record/store"
)

// maxRequests is how many requests with an Idempotency-Key are known of one root grant.
const maxRequests = 4096

// BeginRequest implements httpapi.Requests.
func (s *served) BeginRequest(ctx context.Context, k httpapi.Keyed) (httpapi.Keyed, bool, error) {
	_, st, err := s.app.Grants.Open(ctx)
	if err != nil {
		return k, false, err
	}
	was, fresh, err := st.BeginRequest(ctx, keptRequest(k), maxRequests)
	return httpapi.Keyed{Root: was.Holder, Key: was.Key, Print: was.Print, Until: was.Until, Status: was.Status, Place: was.Place}, fresh, err
}

// EndRequest implements httpapi.Requests.
func (s *served) EndRequest(ctx context.Context, k httpapi.Keyed) error {
	_, st, err := s.app.Grants.Open(ctx)
	if err != nil {
		return err
	}
	return st.EndRequest(ctx, keptRequest(k))
}

func keptRequest(k httpapi.Keyed) store.RequestRecord {
	return store.RequestRecord{Holder: k.Root, Key: k.Key, Print: k.Print, Until: k.Until, Status: k.Status, Place: k.Place}
}
