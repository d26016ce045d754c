package main

import (
	"errors"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/homedir"
	"github.com/remitrun/remit/internal/doors/hookwire"
)

// shell has the keeper run the script, or becomes remit sh. Once the keeper was told to start it, nothing
// else may: a script that ran twice could do harm.
func (h hook) shell() int {
	if c, ok := h.begin(); ok {
		return c.finish()
	}
	return fail(h.become().Error())
}

// command is a script that the keeper runs.
type command struct {
	conn, control int
	caught        chan os.Signal
}

// begin has the keeper start the script. Unless it returns ok, the script was not started.
func (h hook) begin() (c command, ok bool) {
	dir := h.shellHome()
	if dir == "" || h.alone() || sandboxed() {
		return c, false
	}
	request, err := h.request(nil)
	if err != nil {
		return c, false
	}
	if c.conn, err = h.dialKeeper(dir); err != nil {
		return c, false
	}
	pipe, input := [2]int{-1, -1}, [2]int{0, -1}
	if _, terr := unix.IoctlGetTermios(0, unix.TCGETS); terr == nil {
		err = unix.Pipe2(input[:], unix.O_CLOEXEC)
	}
	if err == nil {
		err = unix.Pipe2(pipe[:], unix.O_CLOEXEC)
	}
	if err == nil {
		err = send(c.conn, request, unix.UnixRights(input[0], 1, 2, pipe[0]))
		_ = unix.Close(pipe[0])
	}
	c.control = pipe[1]
	if err == nil && says(c.conn, hookwire.Greeting) && says(c.conn, hookwire.Ready) {
		c.caught = catch()
		if write(c.control, []byte(hookwire.Go)) == nil {
			if input[1] >= 0 {
				_ = unix.Close(input[0])
				go feed(input[1])
			}
			return c, true
		}
		signal.Reset()
	}
	_, _ = unix.Close(c.conn), unix.Close(c.control) // the keeper then starts nothing
	return c, false
}

// feed copies a terminal to the script. Only a process of the terminal's session reads it as the shell of
// that session expects, which may have put it into the background.
func feed(to int) {
	buf := make([]byte, 4<<10)
	for {
		n, err := unix.Read(0, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n <= 0 || write(to, buf[:n]) != nil {
			_ = unix.Close(to)
			return
		}
	}
}

// catch catches the signals that end a script.
func catch() chan os.Signal {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(caught, syscall.SIGHUP)
	}
	return caught
}

// says reports whether the keeper says a byte in time.
func says(conn int, want string) bool {
	var b [1]byte
	n, err := receive(conn, b[:], hookwire.GreetingTime)
	return err == nil && string(b[:n]) == want
}

// finish waits for the end of the script and returns its exit status. The first signal ends the script,
// and a second one this process.
func (c command) finish() int {
	go func() {
		<-c.caught
		signal.Reset()
		_ = write(c.control, []byte(hookwire.Stop)) // fails if the keeper has ended
	}()
	b := []byte(hookwire.Greeting)
	buf := make([]byte, 8<<10)
	for len(b) <= hookwire.MaxAnswer {
		n, err := receive(c.conn, buf, 0)
		if err != nil {
			break
		}
		if b = append(b, buf[:n]...); n > 0 {
			continue
		}
		answer, err := hookwire.ParseAnswer(b)
		if err != nil || answer.Decline {
			break
		}
		_ = write(2, answer.Err) // the status says the same
		return int(answer.Status)
	}
	return fail("the keeper ended while the command ran; the command was ended, too")
}

// shellHome is $REMIT_HOME as remit sh finds it. It is "" if an argument has a form that is not known here:
// remit sh could then find another one.
func (h hook) shellHome() string {
	dir := homedir.Find(h.lookup)
	for i := 0; i < len(h.args); i++ {
		name, value, joined := h.args[i], "", false
		if strings.HasPrefix(name, "--") {
			name, value, joined = strings.Cut(name, "=")
		}
		switch name {
		case "-c", "-p", "-w", "--command", "--policy", "--workspace", "--home", "--session", "--agent", "--approved", "--scratch":
		default:
			return ""
		}
		if !joined {
			if i++; i == len(h.args) {
				return ""
			}
			value = h.args[i]
		}
		if name == "--home" && value != "" {
			dir = value
		}
	}
	if !strings.HasPrefix(dir, "/") {
		return ""
	}
	return dir
}
