package callers

import "github.com/remitrun/remit/internal/record/store"

// Over puts a store over the gate's.
func (g *Gate) Over(f func(store.Backend) store.Backend) { g.store = f(g.store) }
