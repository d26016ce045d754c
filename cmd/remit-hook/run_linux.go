package main

import (
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/homedir"
	"github.com/remitrun/remit/internal/doors/hookwire"
)

// run has the event answered and returns the exit status.
func (h hook) run() int {
	began := time.Now()
	event, err := readEvent()
	if err != nil {
		return h.block("the event cannot be read: " + err.Error())
	}
	answer, err := h.ask(event)
	if err == nil && !answer.Decline {
		return show(answer)
	}
	if time.Since(began) > hookwire.RetryTime { // agents wait for one decision, not for two
		return h.block("the keeper did not answer in time")
	}
	if err := holding(event); err != nil {
		return h.block("the event cannot be passed on: " + err.Error())
	}
	return h.block(h.become().Error())
}

// ask asks the process that is reached from here: from a sandbox the one that made it, else the keeper.
func (h hook) ask(event []byte) (hookwire.Answer, error) {
	if h.alone() || h.flagged() {
		return hookwire.Answer{Decline: true}, nil
	}
	request, err := h.request(event)
	if err != nil {
		return hookwire.Answer{}, err
	}
	until := time.Now().Add(hookwire.AnswerTime)
	var conn int
	if sandboxed() {
		conn, err = dial(hookwire.Socket)
	} else {
		conn, err = h.dialKeeper(h.home())
	}
	if err != nil {
		return hookwire.Answer{}, err
	}
	defer func() { _ = unix.Close(conn) }()
	return exchange(conn, request, until)
}

// sandboxed reports whether this process is in a sandbox that holds a whole agent.
func sandboxed() bool {
	var st unix.Stat_t
	return unix.Lstat(hookwire.Socket, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFSOCK
}

// request encodes the event and what else of this process the command depends on.
func (h hook) request(event []byte) ([]byte, error) {
	program, err := remit()
	if err != nil {
		return nil, err
	}
	is, err := hookwire.Identify(program)
	if err != nil {
		return nil, err
	}
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	return hookwire.Request{Shell: h.command == shell, Program: is, Args: h.args, Env: h.env, Dir: dir, Event: event}.Bytes()
}

// alone reports whether the call is to be decided without the keeper.
func (h hook) alone() bool {
	v, _ := h.lookup(hookwire.AloneVariable)
	return v != ""
}

// flagged reports whether the flag of the hook says the same.
func (h hook) flagged() bool {
	for _, a := range h.args {
		if a == "--"+hookwire.AloneFlag || strings.HasPrefix(a, "--"+hookwire.AloneFlag+"=") {
			return true
		}
	}
	return false
}

// lookup finds a variable; the last of a name counts.
func (h hook) lookup(name string) (string, bool) {
	for i := len(h.env) - 1; i >= 0; i-- {
		if key, value, ok := strings.Cut(h.env[i], "="); ok && key == name {
			return value, true
		}
	}
	return "", false
}

// home is $REMIT_HOME as remit hook finds it; "": it is not known, or relative.
func (h hook) home() string {
	dir := homedir.Find(h.lookup)
	for i, a := range h.args {
		if value, ok := strings.CutPrefix(a, "--home="); ok {
			dir = value
		} else if a == "--home" && i+1 < len(h.args) {
			dir = h.args[i+1]
		}
	}
	if !strings.HasPrefix(dir, "/") {
		return ""
	}
	return dir
}

// readEvent reads the event, or as much of it as shows that it is too large.
func readEvent() ([]byte, error) {
	b := make([]byte, 0, 16<<10)
	for len(b) <= hookwire.MaxEvent {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := os.Stdin.Read(b[len(b):min(cap(b), hookwire.MaxEvent+1)])
		b = b[:len(b)+n]
		if errors.Is(err, io.EOF) {
			return b, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return b, nil
}

// holding makes a file with the event in it standard input.
func holding(event []byte) error {
	fd, err := unix.MemfdCreate("event", unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	if err := write(fd, event); err != nil {
		return err
	}
	if _, err := unix.Seek(fd, 0, io.SeekStart); err != nil {
		return err
	}
	return unix.Dup3(fd, 0, 0)
}

// show prints an answer and returns the exit status.
func show(a hookwire.Answer) int {
	if err := write(1, a.Out); err != nil {
		return block("the answer cannot be written: " + err.Error())
	}
	_ = write(2, a.Err) // the status says the same
	return int(a.Status)
}

// write writes to a descriptor. Where the reader of standard output has gone it returns EPIPE, while
// os.File.Write would end the process by a signal.
func write(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := unix.Write(fd, b)
		switch {
		case n > 0:
			b = b[n:]
		case errors.Is(err, unix.EAGAIN):
			time.Sleep(time.Millisecond)
		case err != nil && !errors.Is(err, unix.EINTR):
			return err
		}
	}
	return nil
}
