//go:build linux && (amd64 || arm64)

package linux

import (
	"encoding/binary"
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// moves tells guards that a protected file or a folder around it was moved. The kernel
// reports no change of mounts then: the mount goes along with the file. One watch is
// shared by all commands, because the kernel limits how many a user may have.
type moves struct {
	mu      sync.Mutex
	file    *os.File // of inotify; nil: nothing was watched yet
	guards  map[int32]map[*guard]bool
	reading sync.WaitGroup
}

// locked does something while no guard is told of a move.
func (m *moves) locked(do func()) {
	if m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
	}
	do()
}

// add watches paths for a guard. A path that is gone needs no watch: the first look finds it.
func (m *moves) add(g *guard, paths []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.file == nil {
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
		if err != nil {
			return err
		}
		m.file, m.guards = os.NewFile(uintptr(fd), "inotify"), map[int32]map[*guard]bool{}
		m.reading.Go(m.read)
	}
	return m.control(func(fd int) error {
		for _, p := range paths {
			wd, err := unix.InotifyAddWatch(fd, p, unix.IN_MOVE_SELF|unix.IN_DONT_FOLLOW)
			if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EACCES) {
				continue
			}
			if err != nil {
				m.drop(fd, g)
				return err
			}
			if m.guards[int32(wd)] == nil {
				m.guards[int32(wd)] = map[*guard]bool{}
			}
			m.guards[int32(wd)][g] = true
			g.watches = append(g.watches, int32(wd))
		}
		return nil
	})
}

// remove ends the watches of a guard.
func (m *moves) remove(g *guard) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_ = m.control(func(fd int) error { m.drop(fd, g); return nil }) // after close there are none
}

// drop removes a guard, and the watches that no other guard needs. It is called with the lock held.
func (m *moves) drop(fd int, g *guard) {
	for _, wd := range g.watches {
		if delete(m.guards[wd], g); len(m.guards[wd]) == 0 {
			delete(m.guards, wd)
			_, _ = unix.InotifyRmWatch(fd, uint32(wd)) // the file may be gone, and the watch with it
		}
	}
	g.watches = nil
}

func (m *moves) control(do func(fd int) error) error {
	raw, err := m.file.SyscallConn()
	if err != nil {
		return err
	}
	return errors.Join(raw.Control(func(fd uintptr) { err = do(int(fd)) }), err)
}

// read wakes the guards of each moved file until close.
func (m *moves) read() {
	buf := make([]byte, 64<<10)
	for {
		n, err := m.file.Read(buf)
		if err != nil {
			return
		}
		m.mu.Lock()
		for rest := buf[:n]; len(rest) >= unix.SizeofInotifyEvent; {
			wd, size := int32(binary.NativeEndian.Uint32(rest)), binary.NativeEndian.Uint32(rest[12:])
			rest = rest[min(unix.SizeofInotifyEvent+int(size), len(rest)):]
			if wd < 0 { // the kernel dropped some
				for _, guards := range m.guards {
					wakeAll(guards)
				}
			}
			wakeAll(m.guards[wd])
		}
		m.mu.Unlock()
	}
}

func wakeAll(guards map[*guard]bool) {
	for g := range guards {
		g.wake()
	}
}

// close ends the watch, and waits for its reader.
func (m *moves) close() {
	m.mu.Lock()
	f := m.file
	m.mu.Unlock()
	if f != nil {
		_ = f.Close() // only read
		m.reading.Wait()
	}
}
