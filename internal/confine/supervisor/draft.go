//go:build linux && (amd64 || arm64)

package supervisor

import (
	"crypto/rand"
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Draft is an answer about a file that is made, or written anew: the content decides. The process writes to memory. When
// it has closed it, and before another call is answered, the name gets a file with the content if May returns nil for it.
type Draft struct{ May func(content []byte) error }

// Error implements error.
func (Draft) Error() string { return "the content of the file decides" }

// MaxDraft is the size of the largest draft, in bytes. May gets one byte more of a larger one, and must refuse it.
const MaxDraft = 64 << 10

// maxDrafts bounds the drafts of one supervisor at a time.
const maxDrafts = 16

// draft is a file that is not there yet.
type draft struct {
	Draft
	spot        // dir is its own
	anew   bool // there was a file
	memory *os.File
}

func (d *draft) end() {
	drop(d.dir)
	_ = d.memory.Close() // nothing of it is on a disk
}

// makeDraft gives the process memory to write to.
func (c *call) makeDraft(s spot, mode uint32, anew bool) (int, unix.Errno) {
	c.draftsMu.Lock()
	defer c.draftsMu.Unlock()
	if len(c.drafts) == maxDrafts {
		return -1, unix.EACCES
	}
	if err := c.keepMounts(); err != nil {
		return -1, errnoOf(err)
	}
	memory, err := unix.MemfdCreate("remit", unix.MFD_CLOEXEC)
	if err != nil {
		return -1, errnoOf(err)
	}
	defer drop(memory) // else the kernel would take the draft for closed
	fd, errno := c.again(memory, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if errno != 0 {
		return -1, errno
	}
	reads, errno := c.again(memory, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if errno != 0 {
		drop(fd)
		return -1, errno
	}
	_ = unix.Fchmod(memory, mode&0o777) // the process may change it; both are open
	d := &draft{*c.draft, s, anew, os.NewFile(uintptr(reads), "remit")}
	if d.dir, err = unix.FcntlInt(uintptr(s.dir), unix.F_DUPFD_CLOEXEC, 0); err != nil {
		drop(fd)
		_ = d.memory.Close() // it is empty
		return -1, errnoOf(err)
	}
	c.drafts = append(c.drafts, d)
	c.drafted.Store(true)
	c.undo = func() {
		c.draftsMu.Lock()
		defer c.draftsMu.Unlock()
		if i := slices.Index(c.drafts, d); i >= 0 {
			c.drafts = slices.Delete(c.drafts, i, i+1)
			d.end()
		}
	}
	return fd, 0
}

// keepMounts keeps the mounts of the processes until the last draft is settled: without them its folder has no path.
func (c *call) keepMounts() (err error) {
	if c.namespace == nil {
		c.namespace, err = os.Open(procPath(c.n.PID, "ns/mnt"))
	}
	return err
}

// isClosed reports whether all processes have closed a draft. The kernel grants a read lease only for a file that is not open
// for writing.
func (d *draft) isClosed() bool {
	if _, err := unix.FcntlInt(d.memory.Fd(), unix.F_SETLEASE, unix.F_RDLCK); err != nil {
		return false
	}
	_, _ = unix.FcntlInt(d.memory.Fd(), unix.F_SETLEASE, unix.F_UNLCK) // it was given just now
	return true
}

// settle makes the files that are closed and whose content is allowed. With last, all are.
func (c *call) settle(last bool) {
	if !c.drafted.Load() {
		return
	}
	c.Names.RLock() // first, as of who makes a draft
	defer c.Names.RUnlock()
	c.draftsMu.Lock()
	defer c.draftsMu.Unlock()
	c.drafts = slices.DeleteFunc(c.drafts, func(d *draft) bool {
		if !last && !d.isClosed() {
			return false
		}
		defer d.end()
		content := make([]byte, MaxDraft+1)
		n, err := d.memory.ReadAt(content, 0)
		if errors.Is(err, io.EOF) {
			err = nil
		}
		if err == nil {
			err = d.May(content[:n])
		}
		if err == nil {
			c.finishDraft(d, content[:n])
		} else {
			c.Denied(Request{Act: Create | Write, Path: d.real}, err)
		}
		return true
	})
	c.drafted.Store(len(c.drafts) > 0)
}

// finishDraft makes the file, unless something else has its name by now or its folder was moved.
func (c *call) finishDraft(d *draft, content []byte) {
	now := d.spot
	flags := uint(unix.RENAME_NOREPLACE)
	if d.anew {
		flags = 0
	}
	if errno := c.locate(&now); errno == 0 && now.real == d.real {
		removed := c.last(now)
		if d.writeTo(content, flags) == nil { // else it is as if it was removed at once
			removed()
			c.tellNamed(now)
		}
	}
}

func (d *draft) writeTo(content []byte, flags uint) error {
	like, errno := at(int(d.memory.Fd()))
	if errno != 0 {
		return errno
	}
	return writeAt(d.dir, d.name, content, &like.st, flags)
}

// writeAt gives a name a new file with a content, and with the mode and times of another file. flags are those of
// renameat2(2).
func writeAt(dir int, name string, content []byte, like *unix.Stat_t, flags uint) error {
	first := copyPrefix + strings.ToLower(rand.Text())
	fd, err := unix.Openat(dir, first, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), first)
	_, err = f.Write(content)
	times := []unix.Timespec{like.Atim, like.Mtim}
	err = errors.Join(err, unix.Fchmod(fd, like.Mode&0o777), unix.UtimesNanoAt(fd, "", times, unix.AT_EMPTY_PATH), f.Close())
	if err == nil {
		err = unix.Renameat2(dir, first, dir, name, flags)
	}
	if err != nil {
		_ = unix.Unlinkat(dir, first, 0) // the first error is told
	}
	return err
}
