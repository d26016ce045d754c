package app

import (
	"context"

	"github.com/remitrun/remit/internal/record/store"
)

// maxRequests is how many answered requests with an Idempotency-Key are known of one root grant.
const maxRequests = 4096

// BeginRequest implements httpapi.Requests.
func (s *served) BeginRequest(ctx context.Context, r store.RequestRecord) (store.RequestRecord, store.RequestState, error) {
	_, st, err := s.app.Grants.Open(ctx)
	if err != nil {
		return r, store.RequestUnderWay, err
	}
	return st.BeginRequest(ctx, r, maxRequests)
}

// EndRequest implements httpapi.Requests.
func (s *served) EndRequest(ctx context.Context, r store.RequestRecord) error {
	_, st, err := s.app.Grants.Open(ctx)
	if err != nil {
		return err
	}
	return st.EndRequest(ctx, r)
}
