//go:build linux

package linux_test

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// compat asks for the process's number by interrupt 0x80, where system calls
// have other numbers. Go has no way to say so: the code is written out.
func compat(string) error {
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	copy(page, []byte{
		0xb8, 20, 0, 0, 0, // mov eax, getpid
		0xcd, 0x80, // int 0x80
		0xc3, // ret; the result is in Go's first result register
	})
	code := uintptr(unsafe.Pointer(&page[0]))
	entry := &code
	f := *(*func() int)(unsafe.Pointer(&entry))
	if got := f(); got != unix.Getpid() {
		return errors.New("another number")
	}
	return nil
}

// otherTables are the doors to system calls under other numbers.
var otherTables = []attempt{
	{no: 37, name: "system calls of 32 bits", probe: []string{"compat", ""}, control: kernel},
	{no: 37, name: "system calls of the x32 table", probe: []string{"x32"}, control: needless,
		why: "kernels are seldom built with it; TestTheFilterFollowsTheRules looks at its numbers"},
}
