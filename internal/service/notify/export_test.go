package notify

import (
	"log/slog"
	"time"
)

// NewQuick is New with other pauses between attempts.
func NewQuick(channels []Channel, log func() *slog.Logger, pauses ...time.Duration) *Notifier {
	n := New(channels, log)
	n.pauses = pauses
	return n
}

// MaxWaiting is the bound of a channel's queue.
const MaxWaiting = maxWaiting

// DiskLow is how free bytes are told.
func (n *Notifier) DiskLow(was bool, free, least uint64) bool { return n.diskLow(was, free, least) }
