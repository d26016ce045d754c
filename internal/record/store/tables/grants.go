package tables

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

var _ store.Grants = (*Store)(nil)

// maxDescent bounds how many recorded ancestors of a grant are followed.
const maxDescent = 256

// PutGrant implements store.Grants. An ID that was already issued is
// fault.Conflict.
func (s *Store) PutGrant(ctx context.Context, g store.GrantRecord) error {
	e, err := grantEntry(&g)
	if err != nil {
		return err
	}
	row := sealedRow{grantID: g.ID[:], grantParent: g.Parent[:], grantHolder: g.Holder, grantSeq: int64(0)}
	return s.change(ctx, e, func(ctx context.Context, w *writer, _ *request) error {
		known, err := w.row(ctx, tableGrants, g.ID[:])
		if err == nil && known != nil {
			err = fault.New(fault.Conflict, "the grant %s was issued already", g.ID)
		}
		if err != nil {
			return err
		}
		return w.checkDescent(ctx, g.ID, g.Parent)
	}, func(ctx context.Context, w *writer, first ledger.Seq) error {
		row[grantSeq] = int64(first)
		return w.put(ctx, tableGrants, row)
	})
}

// checkDescent refuses a grant that is recorded as an ancestor of its parent.
func (w *writer) checkDescent(ctx context.Context, id, parent uuid.UUID) error {
	for range maxDescent {
		if parent == uuid.Nil {
			return nil
		}
		if parent == id {
			return fault.New(fault.GrantInvalid, "the grant %s would descend from itself", id)
		}
		row, err := w.row(ctx, tableGrants, parent[:])
		if err != nil || row == nil { // a grant that a holder appended is in no table
			return err
		}
		copy(parent[:], row.bytes(grantParent))
	}
	return fault.New(fault.GrantInvalid, "the grant %s descends from more than %d others", id, maxDescent)
}

func grantEntry(g *store.GrantRecord) (ledger.Entry, error) {
	if g.ID == uuid.Nil {
		return ledger.Entry{}, fault.New(fault.Internal, "a grant without an ID")
	}
	if err := g.Budgets.Check(); err != nil {
		return ledger.Entry{}, err
	}
	budgets, err := json.Marshal(g.Budgets)
	if err != nil {
		return ledger.Entry{}, fault.Wrap(fault.Internal, err, "a grant cannot be encoded")
	}
	terms, err := json.Marshal(ledger.GrantTerms{NotBefore: g.NotBefore.UTC(), Expires: g.Expires.UTC(), Budgets: budgets, Delegable: g.Delegable, Note: g.Note, Device: g.Device, Person: g.Person})
	if err != nil {
		return ledger.Entry{}, fault.Wrap(fault.Internal, err, "a grant cannot be encoded")
	}
	policies, err := json.Marshal(g.Policies)
	if err != nil {
		return ledger.Entry{}, fault.Wrap(fault.Internal, err, "a grant cannot be encoded")
	}
	e := ledger.Event{Kind: ledger.GrantIssued, At: g.Issued.UnixMicro(), Grant: g.ID[:], Principal: g.Holder}
	if g.Parent != uuid.Nil {
		e.Parent = g.Parent[:]
	}
	return ledger.Entry{Event: e, Payload: ledger.Payload{ledger.PartGrant: terms, ledger.PartPolicy: policies}, Durable: true}, nil
}

// change appends an event of authority together with what it changes in the
// tables. check may clear the request's rows and apply if there is nothing to do.
func (s *Store) change(ctx context.Context, e ledger.Entry, check func(context.Context, *writer, *request) error,
	apply func(context.Context, *writer, ledger.Seq) error) error {
	if e.Event.Kind == 0 {
		return s.changes(ctx, nil, e.Durable, check, apply)
	}
	return s.changes(ctx, []ledger.Entry{e}, e.Durable, check, apply)
}

