package sandbox

import (
	"fmt"
	"time"

	"github.com/remitrun/remit/internal/authority/policy"
)

// HeldInterval is how often a command's held writes are measured.
const HeldInterval = 25 * time.Millisecond

// HeldBytes is how many bytes a run whose writes are held may hold under these
// limits: as much as a command's private folders.
func HeldBytes(l policy.Limits) int64 { return WithDefaults(l).Disk }

// HeldNote is the note of a profile for a run with held writes.
func HeldNote(l policy.Limits) string {
	return fmt.Sprintf("what is written in the workspace is held and nothing outside of it can be written; a command is killed when the run holds more than %d bytes, looked at every %v",
		HeldBytes(l), HeldInterval)
}
