package grants

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/grant/token"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
)

// Info is a grant as people are shown it.
type Info struct {
	Record   store.GrantRecord
	Standing store.Standing // with its ancestors'
	Of       uuid.UUID      // whose standing that is
	Expired  bool           // it or an ancestor
	Spent    []store.Meter
}

// List lists the grants that were issued or handed on here, newest first.
func (s *Grants) List(ctx context.Context, f store.GrantFilter) ([]Info, error) {
	_, st, err := s.Open(ctx)
	if err != nil {
		return nil, err
	}
	list, err := st.Grants(ctx, f)
	if err != nil {
		return nil, err
	}
	out := make([]Info, 0, len(list))
	for _, g := range list {
		i, err := InfoOf(ctx, st, g)
		if err != nil {
			return nil, err
		}
		out = append(out, i)
	}
	return out, nil
}

type grantStore interface {
	store.Grants
	store.Budgets
}

// InfoOf looks up what counts for a grant now.
func InfoOf(ctx context.Context, st grantStore, g store.GrantRecord) (Info, error) {
	i := Info{Record: g}
	var err error
	if i.Spent, err = st.Spent(ctx, g.ID); err != nil {
		return i, err
	}
	for up := g; ; {
		if up.Standing > i.Standing {
			i.Standing, i.Of = up.Standing, up.ID
		}
		i.Expired = i.Expired || !up.Expires.IsZero() && !time.Now().Before(up.Expires)
		if up.Parent == uuid.Nil {
			return i, nil
		}
		parent := up.Parent
		if up, err = st.Grant(ctx, parent.String()); errors.Is(err, fault.GrantUnknown) { // a block that nobody handed on
			bad, _, serr := st.Standing(ctx, []uuid.UUID{parent})
			if s := bad[parent]; s > i.Standing && s != store.Restored {
				i.Standing, i.Of = s, parent
			}
			return i, serr
		}
		if err != nil {
			return i, err
		}
	}
}

// Inspected is everything known about a token or a grant's ID.
type Inspected struct {
	Content *token.Content // nil: an ID was given
	Genuine error          // why the token is not one of this ledger; nil: it is, or an ID was given
	Lines   []token.Line
	Info    *Info // the ledger's record of it; nil: none
	Now     error // why it cannot be used now; nil: it can
}

// Inspect describes a token by its contents, or an ID by its record in the ledger.
func (s *Grants) Inspect(ctx context.Context, text string) (Inspected, error) {
	_, st, err := s.Open(ctx)
	if err != nil {
		return Inspected{}, err
	}
	var in Inspected
	id := text
	if isToken(text) {
		if in.Content, err = token.Decode(text); err != nil {
			return in, err
		}
		in.Lines = token.Describe(in.Content, time.Now())
		id = in.Content.Leaf().String()
		if _, in.Genuine = s.Authentic(text); in.Genuine != nil {
			return in, nil //nolint:nilerr // it is told with all the rest
		}
		in.Now = in.Content.At(time.Now())
	}
	g, err := st.Grant(ctx, id)
	if errors.Is(err, fault.GrantUnknown) && in.Content != nil {
		return in, s.unseen(ctx, st, &in)
	}
	if err != nil {
		return in, err
	}
	i, err := InfoOf(ctx, st, g)
	in.Info = &i
	if in.Now == nil {
		in.Now = usable(i)
	}
	return in, err
}

// unseen looks at the ancestors of a token whose last blocks the ledger has not
// seen: they were appended offline.
func (s *Grants) unseen(ctx context.Context, st store.Backend, in *Inspected) error {
	for _, l := range slices.Backward(in.Content.Links()) {
		bad, _, err := st.Standing(ctx, []uuid.UUID{l.Grant})
		if err != nil {
			return err
		}
		if is := bad[l.Grant]; is != store.Active && (is != store.Restored || l.Grant == in.Content.Links()[0].Grant) && in.Now == nil {
			in.Now = usable(Info{Standing: is, Of: l.Grant})
		}
		g, err := st.Grant(ctx, l.Grant.String())
		if errors.Is(err, fault.GrantUnknown) {
			continue
		}
		if err != nil {
			return err
		}
		i, err := InfoOf(ctx, st, g)
		in.Info = &i
		if in.Now == nil {
			in.Now = usable(i)
		}
		return err
	}
	in.Now = fault.New(fault.GrantUnknown, "the ledger has no record of it")
	return nil
}

func usable(i Info) error {
	switch {
	case i.Standing == store.Revoked:
		return fault.New(fault.GrantRevoked, "%s was revoked", i.Of)
	case i.Standing == store.Paused:
		return fault.New(fault.GrantPaused, "%s is paused", i.Of).WithHint("remit grant resume %s", grant.Short(i.Of))
	case i.Expired:
		return fault.New(fault.GrantExpired, "its time is over")
	}
	return nil
}
