package grant

import (
	"sync/atomic"

	"github.com/remitrun/remit/internal/base/fault"
)

// Handle is a place for a grant that is set later, for a process that starts before
// its authority is known. It can be set once. It is safe for concurrent use.
type Handle struct {
	holder string
	given  atomic.Pointer[Grant]
}

// NewHandle makes a handle for a holder, with no authority.
func NewHandle(holder string) *Handle { return &Handle{holder: holder} }

// Give sets the handle's grant. A grant of another holder is fault.NotDelegable.
// A second grant is fault.Conflict.
func (h *Handle) Give(g Grant) error {
	if len(g.nodes) == 0 || g.Holder() != h.holder {
		return fault.New(fault.NotDelegable, "a grant of %q is not for the handle of %q", g.Holder(), h.holder).WithHint("hand it on to %q first", h.holder)
	}
	if !h.given.CompareAndSwap(nil, &g) {
		return fault.New(fault.Conflict, "the handle of %q has a grant already", h.holder).WithHint("revoke that one, and make another handle")
	}
	return nil
}

// Grant returns the grant that was set, or the zero Grant, which allows nothing.
func (h *Handle) Grant() Grant {
	if g := h.given.Load(); g != nil {
		return *g
	}
	return Grant{}
}
