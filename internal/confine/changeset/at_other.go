//go:build !linux

package changeset

type devT = int32

func mountOf(int, string) uint64 { return 0 }

func mountsBelow(string) []string { return nil }

func bootID() string { return "" }
