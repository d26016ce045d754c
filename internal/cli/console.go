package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// console connects this process's streams with those of a command: by pipes, or by a
// pseudo-terminal if this process has a terminal.
type console struct {
	s     *session
	input *os.File   // the command's standard input
	outs  []*os.File // the command's outputs
	to    []io.Writer
	raws  bool     // the command has a pseudo-terminal
	tty   *os.File // our end of it, once opened

	restore func()
	copies  sync.WaitGroup
	quit    chan struct{}

	mu      sync.Mutex // held while a message or question is shown
	qmu     sync.Mutex
	pending chan byte // receives keys while a question waits for its answer
}

// newConsole creates the streams.
func (s *session) newConsole() (*console, *sandbox.Stdio, error) {
	c := &console{s: s, quit: make(chan struct{})}
	if isTerminal(s.In) && isTerminal(s.Out) {
		t := &sandbox.Terminal{Opened: c.opened}
		if w, h, err := term.GetSize(c.fd()); err == nil {
			t.Columns, t.Rows = w, h
		}
		c.raws, c.to = true, []io.Writer{gate{c, s.Out}}
		return c, &sandbox.Stdio{Terminal: t}, nil
	}
	stdio := &sandbox.Stdio{}
	var mine [3]*os.File
	for _, ends := range [][2]**os.File{{&stdio.In, &mine[0]}, {&mine[1], &stdio.Out}, {&mine[2], &stdio.Err}} {
		r, w, err := os.Pipe()
		if err != nil {
			for _, f := range []*os.File{stdio.In, stdio.Out, stdio.Err, mine[0], mine[1], mine[2]} {
				_ = f.Close() // closing nil is harmless
			}
			return nil, nil, err
		}
		*ends[0], *ends[1] = r, w
	}
	c.input, c.outs, c.to = mine[0], mine[1:], []io.Writer{gate{c, s.Out}, gate{c, s.Err}}
	return c, stdio, nil
}

// outputFiles are the files that are written to. One without a known path counts as one in the workspace.
func outputFiles(workspace string, to ...io.Writer) (paths []string) {
	for _, w := range to {
		f, ok := w.(*os.File)
		if !ok {
			continue
		}
		if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
			continue
		}
		p, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
		if err != nil || !filepath.IsAbs(p) {
			p = filepath.Join(workspace, "output")
		}
		paths = append(paths, p)
	}
	return paths
}

// gate holds the command's output back while a message or question is shown.
type gate struct {
	c *console
	w io.Writer
}

func (g gate) Write(b []byte) (int, error) {
	g.c.mu.Lock()
	defer g.c.mu.Unlock()
	return g.w.Write(b)
}

// fd is this process's terminal.
func (c *console) fd() int {
	in, _ := c.s.In.(*os.File)
	return int(in.Fd())
}

// start begins to copy; with a pseudo-terminal, as soon as it is open. The person's
// terminal is raw until stop.
func (c *console) start() {
	if c.raws {
		c.raw()
		return
	}
	c.copy()
}

// opened receives the command's pseudo-terminal.
func (c *console) opened(tty *os.File) {
	c.mu.Lock()
	c.tty, c.input, c.outs = tty, tty, []*os.File{tty}
	c.mu.Unlock()
	c.resize() // the window may have changed since the call
	c.copy()
}

func (c *console) copy() {
	for i, from := range c.outs {
		c.copies.Add(1)
		go func() {
			defer c.copies.Done()
			if err := copyOutput(c.to[i], from); err != nil && !c.raws { // a pseudo-terminal whose command has ended gives an error, too
				_ = from.Close() // the command sees that the reader has gone
			}
		}()
	}
	go c.read() // ends with the process: reading a terminal cannot be cancelled
}

// copyOutput copies until the end of the output or its read deadline, which may pass while a slow reader is
// waited for. Then it copies the present content of the pipe.
func copyOutput(to io.Writer, from *os.File) error {
	_, err := io.Copy(to, from)
	if !errors.Is(err, os.ErrDeadlineExceeded) || from.SetReadDeadline(time.Now().Add(restTime)) != nil {
		return err
	}
	rest, rerr := io.ReadAll(io.LimitReader(from, maxPipe))
	if _, err = to.Write(rest); err == nil {
		err = rerr
	}
	return err
}

