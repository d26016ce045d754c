package people

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/settings"
)

const (
	kindNewest = "newest-token"
	newestFor  = 400 * 24 * time.Hour // longer than tokens of identity providers last
	maxRetired = 64
)

// newest is the newest token of a person that any process of the ledger was presented, and from
// when on tokens count.
type newest struct {
	Person  ledger.Person `json:"person"`            // as this token describes the person, Said included
	Seen    time.Time     `json:"seen_at"`           // when it was first presented
	Torn    bool          `json:"torn,omitempty"`    // two tokens of this time give different roles, so neither counts
	After   time.Time     `json:"after,omitzero"`    // only tokens that were issued later count: when the operator revoked the person's grant, and skew
	Retired []time.Time   `json:"retired,omitempty"` // when newer tokens made grants of other roles void, the last ones

	record store.Ephemeral
}

// newestOf reads the newest token of a person; the zero newest if there is none so far.
func newestOf(ctx context.Context, st store.Ephemera, who *ledger.Person) (newest, error) {
	key := sha256.Sum256([]byte(who.ID()))
	e, ok, err := st.Ephemeral(ctx, kindNewest, key)
	if err != nil || !ok {
		return newest{record: store.Ephemeral{Kind: kindNewest, Key: key}}, err
	}
	n := newest{}
	if err := json.Unmarshal(e.Data, &n); err != nil {
		return n, fault.Wrap(fault.StoreCorrupt, err, "the newest token of a person cannot be read")
	}
	n.record = e
	return n, nil
}

// remember changes the record of a person's newest token.
func (p *People) remember(ctx context.Context, who *ledger.Person, change func(n *newest) error) error {
	_, st, err := p.grants.Open(ctx)
	if err != nil {
		return err
	}
	for {
		n, err := newestOf(ctx, st, who)
		if err != nil {
			return err
		}
		before, err := json.Marshal(n)
		if err != nil {
			return fault.Wrap(fault.Internal, err, "the newest token of a person cannot be encoded")
		}
		refused := change(&n)
		after, err := json.Marshal(n)
		if err != nil {
			return fault.Wrap(fault.Internal, err, "the newest token of a person cannot be encoded")
		}
		if n.record.Version > 0 && bytes.Equal(before, after) {
			return refused
		}
		n.record.Data, n.record.Until = after, p.now().Add(newestFor)
		saved, err := st.SaveEphemeral(ctx, n.record, store.EphemeralBounds{})
		if err != nil {
			return err
		}
		if saved { // else another process has changed it meanwhile
			return refused
		}
	}
}

// advance remembers a token if it is the newest of its person, and refuses it if the operator, or
// a token that is as new or newer, has made it void. revoked is when grants of the person were
// revoked. torn: two tokens are the newest, with different roles.
func (p *People) advance(ctx context.Context, who *ledger.Person, role settings.Role, revoked []time.Time) (torn bool, err error) {
	err = p.remember(ctx, who, func(n *newest) error {
		for _, at := range revoked {
			if slices.ContainsFunc(n.Retired, at.Equal) {
				continue
			}
			n.After = laterTime(n.After, at.Add(skew)) // the issuer's clock may be ahead
			if !n.Seen.After(at) {                     // with any clock of the issuer
				n.After = laterTime(n.After, n.Person.Said)
			}
		}
		if !who.Said.After(n.After) {
			return fault.New(fault.GrantRevoked, "the grant of this person was revoked after the token was issued, or less than a minute before").WithHint("sign in again at the issuer, a minute after the revocation or later")
		}
		if who.Said.After(n.Person.Said) {
			n.Person, n.Seen, n.Torn = *who, p.now().UTC(), false
			return nil
		}
		err := p.compare(n, who, role)
		torn = n.Torn
		return err
	})
	return torn, err
}

// compare refuses a token that is not the newest of its person, unless it gives the same role as
// the newest one.
func (p *People) compare(n *newest, who *ledger.Person, role settings.Role) error {
	now, err := p.Role(&n.Person)
	again, code := who.Said.Equal(n.Person.Said), fault.CodeOf(err)
	switch {
	case n.Torn:
	case (err == nil || code == fault.Denied) && now.Name == role.Name:
		return nil
	case again && code == fault.GrantInvalid: // the settings depend on further claims since then
		n.Person = *who
		return nil
	case again:
		n.Torn = true
	}
	return fault.New(fault.GrantRevoked, "a token of this person that is as new or newer gives another role").WithHint("sign in again at the issuer")
}

func laterTime(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
