package admission

import "syscall"

// machineMemory returns the bytes of memory of this machine; 0: unknown.
func machineMemory() int64 {
	var s syscall.Sysinfo_t
	if syscall.Sysinfo(&s) != nil {
		return 0
	}
	return int64(s.Totalram) * int64(s.Unit)
}
