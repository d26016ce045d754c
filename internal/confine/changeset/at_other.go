//go:build !linux

package changeset

import "golang.org/x/sys/unix"

type devT = int32

// settle asks for what was written to be put on disk.
func settle(int) error {
	unix.Sync()
	return nil
}

func mountOf(int, string) uint64 { return 0 }

func mountsBelow(string) []string { return nil }

func bootID() string { return "" }
