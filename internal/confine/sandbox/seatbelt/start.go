//go:build unix

package seatbelt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// drainTime is how long output may still come after the command has ended.
const drainTime = 2 * time.Second

// run is one command on its way.
type run struct {
	prepared
	b    *Box
	p    permit.Permit
	c    sandbox.Command
	text Text
	env  []string
	tmp  string // its private folder
	out  *exit
}

// do starts the command, waits for it, and kills what it left behind.
func (r run) do(ctx context.Context) (sandbox.Outcome, error) {
	closeInherited()
	std, err := newStreams(r.c, sandbox.OutputLimit(r.p, r.c), r.tmp)
	if err != nil {
		return sandbox.Outcome{}, err
	}
	args := []string{"-p", r.text.Profile}
	for _, kv := range r.text.Params {
		args = append(args, "-D", kv)
	}
	args = append(args, sandbox.Bash, "--norc", "-p", "-c", script(r.prof), "remit", r.c.Argv[0], r.exe)
	cmd := &exec.Cmd{Path: r.b.conf.Program, Args: append(append([]string{r.b.conf.Program}, args...), r.c.Argv[1:]...), Env: r.env, Dir: r.prof.Dir,
		Stdin: std.in, Stdout: std.out.w, Stderr: std.err.w, ExtraFiles: []*os.File{std.begun.w}, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	start := time.Now()
	err = cmd.Start()
	std.closeCommands()
	if err != nil {
		std.end()
		return sandbox.Outcome{}, fault.Wrap(fault.SandboxMissing, err, "%s cannot be started: %v", r.b.conf.Program, sandbox.RootCause(err))
	}
	timedOut := r.await(ctx, cmd)
	out := sandbox.Outcome{Duration: time.Since(start), TimedOut: timedOut, Tier: "fresh", Isolation: r.prof.Confinement(), Notes: r.prof.Notes, Limits: limits(r.prof),
		Connections: r.out.close()}
	begun := false
	out.Stdout, out.Stderr, begun = std.end()
	r.judge(&out, cmd)
	if !begun && !timedOut && ctx.Err() == nil {
		why, _, _ := strings.Cut(string(out.Stderr.Data), "\n")
		return sandbox.Outcome{}, fault.New(fault.SandboxMissing, "the Seatbelt sandbox did not start: %q", why)
	}
	r.p.Note(tool.Happened{Effect: tool.SystemExec, On: tool.Action{Kind: tool.Command, Argv: r.c.Argv}.Subject(), Rule: "isolation " + out.Isolation})
	if ctx.Err() != nil && timedOut {
		out.Limit = "the call's time is over"
	} else if ctx.Err() != nil {
		return out, fault.Wrap(fault.ToolCancelled, context.Cause(ctx), "the command was cancelled after %v", out.Duration.Round(time.Millisecond))
	}
	return out, nil
}

// await waits for the end of the command, and ends it when its time is over. Its remaining
// processes are killed in any case.
func (r run) await(ctx context.Context, cmd *exec.Cmd) (timedOut bool) {
	limit := sandbox.TimeLimit(r.p, r.c)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // the process's state says how it ended
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		timedOut = errors.Is(ctx.Err(), context.DeadlineExceeded)
	case <-timer.C:
		timedOut = true
	}
	for _, pid := range descendants(cmd.Process.Pid) {
		_ = unix.Kill(pid, unix.SIGKILL) // it may be gone
	}
	_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // of the group; none may be left
	<-ended
	return timedOut
}

// judge says how the command ended.
func (r run) judge(out *sandbox.Outcome, cmd *exec.Cmd) {
	out.ExitCode = -1
	out.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case out.TimedOut:
		out.Signal, out.Limit = "SIGKILL", fmt.Sprintf("time limit %v reached", sandbox.TimeLimit(r.p, r.c))
		return
	case ok && ws.Signaled():
		out.Signal = unix.SignalName(ws.Signal())
	default:
		out.ExitCode = cmd.ProcessState.ExitCode()
	}
	switch {
	case out.Signal == "SIGXFSZ":
		out.Limit = fmt.Sprintf("file size limit %d bytes reached", r.prof.FileSize)
	case r.prof.CPU > 0 && (out.Signal == "SIGXCPU" || out.Signal == "SIGKILL" && out.CPU >= r.prof.CPU):
		out.Limit = fmt.Sprintf("processor time limit %s reached", r.prof.CPU)
	}
}

// script is the script of the sandbox's first process: it reports that the sandbox is there, sets
// the limits, and becomes the command. It holds nothing of the command but numbers. A
// limit that the machine does not grant stays at the lower one.
func script(p sandbox.Profile) string {
	var b strings.Builder
	b.WriteString("umask 022; printf x >&3; exec 3>&-; ulimit -c 0 2>/dev/null; ulimit -n " + strconv.Itoa(p.OpenFiles) + " 2>/dev/null; ")
	b.WriteString("ulimit -f " + strconv.FormatInt((p.FileSize+1023)/1024, 10) + " 2>/dev/null; ")
	if p.CPU > 0 {
		b.WriteString("ulimit -t " + strconv.FormatInt(int64(math.Ceil(p.CPU.Seconds())), 10) + " 2>/dev/null; ")
	}
	b.WriteString(`exec -a "$1" "$2" "${@:3}"`)
	return b.String()
}

