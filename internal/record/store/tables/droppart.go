package tables

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/remitrun/remit/internal/record/ledger"
)

// A part is dropped if few of its payloads stay: the staying payloads are moved.
const (
	mostMoved   = 500 // payloads that are moved at most
	movedOfLeft = 4   // one payload is moved at most for so many that are erased
	dropTries   = 20  // how often a part that is in use is tried again
	dropWait    = 100 * time.Millisecond
)

// dropping is a part that is dropped.
type dropping struct {
	part  Part
	gone  []ledger.Seq // whose payloads go with the part
	moved []ledger.Seq // whose payloads stay
}

// partState describes a part before an erasure.
type partState struct {
	erased int          // payloads
	kept   []ledger.Seq // payloads that were not chosen: not all of them if they are too many
}

func (p *erasing) part(part Part) *partState {
	st := p.parts[part]
	if st == nil {
		st = &partState{}
		p.parts[part] = st
	}
	return st
}

// keep notes a payload that was not chosen.
func (st *partState) keep(seq ledger.Seq) {
	if len(st.kept) <= mostMoved {
		st.kept = append(st.kept, seq)
	}
}

// wholeParts finds the parts that can be dropped, and takes out of the units the payloads
// that go with them. Payloads with blobs are overwritten before, each together with its
// blobs, and so are those of sessions, together with their files.
func (p *erasing) wholeParts(ctx context.Context) ([]dropping, error) {
	if p.s.parts == nil {
		return nil, nil
	}
	all, err := p.s.parts.Parts(ctx)
	if err != nil {
		return nil, err
	}
	gone := map[Part][]ledger.Seq{}
	for seq, part := range p.chosen {
		if part.Class() == RunPayloads && !p.large[seq] {
			gone[part] = append(gone[part], seq)
		} else {
			p.part(part).erased++
		}
	}
	var out []dropping
	dropped := map[Part]bool{}
	thisMonth := PartFor(RunPayloads, p.s.Now()).Month()
	for _, part := range all {
		st := p.part(part)
		if part.Month().Before(thisMonth) && len(st.kept) <= mostMoved && len(st.kept)*movedOfLeft <= st.erased+len(gone[part]) {
			out = append(out, dropping{part: part, gone: gone[part], moved: st.kept})
			dropped[part] = true
		}
	}
	for _, u := range p.order {
		u.seqs = slices.DeleteFunc(u.seqs, func(seq ledger.Seq) bool {
			part := p.chosen[seq]
			return dropped[part] && part.Class() == RunPayloads && !p.large[seq]
		})
	}
	p.order = slices.DeleteFunc(p.order, func(u *eraseUnit) bool { return len(u.seqs) == 0 })
	return out, nil
}

// dropPart drops a part, in one transaction with the event that records the erasure. While the part
// is in use for too long, its payloads are overwritten.
func (p *erasing) dropPart(ctx context.Context, d dropping) error {
	var entries []ledger.Entry
	if len(d.gone) > 0 {
		slices.Sort(d.gone)
		e, err := p.entry(d.gone)
		if err != nil {
			return err
		}
		entries = append(entries, e)
	}
	err := ErrPartInUse
	for n := 0; n < dropTries && errors.Is(err, ErrPartInUse); n++ {
		if n > 0 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(dropWait):
			}
		}
		err = p.s.changes(ctx, entries, true, func(ctx context.Context, w *writer, _ *request) error { return p.lockPart(ctx, w, d.part) },
			func(ctx context.Context, w *writer, _ ledger.Seq) error {
				return p.s.parts.DropPart(ctx, w.conn, d.part, d.moved, p.s.keys.droppedMark(d.part, p.last))
			})
	}
	if errors.Is(err, ErrPartInUse) {
		p.order = append(p.order, &eraseUnit{seqs: d.gone})
		return p.eraseChunks(ctx)
	}
	return err
}

// lockPart locks a part that has only payloads that were read before.
func (p *erasing) lockPart(ctx context.Context, w *writer, part Part) error {
	last, err := p.s.parts.LockPart(ctx, w.conn, part)
	switch {
	case errors.Is(err, ErrPartInUse):
		return err
	case err != nil:
		return ioError{err}
	case last > p.last:
		return ErrPartInUse // one has come since
	}
	return nil
}
