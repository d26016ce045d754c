//go:build linux && (amd64 || arm64)

package spawn

import (
	"encoding/binary"
	"errors"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Zygote is a sandbox that stays: its first process runs one command after the
// other. It ends itself as soon as it does not find everything as it was.
type Zygote struct {
	first *Child
	spent time.Duration // processor time of its commands that have ended
}

// errGone: a sandbox has ended before anything could be given to it.
var errGone = errors.New("the sandbox has ended")

// Stay gives a prepared sandbox the rest of a program that ends with
// [Program.Stay]. The first command reports its errors.
func (c *Child) Stay(p *Program) (*Zygote, error) {
	c.prog = p
	program, err := p.rest()
	if err != nil {
		return nil, err
	}
	fd, err := memory(program) // the next message would overwrite one that came in a message
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	if err = c.tell(sizeOf(program), []int{fd, fd, fd, fd}); err != nil && !errors.Is(err, errGone) {
		return nil, err
	}
	return &Zygote{first: c}, nil
}

// Take waits for the descriptor that the program of the sandbox itself hands out. It is called before the first command. nil: the
// sandbox ended before.
func (z *Zygote) Take() *os.File {
	r, fd, err := z.first.next()
	switch {
	case err != nil || fd < 0:
		return nil
	case r.What>>32 != recordHanded:
		_ = unix.Close(fd)
		return nil
	}
	return os.NewFile(uintptr(fd), "handed")
}

// sizeOf is the beginning of a message with a program.
func sizeOf(program []byte) []byte {
	return binary.NativeEndian.AppendUint64(make([]byte, 0, 8+len(program)), uint64(len(program)))
}

// give sends a program: in the message where it is short, else in memory.
func (c *Child) give(program []byte, files ...int) error {
	if uintptr(len(program)) <= unsafe.Sizeof(inbox) {
		return c.tell(append(sizeOf(program), program...), files)
	}
	fd, err := memory(program)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	return c.tell(sizeOf(program), append([]int{fd}, files...))
}

func (c *Child) tell(msg []byte, fds []int) error {
	err := send(c.status, msg, unix.UnixRights(fds...))
	if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		return errGone
	}
	return err
}

// Call runs the command of a program that has only two parts: the calls of its
// zygote and, after [Program.Fork], the command's own. There must
// be no other one under way. It ends when every process of the command is gone;
// a kill ends the zygote too.
func (z *Zygote) Call(p *Program, files [3]int) (*Child, error) {
	p.before = z.first.prog
	program, err := p.rest()
	if err != nil {
		return nil, err
	}
	c := &Child{ended: z.first.ended, done: make(chan struct{}), pidfd: z.first.pidfd, prog: p, stays: z,
		handed: make(chan *os.File, 1), status: z.first.status}
	err = z.first.give(program, files[:]...)
	if errors.Is(err, errGone) {
		c.gone, err = true, nil
	}
	if err != nil {
		return nil, err
	}
	go c.watch()
	return c, nil
}

// End kills every process of the sandbox and waits for its end.
func (z *Zygote) End() {
	z.first.kill()
	<-z.first.ended
	z.first.felling.Wait()
	_ = z.first.status.Close()
	if z.first.pidfd >= 0 {
		_ = unix.Close(z.first.pidfd)
	}
}
