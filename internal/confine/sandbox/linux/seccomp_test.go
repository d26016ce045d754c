//go:build linux && (amd64 || arm64)

package linux

import (
	"encoding/binary"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// The filter must say of every number what the rules say of it, whatever its
// shape. The rules are read here in the simplest way there is.
func TestTheFilterFollowsTheRules(t *testing.T) {
	raw, err := seccompFilter()
	if err != nil {
		t.Fatal(err)
	}
	prog, all := bpf.Disassemble(raw)
	if !all {
		t.Fatal("the filter cannot be read back")
	}
	machine := func(prog []bpf.Instruction) *bpf.VM {
		vm, err := bpf.NewVM(prog)
		if err != nil {
			t.Fatal(err)
		}
		return vm
	}
	run := func(vm *bpf.VM, nr uint32, args [6]uint64) int {
		data := make([]byte, 64) // the simulated machine loads big-endian words
		binary.BigEndian.PutUint32(data[offNr:], nr)
		binary.BigEndian.PutUint32(data[offArch:], auditArch)
		for i, a := range args {
			binary.BigEndian.PutUint32(data[offArgs+8*i:], uint32(a))
		}
		got, err := vm.Run(data)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	whole, rules := machine(prog), map[uint32]*bpf.VM{}
	for _, r := range seccompRules() {
		rules[r.nr] = machine(r.then)
	}
	interesting := []uint64{0, 1, 2, 10, 16, 17, unix.TIOCSTI, tioclinux, unix.TIOCSETD, 1<<32 | unix.TIOCSTI, 0o4755, 0o2755, 0o644,
		unix.O_CREAT, unix.O_TMPFILE, unix.CLONE_NEWUSER, unix.CLONE_NEWNET | unix.CLONE_VM, 0xffffffff, 0x40000}
	for nr := uint32(0); nr <= lastKnown+20; nr++ {
		for _, v := range interesting {
			for _, w := range []uint64{0, 0o4755, 0o644, unix.O_CREAT} {
				args := [6]uint64{v, w, v, w, v, w}
				want := actAllow
				if then, ok := rules[nr]; ok {
					want = run(then, nr, args)
				} else if nr > lastKnown {
					want = actErrno | int(unix.ENOSYS)
				}
				if got := run(whole, nr, args); got != want {
					t.Fatalf("system call %d with %#x: got %#x, want %#x", nr, args, got, want)
				}
			}
		}
	}
	t.Logf("%d instructions", len(prog))
}
