package keeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/doors/hookwire"
)

// mostScripts bounds the scripts that run at the same time. Further ones are declined.
const mostScripts = 64

const (
	goTime     = 5 * time.Second // until a client says that its script may start
	answerTime = 5 * time.Second // until a client takes the answer
)

var errFiles = errors.New("the client did not send four descriptors")

// script is one client of remit sh.
type script struct {
	conn    *net.UnixConn
	control *os.File // the client's pipe
	*streams
}

// shell runs a script until running ends. It takes over the connection and the descriptors, and returns at once.
func (k *Keeper) shell(running context.Context, conn *net.UnixConn, r hookwire.Request, files []int) {
	k.scripts.Go(func() {
		defer func() { _ = conn.Close() }()
		c, err := newScript(conn, files)
		if err == nil {
			defer c.close()
		}
		room := k.begin(true)
		ran := false
		defer func() { k.end(true, !ran) }()
		if err != nil || !room || !k.takes(r) || !k.alike(conn) {
			answer(conn, hookwire.Answer{Decline: true})
			return
		}
		if c.begins() {
			ran = true
			k.runs(running, c, r)
		}
	})
}

// newScript takes the descriptors over.
func newScript(conn *net.UnixConn, files []int) (*script, error) {
	if len(files) != hookwire.Descriptors {
		for _, fd := range files {
			_ = unix.Close(fd)
		}
		return nil, errFiles
	}
	control := files[hookwire.Descriptors-1]
	s, err := newStreams(files)
	if err == nil {
		err = unix.SetNonblock(control, true) // the client made this pipe, and only writes to the other end
	}
	if err != nil {
		_ = unix.Close(control)
		return nil, err
	}
	return &script{conn, os.NewFile(uintptr(control), "control"), s}, nil
}

func (c *script) close() {
	c.streams.close()
	_ = c.control.Close()
}

// begins agrees with the client that the script starts here, and nowhere else.
func (c *script) begins() bool {
	until := time.Now().Add(goTime)
	if c.control.SetReadDeadline(until) != nil || c.conn.SetWriteDeadline(until) != nil {
		return false
	}
	if _, err := io.WriteString(c.conn, hookwire.Ready); err != nil {
		return false
	}
	var b [1]byte
	n, err := c.control.Read(b[:])
	return err == nil && string(b[:n]) == hookwire.Go && c.control.SetReadDeadline(time.Time{}) == nil
}

// runs runs the script and answers. A keeper that has to end does not answer: the client then prints the
// reason.
func (k *Keeper) runs(running context.Context, c *script, r hookwire.Request) {
	ctx, cancel := context.WithCancel(running)
	defer cancel()
	defer context.AfterFunc(running, c.stop)()
	go c.obey(cancel)
	a := k.run(ctx, c, r)
	c.streams.close() // the agent may wait for the end of what it reads
	if running.Err() == nil {
		answer(c.conn, a)
	}
}

// run runs the script. A panic ends this one alone.
func (k *Keeper) run(ctx context.Context, c *script, r hookwire.Request) (a hookwire.Answer) {
	defer func() {
		if p := recover(); p != nil {
			a = hookwire.Answer{Status: 1, Err: fmt.Appendf(nil, "remit: the command was ended by a fault of remit: %v\n", p)}
		}
	}()
	return hookwire.Answer{Status: k.Shell(ctx, r, &c.list[0], &c.list[1], &c.list[2])}
}

// obey cancels the script when the client says so or has gone. After a client has gone, its output is
// not written any more.
func (c *script) obey(cancel context.CancelFunc) {
	var b [1]byte
	for {
		_, err := c.control.Read(b[:])
		cancel()
		if err != nil {
			c.stop()
			return
		}
	}
}

// answer sends an answer, whose greeting was sent already.
func answer(conn *net.UnixConn, a hookwire.Answer) {
	if conn.SetWriteDeadline(time.Now().Add(answerTime)) == nil {
		_, _ = conn.Write(a.Bytes()[len(hookwire.Greeting):]) // a client that has gone needs none
	}
}
