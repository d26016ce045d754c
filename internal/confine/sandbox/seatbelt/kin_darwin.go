package seatbelt

import "golang.org/x/sys/unix"

// descendants are the processes below one, as far as their parents live. They may have left
// its process group.
func descendants(pid int) (out []int) {
	list, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil // the group is killed all the same
	}
	below := map[int32]bool{int32(pid): true}
	for grown := true; grown; {
		grown = false
		for i := range list {
			if one, up := list[i].Proc.P_pid, list[i].Eproc.Ppid; below[up] && !below[one] && one > 1 {
				below[one], grown = true, true
				out = append(out, int(one))
			}
		}
	}
	return out
}
