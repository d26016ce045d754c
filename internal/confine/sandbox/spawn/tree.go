//go:build linux && (amd64 || arm64)

package spawn

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// treeTime is how long the processes of a sandbox without a pid namespace are
// looked for and killed.
const treeTime = 5 * time.Second

// fell kills all descendants of the sandbox's first process; orphans become its
// children. A pid namespace is better, because processes may start others faster
// than fell finds them.
func (c *Child) fell() {
	for end := time.Now().Add(treeTime); time.Now().Before(end); {
		root := c.pid()
		if root <= 0 {
			return // its number may be another one's by now
		}
		all := descendants(root)
		if len(all) == 0 {
			return
		}
		for _, sig := range []unix.Signal{unix.SIGSTOP, unix.SIGKILL} { // first none of them may go on
			for pid, parent := range all {
				signal(pid, parent, sig)
			}
		}
		select {
		case <-c.ended:
			return
		case <-time.After(time.Millisecond):
		}
	}
	_ = unix.PidfdSendSignal(c.pidfd, unix.SIGKILL, nil, 0)
}

// Signal sends a signal to the children of the first process: the command, and processes that have lost their parent.
func (c *Child) Signal(sig unix.Signal) {
	root := c.pid()
	for pid, parent := range descendants(root) {
		if parent == root && root > 0 {
			signal(pid, parent, sig)
		}
	}
}

// pid is the number of the first process, or 0 when it is gone.
func (c *Child) pid() int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", c.pidfd))
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(b) {
		if v, ok := bytes.CutPrefix(line, []byte("Pid:")); ok {
			n, err := strconv.Atoi(string(bytes.TrimSpace(v)))
			if err != nil {
				return 0
			}
			return n
		}
	}
	return 0
}

// signal signals a process if it is still the child of that parent: its number
// may mean another one by now.
func signal(pid, parent int, sig unix.Signal) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // it has ended
	}
	defer func() { _ = unix.Close(fd) }()
	if p, alive := parentOf(pid); alive && p == parent { // read with the descriptor held, so of this very process
		_ = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
}

// parentOf reads the parent of a process. A zombie is not alive.
func parentOf(pid int) (parent int, alive bool) {
	p, ok := readProcess(pid)
	return p.parent, ok && !p.ended
}

// process is what the kernel tells of one, see proc_pid_stat(5).
type process struct {
	parent  int
	ended   bool          // it only waits to be collected
	cpu     time.Duration // of it and of the processes that it has waited for
	threads int
}

// tick is the unit of times in /proc, on every machine.
const tick = time.Second / 100

func readProcess(pid int) (p process, ok bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return p, false
	}
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:]) // state, parent, ...
	if len(fields) < 18 {
		return p, false
	}
	p.ended = fields[0][0] == 'Z' || fields[0][0] == 'X'
	if p.parent, err = strconv.Atoi(string(fields[1])); err != nil {
		return p, false
	}
	if p.threads, err = strconv.Atoi(string(fields[17])); err != nil {
		return p, false
	}
	for _, f := range fields[11:15] { // user and system time, and those of waited-for children
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return p, false
		}
		p.cpu += time.Duration(n) * tick
	}
	return p, true
}

// usedSoFar is the processor time that the sandbox's processes have used, of which
// the kernel keeps no account when they are killed with the first one.
func (c *Child) usedSoFar() time.Duration {
	root := c.pid()
	if root <= 0 {
		return 0
	}
	first, _ := readProcess(root)
	sum := first.cpu
	walk(root, func(_ int, p process) bool {
		sum += p.cpu
		return true
	})
	return sum
}

// descendants are the living processes below one, with their parents.
func descendants(root int) map[int]int {
	out := map[int]int{}
	walk(root, func(pid int, p process) bool {
		if !p.ended {
			out[pid] = p.parent
		}
		return !p.ended
	})
	return out
}

// walk visits the processes below one, except the processes below one for which
// visit returns false.
func walk(root int, visit func(pid int, p process) bool) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	all, below := map[int]process{}, map[int][]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, ok := readProcess(pid); ok {
			all[pid] = p
			below[p.parent] = append(below[p.parent], pid)
		}
	}
	for next := []int{root}; len(next) > 0; {
		var deeper []int
		for _, parent := range next {
			for _, pid := range below[parent] {
				if visit(pid, all[pid]) {
					deeper = append(deeper, pid)
				}
			}
			delete(below, parent) // a number that was given out anew must not make a circle
		}
		next = deeper
	}
}
