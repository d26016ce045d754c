package openapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/pause"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/network"
)

const (
	maxTries = 3
	maxWait  = 20 * time.Second // for a server that says when to try again
	backoff  = 200 * time.Millisecond
)

// How a call came to its answer.
const (
	sent        = "none"
	fromCache   = "hit"
	revalidated = "revalidated"
)

// exchange gets the answer to a request: a kept one, or from the server. The
// policies decide both alike.
func (t *Tool) exchange(ctx context.Context, p permit.Permit, r request) (a *answer, how string, tries int, err error) {
	with, err := t.allowed(ctx, p, r)
	if err != nil {
		return nil, "", 0, err
	}
	s, key := t.s, ""
	var kept *answer
	if cacheable(r) {
		key = cacheKey(r, with)
		s.mu.Lock()
		found, fresh := s.cached.find(key, s.now())
		s.mu.Unlock()
		if found != nil && int64(len(found.body)) <= most(p) {
			if fresh {
				return found, fromCache, 0, nil
			}
			kept = found
			r.header = r.header.Clone()
			kept.conditional(r.header)
		}
	}
	a, tries, err = t.attempts(ctx, p, r, with)
	if err != nil {
		return nil, "", tries, err
	}
	how = sent
	if kept != nil && a.status == http.StatusNotModified {
		a, how = kept.renewed(a.header), revalidated
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case key != "" && a.redirects == 0:
		s.cached.put(key, a, s.now())
	case !safe(r.method):
		s.cached.clear()
	}
	return a, how, tries, nil
}

// allowed asks once more whether the call may have the answer, wherever it comes
// from: the request must be allowed, and its credentials be the call's to use.
func (t *Tool) allowed(ctx context.Context, p permit.Permit, r request) (held, error) {
	to, err := target.Parse(r.method, r.url)
	if err != nil {
		return nil, err
	}
	if err := p.Check(tool.Action{Kind: tool.Network, Target: to}); err != nil {
		return nil, err
	}
	if t.op.Open || !t.s.isOwnOrigin(to) {
		return nil, nil
	}
	return t.s.credentials(ctx, p, to)
}

// idempotent methods can be sent again without doing a thing twice (RFC 9110).
func idempotent(method string) bool {
	return safe(method) || method == http.MethodPut || method == http.MethodDelete
}

// attempts sends a request, and sends it again where that may help and does no harm.
func (t *Tool) attempts(ctx context.Context, p permit.Permit, r request, with held) (*answer, int, error) {
	for try := 1; ; try++ {
		if err := t.s.hold(ctx); err != nil {
			return nil, try - 1, err
		}
		a, err := t.sendOnce(ctx, p, r, with)
		again := try < maxTries && idempotent(r.method)
		if err != nil {
			if !again || ctx.Err() != nil || !errors.Is(err, fault.ToolFailed) {
				return nil, try, err
			}
			if err := wait(ctx, backoff<<(try-1)); err != nil {
				return nil, try, err
			}
			continue
		}
		after, said := t.s.limited(a)
		switch {
		case !again || !retryable(a.status):
			return a, try, nil
		case said && after > maxWait:
			return a, try, nil // the caller is told when to try again
		case !said:
			after = backoff << (try - 1)
		}
		if err := wait(ctx, after); err != nil {
			return nil, try, err
		}
	}
}

func retryable(status int) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// wait waits, and says why if the call ends first.
func wait(ctx context.Context, d time.Duration) error {
	if pause.For(ctx, d) != nil {
		return context.Cause(ctx)
	}
	return nil
}

// maxLimited is the longest time that a server can keep requests from being sent.
const maxLimited = time.Hour

// limited notes the time at which an answer allows the next request.
func (s *Source) limited(a *answer) (after time.Duration, said bool) {
	now := s.now()
	switch {
	case a.status == http.StatusTooManyRequests || a.status == http.StatusServiceUnavailable:
		after, said = pause.RetryAfter(a.header, now)
	case a.status != http.StatusForbidden:
		return 0, false
	}
	if !said && a.header.Get("X-Ratelimit-Remaining") == "0" {
		if at, err := strconv.ParseInt(a.header.Get("X-Ratelimit-Reset"), 10, 64); err == nil {
			after, said = time.Unix(at, 0).Sub(now), true
		}
	}
	if after = min(max(after, 0), maxLimited); said && after > 0 {
		s.mu.Lock()
		s.until = now.Add(after)
		s.mu.Unlock()
	}
	return after, said
}

// hold waits until the server takes requests again, or fails where that is long.
func (s *Source) hold(ctx context.Context) error {
	s.mu.Lock()
	left := s.until.Sub(s.now())
	s.mu.Unlock()
	switch {
	case left <= 0:
		return nil
	case left > maxWait:
		return fault.New(fault.ToolFailed, "the rate limit of %s is used up", s.Name()).
			WithHint("try again in %s", left.Round(time.Second))
	}
	return wait(ctx, left)
}

// most is how many bytes of an answer a call may be given.
func most(p permit.Permit) int64 {
	if n := p.Limits().ResponseBytes; n > 0 && n < DefaultMaxBytes {
		return n
	}
	return DefaultMaxBytes
}

// sendOnce sends a request and reads the answer.
func (t *Tool) sendOnce(ctx context.Context, p permit.Permit, r request, with held) (*answer, error) {
	client := network.NewClient(p)
	client.Transport.Secret = t.s.conf.Secret
	if !t.op.Open {
		client.Transport.Sign = t.s.sign(p, with)
	}
	header := r.header.Clone()
	if header.Get("Accept") == "" {
		header.Set("Accept", "application/json, */*;q=0.5")
	}
	resp, err := client.Do(ctx, network.Request{Method: r.method, URL: r.url, Header: header, Body: r.body})
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // the answer is read or given up
	a := &answer{status: resp.StatusCode, header: resp.Header, redirects: len(resp.Redirects)}
	limit := most(p)
	a.body, err = io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if int64(len(a.body)) > limit || errors.Is(err, fault.LimitReached) {
		a.body, a.truncated, err = a.body[:min(int64(len(a.body)), limit)], true, nil
	}
	return a, err
}
