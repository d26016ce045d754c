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

// fell kills what descends from the sandbox's first process until there is
// nothing: what a process leaves behind becomes that one's child. Processes that
// start others faster than they are found are the reason why this is no more
// than the second best.
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

// parentOf reads the parent of a process, see proc_pid_stat(5). What has ended
// and only waits to be collected is not alive.
func parentOf(pid int) (parent int, alive bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:]) // state, parent, ...
	if len(fields) < 2 || fields[0][0] == 'Z' || fields[0][0] == 'X' {
		return 0, false
	}
	parent, err = strconv.Atoi(string(fields[1]))
	return parent, err == nil
}

// descendants are the living processes below one, with their parents.
func descendants(root int) map[int]int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	below := map[int][]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if parent, alive := parentOf(pid); alive {
			below[parent] = append(below[parent], pid)
		}
	}
	out := map[int]int{}
	for next := []int{root}; len(next) > 0; {
		var deeper []int
		for _, parent := range next {
			for _, pid := range below[parent] {
				out[pid] = parent
				deeper = append(deeper, pid)
			}
		}
		next = deeper
	}
	return out
}
