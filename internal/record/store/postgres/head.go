package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store/tables"
)

// head is what a node knows of its batches on the server. Each has a number, and none is
// used twice. After a crash, the server has a lower last number than the node. That is
// noted before the server is told a higher one, which would hide the loss from a sync.
type head struct {
	mu     sync.RWMutex // held for writing by settle; for reading by who compares the numbers
	number atomic.Int64 // of the last batch
	synced atomic.Int64 // of the last one that is known to be durable
	gone   []span       // the numbers that the server has lost, in order

	// Of the writer alone.
	unsure bool      // number may differ from the server's
	token  uuid.UUID // of a settling whose answer is missing; zero: none
}

// span is the batches after one up to another.
type span struct{ after, upTo int64 }

// settle gives the node's head on the server a number that no message under way has, so that such
// messages can no longer be carried out. It returns the head as it was before. The token makes a
// repetition after a lost answer return the same.
const settle = `UPDATE heads SET base = CASE WHEN token = $2 THEN base ELSE number END,
number = CASE WHEN token = $2 THEN number ELSE greatest(number, $3) + 1 END, token = $2
WHERE member = $1 RETURNING base, first, number`

// settled is a head before it was settled: the number of the last batch, and its first event.
type settled struct{ number, first int64 }

// settle finds out which batches the server has, after an answer or batches were lost.
func (d database) settle(ctx context.Context) (was settled, err error) {
	was, t, err := d.settleLocked(ctx)
	if errors.Is(err, sql.ErrNoRows) { // the reason may take long: no lock is held
		d.endFor(t, d.whyRemoved(ctx))
		err = t.endReason()
	}
	return was, err
}

// settleLocked is settle for the present stay. It returns sql.ErrNoRows if the server does not know that.
func (d database) settleLocked(ctx context.Context) (was settled, t *stay, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t = d.stay.Load()
	d.unsure = true
	if d.token == uuid.Nil {
		d.token = uuid.New()
	}
	sent := d.number.Load() + 1 // the highest number of a message under way
	var number int64
	err = retry(ctx, func() error {
		return d.durable.QueryRowContext(ctx, settle, t.id, d.token, sent).Scan(&was.number, &was.first, &number)
	})
	switch {
	case err == nil && was.number > sent:
		return was, t, sql.ErrNoRows
	case err != nil:
		return was, t, err
	case was.number < d.synced.Load():
		d.endFor(t, d.errLacksDurable())
		return was, t, t.endReason()
	}
	if known := d.number.Load(); was.number < known {
		d.gone = append(d.gone, span{was.number, known})
	}
	d.number.Store(number)
	d.unsure, d.token = false, uuid.Nil
	return was, t, nil
}

// inDoubt finds out, after the answer to a message was lost, whether its batch was
// written. If it was not, the message can no longer be carried out.
func (d database) inDoubt(ctx context.Context, number int64, answer error) (first int64, err error) {
	ctx, stop := context.WithTimeout(ctx, appendTimeout)
	defer stop()
	was, err := d.settle(ctx)
	if err != nil {
		return 0, errors.Join(tables.ErrInDoubt, answer, err)
	}
	if was.number != number {
		return 0, answer
	}
	return was.first, nil
}

// Sync implements tables.Database: one synced commit for all batches so far, which also
// reads that they are there.
func (d database) Sync() error {
	if d.synced.Load() >= d.number.Load() { // the last message did it
		return nil
	}
	ctx, stop := d.Leased(context.Background())
	defer stop()
	var there int64
	err := d.present(ctx, func(id uuid.UUID, number *int64) error {
		err := retry(ctx, func() error {
			var at string
			return d.durable.QueryRowContext(ctx, "SELECT number, pg_logical_emit_message(true, 'remit', '')::text FROM heads WHERE member = $1", id).Scan(number, &at)
		})
		there = *number
		return err
	})
	switch {
	case err == nil:
		d.isDurable(there)
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	return err
}

// isDurable notes that the batches up to a number are durable.
func (d database) isDurable(number int64) {
	for was := d.synced.Load(); number > was && !d.synced.CompareAndSwap(was, number); was = d.synced.Load() {
	}
}

// Present implements tables.Shared.
func (d database) Present(ctx context.Context, q tables.Querier) error {
	return d.present(ctx, func(id uuid.UUID, number *int64) error {
		return q.QueryRowContext(ctx, "SELECT number FROM heads WHERE member = $1", id).Scan(number)
	})
}

// present asks the server for its last number, and fails if it is too low. A node that the server
// does not know renews its lease, which gives the reason.
func (d database) present(ctx context.Context, ask func(id uuid.UUID, number *int64) error) error {
	t := d.stay.Load()
	err := d.presentFor(t, ask)
	if errors.Is(err, sql.ErrNoRows) {
		if ok, rerr := d.renew(ctx, t); rerr == nil && !ok {
			d.endFor(t, d.whyRemoved(ctx))
		}
		return cmp.Or(t.endReason(), errRemoved())
	}
	return err
}

// presentFor is present for one stay. No settling changes the number meanwhile.
func (d database) presentFor(t *stay, ask func(id uuid.UUID, number *int64) error) error {
	d.mu.RLock()
	defer d.mu.RUnlock()
	want := d.number.Load()
	var number int64
	err := ask(t.id, &number)
	if err == nil && number < want {
		err = d.lostError()
	}
	return err
}

// Lost implements tables.Shared.
func (d database) Lost(number int64) error {
	d.mu.RLock()
	defer d.mu.RUnlock()
	for _, s := range slices.Backward(d.gone) {
		if s.after < number && number <= s.upTo {
			return d.lostError()
		}
	}
	return nil
}

// base is a number that is higher than those of all messages of this node.
func (s *Store) base() int64 {
	if n := s.number.Load(); n > 0 {
		return n + 2
	}
	return 0
}

// rebase begins the numbers of another stay at base. The server has the earlier batches up to one,
// and they are durable.
func (s *Store) rebase(base, upTo int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = append(s.gone, span{max(upTo, s.synced.Load()), base})
	s.number.Store(base)
	s.synced.Store(base)
	s.unsure, s.token = false, uuid.Nil
}

func (s *Store) errLacksDurable() error {
	return fault.New(fault.StoreReadOnly, "the server %q lacks events that were acknowledged as durable", s.name).
		WithHint("another server took its place, or an old copy of its data; stop all nodes, and bring back the server that has the newest events")
}

func (d database) lostError() error {
	return fault.New(fault.StoreFailed, "the server %q has lost events that were not yet synced", d.name).
		WithHint("it crashed, or another server took its place; writes acknowledged as durable are kept")
}