func (c *console) raw() {
	fd := c.fd()
	if state, err := term.MakeRaw(fd); err == nil {
		c.restore = func() { _ = term.Restore(fd, state) }
	}
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, windowChanged...)
	c.copies.Add(1)
	go func() {
		defer c.copies.Done()
		defer signal.Stop(changed)
		for {
			select {
			case <-changed:
				c.resize()
			case <-c.quit:
				return
			}
		}
	}()
}

func (c *console) resize() {
	c.mu.Lock()
	tty := c.tty
	c.mu.Unlock()
	if w, h, err := term.GetSize(c.fd()); err == nil && tty != nil {
		_ = sandbox.Resize(tty, w, h) // fails if the command has just ended
	}
}

// read copies the input to the command, except for answers to questions.
func (c *console) read() {
	defer func() { _ = c.input.Close() }() // the command sees the end of its input in any case
	buf := make([]byte, 32<<10)
	for {
		n, err := c.s.In.Read(buf)
		b := buf[:n]
		if n > 0 && c.answer(b[0]) {
			b = b[:0]
		}
		if len(b) > 0 {
			if _, werr := c.input.Write(b); werr != nil {
				return
			}
		}
		if err != nil {
			if c.raws {
				<-c.quit
			}
			return
		}
	}
}

func (c *console) answer(b byte) bool {
	c.qmu.Lock()
	defer c.qmu.Unlock()
	if c.pending == nil {
		return false
	}
	select {
	case c.pending <- b:
	default: // more keys than the answer needs
	}
	return true
}

// outputLasts is how long output may still arrive after all of the command's
// processes have ended.
const outputLasts = 2 * time.Second

// stop waits for the last output and restores the terminal.
func (c *console) stop() {
	c.limitCopies()
	close(c.quit)
	c.copies.Wait()
	if c.restore != nil {
		c.restore()
	}
	for _, f := range c.outs {
		_ = f.Close()
	}
}

const (
	restTime = 100 * time.Millisecond // for output that is there already
	maxPipe  = 1 << 20                // bytes that a pipe can hold
)

// limitCopies bounds the time for output that is still on its way.
func (c *console) limitCopies() {
	for _, f := range c.outs {
		_ = f.SetReadDeadline(time.Now().Add(outputLasts))
	}
}

// say prints a message between the command's output.
func (c *console) say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.print(format, args...)
}

func (c *console) print(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if c.restore != nil { // a raw terminal does not return the carriage
		text = "\r\n" + strings.ReplaceAll(text, "\n", "\r\n")
	}
	c.s.errorf("%s", text)
}

// ask asks about a connection and takes one key as the answer.
func (c *console) ask(ctx context.Context, a tool.Action, d policy.Decision) bool {
	if !isTerminal(c.s.In) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	keys := make(chan byte, 1)
	c.setPending(keys)
	defer c.setPending(nil)
	c.print("%s the command requests %s (%s)\n", c.s.paintErr(yellow, "?"), show(a.String()), show(d.Reason))
	const prompt = "  allow (y or n)? "
	quiet, latest := time.NewTimer(typedAhead), time.NewTimer(waitsForQuiet)
	defer quiet.Stop()
	defer latest.Stop()
	for prompted := false; ; {
		select {
		case b := <-keys:
			switch {
			case !prompted: // typed before the question could be read
				quiet.Reset(typedAhead)
			case strings.IndexByte("yYnN\x03", b) >= 0:
				c.s.errorf("\r\n")
				return b == 'y' || b == 'Y'
			default:
				c.print(prompt)
			}
			continue
		case <-quiet.C:
		case <-latest.C:
		case <-ctx.Done():
			return false
		case <-c.quit:
			return false
		}
		if !prompted {
			prompted = true
			c.print(prompt)
		}
	}
}

func (c *console) setPending(keys chan byte) {
	c.qmu.Lock()
	defer c.qmu.Unlock()
	c.pending = keys
}
