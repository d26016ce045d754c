//go:build !linux

package admission

// machineMemory returns the bytes of memory of this machine; 0: unknown.
func machineMemory() int64 { return 0 }
