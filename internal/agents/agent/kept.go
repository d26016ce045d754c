package agent

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/pause"
	"github.com/remitrun/remit/internal/record/store"
)

// Where no nodes share turns, a turn that waits for a person is kept with its caller, encrypted as
// all ephemeral records are. After the end of its process, the next service on this machine goes on
// with it: the question still waits, or was answered meanwhile.

const (
	keptTurn = "turn" // kind and owner of the records
	// keepFor is how long a turn is kept.
	keepFor = 7 * 24 * time.Hour
	// keptEvery is how often the service looks for turns of processes that ended.
	keptEvery = time.Second
)

// keptDoc is a kept turn.
type keptDoc struct {
	Session uuid.UUID `json:"session"`
	Caller  Caller    `json:"caller"`
}

func keptKey(session uuid.UUID) [32]byte { return sha256.Sum256(session[:]) }

// keeps reports whether turns that wait are kept here.
func (s *Service) keeps() bool { return s.o.Kept != nil && s.o.Turns == nil && s.o.Adopt }

// keep keeps the session's turn, before its call waits for a person.
func (l *session) keep(ctx context.Context) { l.svc.keepTurns(context.WithoutCancel(ctx), l.id) }

// keepTurns keeps the turn of a session that waits for a person, and those of the sessions above
// it. A turn that cannot be kept goes on here; after a restart somebody has to resume it.
func (s *Service) keepTurns(ctx context.Context, id uuid.UUID) {
	for depth := 0; s.keeps() && id != uuid.Nil && depth < maxDepth; depth++ {
		if t := s.currentTurn(id); t != nil {
			_ = s.keepTurn(ctx, id, t.by)
		}
		r, err := s.o.Record.Session(ctx, id.String())
		if err != nil {
			return
		}
		id = r.Parent
	}
}

func (s *Service) keepTurn(ctx context.Context, id uuid.UUID, by Caller) error {
	data, err := json.Marshal(keptDoc{id, by})
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the caller cannot be written as JSON")
	}
	before, _, err := s.o.Kept.Ephemeral(ctx, keptTurn, keptKey(id))
	if err != nil {
		return err
	}
	_, err = s.o.Kept.SaveEphemeral(ctx, store.Ephemeral{Kind: keptTurn, Key: keptKey(id), Owner: keptTurn, Version: before.Version, Until: time.Now().Add(keepFor), Data: data}, store.EphemeralBounds{})
	return err
}

// followKept continues kept turns until ctx ends.
func (s *Service) followKept(ctx context.Context) {
	for {
		list, err := s.o.Kept.Ephemerals(ctx, keptTurn, keptTurn)
		if err == nil {
			for _, e := range list {
				s.continueKept(ctx, e)
			}
		}
		if pause.For(ctx, keptEvery) != nil {
			return
		}
	}
}

// continueKept continues a kept turn whose process has ended. It forgets one that is over.
func (s *Service) continueKept(ctx context.Context, e store.Ephemeral) {
	var kept keptDoc
	over := json.Unmarshal(e.Data, &kept) != nil
	if !over {
		l := s.acquire(kept.Session)
		defer s.release(l)
		if l.currentTurn() != nil {
			return
		}
		var err error
		if over, err = s.continueIfInterrupted(ctx, l, kept.Caller); err != nil && s.o.Report != nil {
			s.o.Report(kept.Session, err)
		}
	}
	if over {
		_, _ = s.o.Kept.DropEphemeral(ctx, e) // else the next look does
	}
}

// continueIfInterrupted continues a turn. It reports whether nothing is left to continue.
func (s *Service) continueIfInterrupted(ctx context.Context, l *session, by Caller) (over bool, err error) {
	_, d, err := s.session(ctx, l.id.String())
	switch {
	case errors.Is(err, fault.SessionUnknown) || err == nil && !d.State.interrupted():
		return true, nil
	case err != nil:
		return false, nil //nolint:nilerr // the next look may read it
	}
	_, _, err = s.start(ctx, &turn{session: l, by: by, starts: turnRecovered})
	switch {
	case err == nil, errors.Is(err, fault.SessionBusy), errors.Is(err, errClosing), fault.Passing(err):
		return false, nil // it goes on, here or in another process, or the next look tries again
	case errors.Is(err, errNothingToContinue):
		return true, nil
	}
	return true, err
}