// limits says of each limit what enforces it.
func limits(p sandbox.Profile) map[string]string {
	out := map[string]string{
		"memory": "not enforced: macOS has no limit of it", "processes": "not enforced: macOS counts all of the user's together", "disk": "not enforced without full isolation",
		"file_size": fmt.Sprintf("%d bytes in one file (rlimit)", p.FileSize), "open_files": fmt.Sprintf("at most %d in each process (rlimit)", p.OpenFiles)}
	if p.CPU > 0 {
		out["cpu"] = p.CPU.Round(time.Second).String() + " of each process (rlimit)"
	}
	return out
}

// closeInherited keeps the inherited files of this process from its commands. No profile could
// stop a command from using them.
var closeInherited = sync.OnceFunc(func() {
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		return // then there is none that is known
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
})

// newScratch makes the folder that stands for /tmp and HOME.
func newScratch() (string, error) {
	dir, err := os.MkdirTemp("", "remit-tmp-")
	if err != nil {
		return "", err
	}
	real, err := canonical(dir)
	if err == nil {
		err = os.Mkdir(filepath.Join(real, "home"), 0o700)
	}
	if err != nil {
		_ = os.RemoveAll(dir) // the rest is empty
	}
	return real, err
}

// streams are the standard streams of one command.
type streams struct {
	in              *os.File
	out, err, begun pipe
	mine            []*os.File // given by the caller
}

// pipe is a pipe for a command's output, with the output that was read.
type pipe struct {
	w    *os.File
	r    *os.File
	done chan sandbox.Stream
}

func newPipe(keep int64) (pipe, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return pipe{}, err
	}
	p := pipe{w: w, r: r, done: make(chan sandbox.Stream, 1)}
	go func() { p.done <- drain(r, keep) }()
	return p, nil
}

// drain keeps the first bytes and counts the rest.
func drain(r io.Reader, keep int64) (s sandbox.Stream) {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		s.Total += int64(n)
		if room := keep - int64(len(s.Data)); room > 0 {
			s.Data = append(s.Data, buf[:min(int64(n), room)]...)
		}
		if err != nil {
			s.Truncated = s.Total > int64(len(s.Data))
			return s
		}
	}
}

// end returns the output, and waits only a while for remaining writers.
func (p pipe) end() sandbox.Stream {
	if p.r == nil {
		return sandbox.Stream{}
	}
	_ = p.r.SetReadDeadline(time.Now().Add(drainTime)) // of a pipe; else the writers are gone
	s := <-p.done
	_ = p.r.Close() // it was only read
	return s
}

func newStreams(c sandbox.Command, keep int64, tmp string) (s *streams, err error) {
	s = &streams{}
	defer func() {
		if err != nil {
			s.closeCommands()
			s.end()
		}
	}()
	if s.begun, err = newPipe(1); err != nil {
		return nil, notPrepared(err)
	}
	if c.Stdio != nil {
		s.mine = []*os.File{c.Stdio.In, c.Stdio.Out, c.Stdio.Err}
		for i, f := range s.mine {
			if f == nil {
				return nil, fault.New(fault.Internal, "a stream of the command is missing")
			}
			if st, err := f.Stat(); err != nil || st.Mode()&os.ModeNamedPipe == 0 { // else it would lead out of the sandbox
				return nil, fault.New(fault.Internal, "stream %d of the command is not a pipe", i)
			}
		}
		s.in, s.out.w, s.err.w = s.mine[0], s.mine[1], s.mine[2]
		return s, nil
	}
	if s.in, err = stdin(c.Stdin, tmp); err == nil {
		s.out, err = newPipe(keep)
	}
	if err == nil {
		s.err, err = newPipe(keep)
	}
	if err != nil {
		return nil, notPrepared(err)
	}
	return s, nil
}

func notPrepared(err error) error {
	return fault.Wrap(fault.ToolFailed, err, "the command's streams cannot be prepared: %v", sandbox.RootCause(err))
}

// stdin is a file without a name, which can only be read.
func stdin(content []byte, tmp string) (*os.File, error) {
	if len(content) == 0 {
		return os.Open(os.DevNull)
	}
	name := filepath.Join(tmp, "stdin")
	if err := os.WriteFile(name, content, 0o400); err != nil {
		return nil, err
	}
	f, err := os.Open(name)
	return f, errors.Join(err, os.Remove(name))
}

// closeCommands lets go of the command's ends.
func (s *streams) closeCommands() {
	for _, f := range []*os.File{s.in, s.out.w, s.err.w, s.begun.w} {
		if f != nil {
			_ = f.Close() // the command has its own
		}
	}
}

// end returns the captured output, and whether the sandbox had started.
func (s *streams) end() (out, err sandbox.Stream, begun bool) {
	return s.out.end(), s.err.end(), s.begun.end().Total > 0
}
