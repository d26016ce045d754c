package tables

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// requestsLeft is how many expired or excess requests may be removed with each
// new one. It is more than one, so that their number falls.
const requestsLeft = 16

// ownerMark separates the place of a request without an answer from the process that has
// claimed it. An older Remit reads both as a URL with a fragment.
const ownerMark = "#"

func (s *Store) requestRow(r store.RequestRecord) sealedRow {
	place := r.Place
	if r.Status == 0 {
		place += ownerMark + r.Owner.String()
	}
	return sealedRow{requestHolder: r.Holder, requestKey: r.Key[:], requestPrint: r.Print[:], requestUntil: s.sharedTime(r.Until),
		requestStatus: int64(r.Status), requestPlace: place}
}

func (s *Store) requestOf(row sealedRow) store.RequestRecord {
	r := store.RequestRecord{Holder: row.text(requestHolder), Until: s.ownTime(row.int(requestUntil)), Status: int(row.int(requestStatus)), Place: row.text(requestPlace)}
	copy(r.Key[:], row.bytes(requestKey))
	copy(r.Print[:], row.bytes(requestPrint))
	if r.Status == 0 {
		var owner string
		r.Place, owner, _ = strings.Cut(r.Place, ownerMark)
		r.Owner, _ = uuid.Parse(owner) // an older Remit wrote none: zero
	}
	return r
}

// sameClaim compares two readings of a claim. Its end can be read a little apart, as the shared
// clock is asked in between.
func sameClaim(a, b store.RequestRecord) bool {
	a.Until, b.Until = time.Time{}, time.Time{}
	return a == b
}

// claims are the requests that this process carries out, each with a token of its claim.
type claims struct {
	mu  sync.Mutex
	all map[requestClaim]*store.RequestRecord
}

type requestClaim struct {
	holder string
	key    [32]byte
}

func claimOf(r store.RequestRecord) requestClaim { return requestClaim{r.Holder, r.Key} }

func (c *claims) add(token *store.RequestRecord) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[requestClaim]*store.RequestRecord{}
	}
	c.all[claimOf(*token)] = token
}

// drop ends a claim. With a token it ends that one alone.
func (c *claims) drop(r store.RequestRecord, token *store.RequestRecord) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := claimOf(r); token == nil || c.all[k] == token {
		delete(c.all, k)
	}
}

// holdsClaim reports whether this process carries the request out, under the same claim.
func (c *claims) holdsClaim(r store.RequestRecord) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	token := c.all[claimOf(r)]
	return token != nil && token.Owner == r.Owner
}

// lapsed reports whether a run was claimed by this process as another owner. That one's lease is
// over, so another node may have claimed the request since.
func (c *claims) lapsed(run, owner uuid.UUID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, token := range c.all {
		if id, ok := token.Run(); ok && id == run && token.Owner != owner {
			return true
		}
	}
	return false
}

// BeginRequest implements store.Requests.
func (s *Store) BeginRequest(ctx context.Context, r store.RequestRecord, most int) (store.RequestRecord, store.RequestState, error) {
	if err := s.db.HoldOwner(); err != nil {
		return r, store.RequestUnderWay, err
	}
	r.Owner = s.Owner()
	var left *store.RequestRecord // a claim without a process and without effects, which this one replaces
	for range 3 {
		was, claimed, err := s.claimRequest(ctx, r, left, most)
		switch {
		case err != nil:
			return was, store.RequestUnderWay, err
		case claimed:
			return was, store.RequestClaimed, nil
		case was.Status != 0:
			return was, store.RequestAnswered, nil
		case was.Print != r.Print:
			return was, store.RequestUnderWay, nil
		}
		state, err := s.leftRequest(ctx, was)
		if err != nil || state != store.RequestClaimed {
			return was, state, err
		}
		left = &was
	}
	return r, store.RequestUnderWay, nil // others replaced it each time
}

// claimRequest records a claim unless the key has one other than left.
func (s *Store) claimRequest(ctx context.Context, r store.RequestRecord, left *store.RequestRecord, most int) (store.RequestRecord, bool, error) {
	out, fresh := r, true
	var old []sealedRow
	now := s.now()
	err := s.change(ctx, ledger.Entry{}, func(ctx context.Context, w *writer, q *request) error {
		out, fresh = r, true                                           // the check may run again
		row, err := w.wholeRow(ctx, tableRequests, r.Holder, r.Key[:]) // a missing request could be made twice
		if err != nil {
			return err
		}
		if row != nil && row.int(requestUntil) > now {
			was, free := s.requestOf(row), false
			if left != nil && sameClaim(was, *left) {
				if free, err = s.neverBegun(ctx, was); err != nil {
					return err
				}
			}
			if !free {
				out, fresh, q.apply = was, false, nil
				return nil
			}
		}
		old, err = w.oldRequests(ctx, r.Holder, now, int64(most))
		return err
	}, func(ctx context.Context, w *writer, _ ledger.Seq) error {
		for _, row := range old {
			if err := w.remove(ctx, tableRequests, row[:tableRequests.keys]...); err != nil {
				return err
			}
		}
		s.claims.add(&r) // before another claim can see the row
		return w.put(ctx, tableRequests, s.requestRow(r))
	})
	if err != nil && fresh {
		s.claims.drop(r, &r)
	}
	return out, fresh && err == nil, err
}

