package grants

import (
	"context"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
)

// OwnerOf gives the ID of the person whose own grant a grant is: one that was issued to a person
// whom an identity provider knows, or that of a browser in which the person signed in. Everything
// made under any of a person's own grants belongs to the person. It is "" for every other grant, as
// for narrowed or handed-on ones: these own only things made under them.
func OwnerOf(ctx context.Context, st store.Grants, id string) (string, error) {
	g, err := findGrant(ctx, st, id)
	if err != nil {
		return "", err
	}
	if g.Parent != uuid.Nil && g.Device != "" {
		root, err := findGrant(ctx, st, g.Parent.String())
		if err != nil || root.Holder != g.Holder {
			return "", err
		}
		g = root
	}
	if g.Parent != uuid.Nil || g.Person == nil {
		return "", nil
	}
	return g.Person.ID(), nil
}

// findGrant finds a grant; one that was appended offline has no record, and is empty.
func findGrant(ctx context.Context, st store.Grants, id string) (store.GrantRecord, error) {
	g, err := st.Grant(ctx, id)
	if fault.CodeOf(err) == fault.GrantUnknown {
		return store.GrantRecord{}, nil
	}
	return g, err
}
