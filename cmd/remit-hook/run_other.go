//go:build !linux

package main

// run decides without a keeper, which only Linux has.
func (h hook) run() int { return h.block(h.become().Error()) }

// shell runs a command without a keeper.
func (h hook) shell() int { return fail(h.become().Error()) }
