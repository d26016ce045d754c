//go:build unix

package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
)

const (
	// typedAhead is how long a terminal must be quiet before a question takes answers:
	// keys typed before the question could be read do not answer it.
	typedAhead = 500 * time.Millisecond
	// waitsForQuiet is the maximum time to wait for that.
	waitsForQuiet = 5 * time.Second
)

// discardTyped drops all input until the terminal has been quiet for [typedAhead],
// without echoing it. Unless signals is set, Ctrl-C returns errInterrupt, as in the
// line editor.
func discardTyped(ctx context.Context, in *os.File, signals bool) (err error) {
	fd := int(in.Fd())
	was, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return fault.Wrap(fault.NeedsApproval, err, "the terminal's mode cannot be set to ask a question")
	}
	keys := *was
	keys.Lflag &^= unix.ICANON | unix.ECHO // each key counts at once, also without Enter
	if !signals {
		keys.Lflag &^= unix.ISIG
	}
	keys.Cc[unix.VMIN], keys.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, setTermiosFlush, &keys); err != nil {
		return fault.Wrap(fault.NeedsApproval, err, "the terminal's mode cannot be set to ask a question")
	}
	defer func() { err = errors.Join(err, unix.IoctlSetTermios(fd, setTermiosFlush, was)) }()
	buf := make([]byte, 4096)
	for end := time.Now().Add(waitsForQuiet); time.Now().Before(end); {
		typed, err := awaitInput(ctx, fd, typedAhead)
		if err != nil || !typed {
			return err
		}
		n, err := in.Read(buf)
		if err != nil {
			return err
		}
		if !signals && bytes.IndexByte(buf[:n], ctrlC) >= 0 {
			return errInterrupt
		}
	}
	return nil
}

// readAnswer reads one line from a terminal in line mode, until ctx ends.
func readAnswer(ctx context.Context, in *os.File) (string, error) {
	var line strings.Builder
	buf := make([]byte, 4096)
	for line.Len() <= maxLine {
		if _, err := awaitInput(ctx, int(in.Fd()), -1); err != nil {
			return "", err
		}
		n, err := in.Read(buf) // at most one line
		line.Write(buf[:n])
		if n > 0 && buf[n-1] == '\n' {
			return strings.TrimSuffix(line.String(), "\n"), nil
		}
		if err != nil {
			return "", err
		}
		if n == 0 {
			return "", io.EOF
		}
	}
	return "", io.ErrShortBuffer
}

// awaitInput waits for input, at most the given time unless it is negative, and reports
// whether there is any. The end of ctx is an error.
func awaitInput(ctx context.Context, fd int, most time.Duration) (bool, error) {
	ended, end, err := os.Pipe()
	if err != nil {
		return false, err
	}
	defer func() { _ = ended.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = end.Close() })
	defer func() {
		if stop() {
			_ = end.Close()
		}
	}()
	until := time.Now().Add(most)
	for {
		left := -1
		if most >= 0 {
			left = int(max(0, time.Until(until)+time.Millisecond-1) / time.Millisecond)
		}
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(ended.Fd()), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, left)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return false, err
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		case n == 0:
			return false, nil
		case fds[0].Revents != 0:
			return true, nil
		}
	}
}
