package notify

import (
	"context"
	"strconv"
	"syscall"
	"time"
)

const (
	diskEvery = time.Minute
	diskLeast = 1 << 30 // free bytes, or a tenth of a smaller disk
)

// Free returns the free bytes where a folder is, and how many of them are too few.
func Free(dir string) (free, least uint64, err error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return 0, 0, err
	}
	block := uint64(fs.Bsize)
	return fs.Bavail * block, min(diskLeast, fs.Blocks*block/10), nil
}

// WatchDisk tells operators when the disk of a folder is nearly full, until ctx ends.
func (n *Notifier) WatchDisk(ctx context.Context, dir string) {
	tick := time.NewTicker(diskEvery)
	defer tick.Stop()
	low := false
	for {
		if free, least, err := Free(dir); err == nil { // else the next look may succeed
			low = n.diskLow(low, free, least)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// diskLow tells operators once that the disk is nearly full. It is low until twice the least
// is free, so that a disk at the limit is not told of again and again.
func (n *Notifier) diskLow(was bool, free, least uint64) (low bool) {
	switch {
	case was:
		return free < 2*least
	case free >= least:
		return false
	}
	n.Notify(Event{Kind: DiskLow, ID: "disk-" + strconv.FormatInt(time.Now().UnixNano(), 36), Title: "The disk of $REMIT_HOME is nearly full; calls that cannot be recorded do not run",
		Do: "remit erase --expired", Facts: map[string]string{"free_bytes": strconv.FormatUint(free, 10)}})
	return true
}
