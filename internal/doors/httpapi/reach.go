package httpapi

import (
	"context"

	"github.com/remitrun/remit/internal/base/fault"
)

// The actions for things that were made under other grants.
const (
	othersRead  = "others.read"
	othersWrite = "others.write"
)

// others is the action that the operation needs for things of other people. It follows from the
// operation's declaration, so no handler can choose the lesser one.
func (a *asked) others() string {
	if a.x.op.changes() {
		return othersWrite
	}
	return othersRead
}

// reaches reports whether the caller may use something for this operation: the caller owns it,
// or may use things of others.
func (a *asked) reaches(lineage func() ([]string, error)) (bool, error) {
	if a.who.May(a.others()) == nil {
		return true, nil
	}
	nodes, err := lineage()
	if code := fault.CodeOf(err); code == fault.GrantUnknown || code == fault.RunUnknown {
		return false, nil
	}
	return a.who.Owns(nodes), err
}

// reachable finds a thing by its ID. One that the caller may not use is answered exactly as one
// that does not exist.
func reachable[T any](ctx context.Context, code fault.Code, what, id string, find func(ctx context.Context, id string) (T, error), reaches func(T) (bool, error)) (T, error) {
	var none T
	if err := checkWholeID(code, what, id); err != nil {
		return none, err
	}
	found, err := find(ctx, id)
	ok := false
	if err == nil {
		ok, err = reaches(found)
	}
	switch {
	case err == nil && ok:
		return found, nil
	case err == nil || fault.CodeOf(err) == code:
		return none, missing(code, what, id)
	}
	return none, err
}