// oldRequests selects the requests that give way to a new one of a holder: expired ones, and
// beyond most of the holder the oldest with an answer.
func (w *writer) oldRequests(ctx context.Context, holder string, now, most int64) ([]sealedRow, error) {
	old, err := w.requests(ctx, "until <= ? ORDER BY until LIMIT ?", now, requestsLeft)
	if err != nil {
		return nil, err
	}
	if l, err := w.sealOf(ctx, tableRequests); err != nil || l.count < most {
		return old, err // the total is below the limit of one holder
	}
	var count int64
	err = each(ctx, w.conn, "SELECT count(*) FROM requests WHERE holder = ? AND until > ?", func(rows *sql.Rows) error { return rows.Scan(&count) }, holder, now)
	if err != nil || count < most {
		return old, asIO(err)
	}
	over, err := w.requests(ctx, "holder = ? AND until > ? AND status > 0 AND status < 500 ORDER BY until LIMIT ?", holder, now, min(count-most+1, requestsLeft))
	if err == nil && len(over) == 0 {
		err = fault.New(fault.LimitReached, "%d requests with a key have no known outcome", count).WithHint("look at their effects; their keys are forgotten after a day")
	}
	return append(old, over...), err
}

// leftRequest looks at a request that has no answer. It is RequestClaimed if another one may
// replace it: nothing carries it out any more, and it had no effect.
func (s *Store) leftRequest(ctx context.Context, r store.RequestRecord) (store.RequestState, error) {
	alive := s.claims.holdsClaim(r)
	switch {
	case r.Owner == uuid.Nil:
		return store.RequestBegun, nil
	case alive, r.Owner == s.Owner():
	default:
		dead, err := s.db.Dead(ctx, r.Owner)
		if err != nil {
			return store.RequestUnderWay, err
		}
		alive = !dead
	}
	if alive {
		return store.RequestUnderWay, nil
	}
	free, err := s.neverBegun(ctx, r)
	switch {
	case err != nil:
		return store.RequestUnderWay, err
	case free:
		return store.RequestClaimed, nil
	}
	return store.RequestBegun, nil
}

// neverBegun reports whether nothing of a request's run is recorded that can have an effect.
func (s *Store) neverBegun(ctx context.Context, r store.RequestRecord) (bool, error) {
	id, ok := r.Run()
	if !ok {
		return false, nil
	}
	begun, err := s.hasBegun(ctx, id)
	return err == nil && !begun, err
}

// hasBegun reports whether a run has begun a call, or is or was in the queue.
func (s *Store) hasBegun(ctx context.Context, id uuid.UUID) (bool, error) {
	_, err := s.Queued(ctx, id.String())
	if !errors.Is(err, fault.RunUnknown) {
		return err == nil, err
	}
	run, err := s.Run(ctx, id.String())
	if errors.Is(err, fault.RunUnknown) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for c, err := range s.Calls(ctx, run.Seq) {
		if err != nil || c.Intent != 0 {
			return err == nil, err
		}
	}
	return false, nil
}

// requests returns the requests that match a condition.
func (w *writer) requests(ctx context.Context, where string, args ...any) ([]sealedRow, error) {
	var out []sealedRow
	err := each(ctx, w.conn, tableRequests.all+" WHERE "+where, func(rows *sql.Rows) error {
		row, _, err := w.s.scanSealed(tableRequests, rows.Scan)
		out = append(out, row)
		return err
	}, args...)
	return out, asIO(err)
}

// EndRequest implements store.Requests.
func (s *Store) EndRequest(ctx context.Context, r store.RequestRecord) error {
	defer s.claims.drop(r, nil)
	if r.Owner == uuid.Nil {
		r.Owner = s.Owner()
	}
	ended := r
	return s.change(ctx, ledger.Entry{}, func(ctx context.Context, w *writer, q *request) error {
		r = ended // the check may run again
		row, err := w.row(ctx, tableRequests, r.Holder, r.Key[:])
		if err != nil || row == nil || !stillClaimed(s.requestOf(row), r) {
			q.apply = nil
			return err
		}
		r.Until = s.requestOf(row).Until
		if id, ok := r.Run(); ok && r.Failed() { // here, where a commit in doubt is settled
			begun, err := s.hasBegun(ctx, id)
			if err == nil && !begun {
				r.Status = 0
			}
			return err
		}
		return nil
	}, func(ctx context.Context, w *writer, _ ledger.Seq) error {
		if r.Status == 0 {
			return w.remove(ctx, tableRequests, r.Holder, r.Key[:])
		}
		return w.put(ctx, tableRequests, s.requestRow(r))
	})
}

// stillClaimed reports whether a recorded request is still the claim r.
func stillClaimed(was, r store.RequestRecord) bool {
	return was.Status == 0 && was.Owner == r.Owner && was.Print == r.Print
}