// changes is change with any number of events.
func (s *Store) changes(ctx context.Context, entries []ledger.Entry, durable bool, check func(context.Context, *writer, *request) error,
	apply func(context.Context, *writer, ledger.Seq) error) error {
	if s.readOnly {
		return s.ErrReadOnly()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	_, err := s.submitEntries(ctx, entries, func(r *request) {
		r.durable, r.apply = durable, apply
		r.check = func(ctx context.Context, w *writer) error { return check(ctx, w, r) }
	})
	return err
}

func unknownGrant(format string, args ...any) error {
	return fault.New(fault.GrantUnknown, format, args...).ForOperator("remit grant list shows the grants issued here")
}

func errNoGrant(id string) error { return unknownGrant("no grant has the ID %q", id) }

// Grant implements store.Grants.
func (s *Store) Grant(ctx context.Context, id string) (store.GrantRecord, error) {
	lo, hi, err := prefix(id)
	if err != nil {
		return store.GrantRecord{}, unknownGrant("%q is not a grant ID; write at least its first 4 characters", id)
	}
	found, err := s.selectGrants(ctx, "g.id BETWEEN ? AND ? ORDER BY g.seq DESC LIMIT 3", lo, hi)
	switch {
	case err != nil:
		return store.GrantRecord{}, err
	case len(found) == 0:
		return store.GrantRecord{}, errNoGrant(id)
	case len(found) > 1:
		return store.GrantRecord{}, fault.New(fault.GrantUnknown, "several grants have an ID that begins with %q", id).
			WithHint("write more of it: %s, %s, ...", found[0].ID, found[1].ID)
	}
	return found[0], nil
}

// Grants implements store.Grants.
func (s *Store) Grants(ctx context.Context, f store.GrantFilter) ([]store.GrantRecord, error) {
	where, args := []string{"1 = 1"}, []any{}
	and := func(cond string, value any) {
		where = append(where, cond)
		args = append(args, value)
	}
	if f.Parent != uuid.Nil {
		and("g.parent = ?", f.Parent[:])
	}
	if f.Holder != "" {
		and("g.holder = ?", f.Holder)
	}
	if f.Before != 0 {
		and("g.seq < ?", int64(f.Before))
	}
	limit := f.Limit
	if limit <= 0 {
		limit = 20
	}
	return s.selectGrants(ctx, strings.Join(where, " AND ")+" ORDER BY g.seq DESC LIMIT ?", append(args, limit)...)
}

const selectIssued = "SELECT g.id, g.parent, g.holder, g.seq, g.mac" + toldColumns + " FROM grants g JOIN " + EventsAndPayloads + " e ON e.seq = g.seq WHERE "

// Issued implements store.Grants.
func (s *Store) Issued(ctx context.Context, id uuid.UUID) (uuid.UUID, error) {
	var found []toldRow
	var err error
	if s.format >= SealedFormat {
		found, err = s.readTold(ctx, tableGrants, 3, selectIssued+"g.id = ?", id[:])
	}
	if err == nil && len(found) == 0 {
		return uuid.Nil, errNoGrant(id.String())
	}
	var g store.GrantRecord
	if err == nil {
		g, _, err = s.issue(&found[0].raw, found[0].row)
	}
	return g.Parent, s.fault(err, "grants cannot be read")
}

// selectGrants reads grants with the events that issued them.
func (s *Store) selectGrants(ctx context.Context, rest string, args ...any) ([]store.GrantRecord, error) {
	if s.format < SealedFormat {
		return nil, nil
	}
	all, err := s.readTold(ctx, tableGrants, 3, selectIssued+rest, args...)
	out := make([]store.GrantRecord, len(all))
	for i := range all {
		if err == nil {
			out[i], err = s.grantRecord(ctx, &all[i].raw, all[i].row)
		}
	}
	if err != nil || len(out) == 0 {
		return nil, s.fault(err, "grants cannot be read")
	}
	_, err = s.standings.look(ctx, s, func(of map[uuid.UUID]knownStanding) {
		mark := of[store.RestoreMark]
		for i := range out {
			k, ok := of[out[i].ID]
			if ok {
				out[i].Standing, out[i].Since = k.standing, ledger.Time(k.since)
			}
			if mark.pending() && out[i].Parent == uuid.Nil && out[i].Standing == store.Active && int64(out[i].Seq) < mark.seq && k.seq < mark.seq {
				out[i].Standing, out[i].Since = store.Paused, ledger.Time(mark.since)
			}
		}
	})
	return out, err
}

// issue reads a grant's event. It must be the one that the row names.
func (s *Store) issue(raw *rawEvent, row sealedRow) (store.GrantRecord, ledger.Stored, error) {
	st, err := s.decode(raw)
	if err != nil {
		return store.GrantRecord{}, st, err
	}
	e := &st.Event
	g := store.GrantRecord{Holder: e.Principal, Issued: ledger.Time(e.At), Seq: st.Seq}
	copy(g.ID[:], e.Grant)
	copy(g.Parent[:], e.Parent)
	if e.Kind != ledger.GrantIssued || !bytes.Equal(g.ID[:], row.bytes(grantID)) || !bytes.Equal(g.Parent[:], row.bytes(grantParent)) || g.Holder != row.text(grantHolder) {
		return g, st, fault.New(fault.StoreCorrupt, "event %d in %q did not issue the grant that is listed with it", st.Seq, s.name).
			ForOperator("remit verify lists the changed records")
	}
	return g, st, nil
}

// grantRecord makes a record from a grant's event.
func (s *Store) grantRecord(ctx context.Context, raw *rawEvent, row sealedRow) (store.GrantRecord, error) {
	g, st, err := s.issue(raw, row)
	if err != nil {
		return g, err
	}
	var t ledger.GrantTerms
	if err := s.loadJSON(ctx, st.Parts[ledger.PartGrant], &t); err != nil {
		return g, err
	}
	if len(t.Budgets) > 0 {
		if err := json.Unmarshal(t.Budgets, &g.Budgets); err != nil {
			return g, fault.Wrap(fault.StoreCorrupt, err, "the budgets of grant %s cannot be read", g.ID)
		}
	}
	g.NotBefore, g.Expires, g.Delegable, g.Note, g.Device, g.Person = t.NotBefore, t.Expires, t.Delegable, t.Note, t.Device, t.Person
	return g, s.loadJSON(ctx, st.Parts[ledger.PartPolicy], &g.Policies)
}

func (s *Store) loadJSON(ctx context.Context, p ledger.Part, into any) error {
	b, err := s.Load(ctx, p)
	if err == nil && len(b) > 0 {
		if jerr := json.Unmarshal(b, into); jerr != nil {
			err = fault.Wrap(fault.StoreCorrupt, jerr, "a grant's event cannot be read")
		}
	}
	return err
}
