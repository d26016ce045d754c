//go:build linux && (amd64 || arm64)

package spawn

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Descriptors that a program finds in its first registers, and the descriptor
// for the record of its end.
const (
	RegStdin  Reg = 0
	RegStdout Reg = 1
	RegStderr Reg = 2
	RegStatus Reg = 3
	firstFree Reg = 8
	numRegs       = 32

	// StatusFD is where the sandbox tells what becomes of it. A program leaves it
	// alone.
	StatusFD = 3
)

// Reg is a register: the result of one call as an argument of a later one.
type Reg uint8

// Ref is a place in the program's data.
type Ref uint64

const (
	pokeNr = ^uint64(0) // store the low 32 bits of register Args[1] at Args[0]

	flagIgnore = 1 // an error of this call is ignored
	flagSave   = 2
)

// op is one system call. It holds no Go pointer: pointers are offsets into the
// program's data until the spawner has loaded it.
type op struct {
	Nr    uint64
	Args  [6]uint64
	Ptr   uint8 // bit i: Args[i] is an offset into the data
	Reg   uint8 // bit i: Args[i] is a register
	Save  uint8 // the register for the result, with flagSave
	Flags uint8
	Pass  uint32 // an errno that is also ignored
}

// header begins a loaded program.
type header struct {
	Regs   [numRegs]uint64
	NOps   uint64 // of the first process of the sandbox
	NTool  uint64 // of the command's process, after them
	Data   uint64 // offset of the data
	Relocs uint64 // offset of the list of places in the data that hold pointers
	NReloc uint64
	Size   uint64
	Pauses uint64 // 1: after its calls, the rest of the program is waited for
	Before uint64 // calls that came before these
	Stays  uint64 // 1: after its calls the process stays, and runs one command after the other
	Shares uint64 // 1: it stays, and starts a process for each command, which may run at the same time
	Own    watch  // what it looks at after each command
	Around watch  // what it looks at before the next
}

// watch is a part of a staying process's program: calls that look at something,
// and the place of their results in the data. The first results lie behind it.
type watch struct {
	From, To uint64 // calls
	Seen     uint64 // offset in the data
	Len      uint64 // bytes of the present and of the first result
}

// Program is a list of system calls: first those of the sandbox's first
// process, then, after [Program.Fork], those of the command's process, the last
// of which executes the command. The zero Program is empty and ready to use.
type Program struct {
	ops    []op
	steps  []string
	data   []byte
	relocs []uint64
	fork   int
	forked bool
	regs   Reg
	head   struct{ ops, data, relocs int } // what comes before the pause

	stays  bool
	shares bool
	own    watch
	around watch
	used   int      // bytes of the current part's
	hands  int      // descriptors that are handed over
	before *Program // what made the zygote that this one runs in
}

// NewProgram makes an empty program with room for about n calls.
func NewProgram(n int) *Program {
	return &Program{ops: make([]op, 0, n), steps: make([]string, 0, n), data: make([]byte, 0, 64*n)}
}

// Arg is an argument of a call.
type Arg struct {
	v        uint64
	ptr, reg bool
}

// Int is a plain number.
func Int[T ~int | ~int32 | ~int64 | ~uint | ~uint32 | ~uint64 | ~uintptr](v T) Arg {
	return Arg{v: uint64(v)}
}

// From is what a register holds.
func From(r Reg) Arg { return Arg{v: uint64(r), reg: true} }

// At is the address of a place in the data.
func At(r Ref) Arg { return Arg{v: uint64(r), ptr: true} }

// Bytes puts b into the data, aligned to eight bytes.
func (p *Program) Bytes(b []byte) Ref {
	for len(p.data)%8 != 0 {
		p.data = append(p.data, 0)
	}
	r := Ref(len(p.data))
	p.data = append(p.data, b...)
	return r
}

// String puts s into the data with a final NUL.
func (p *Program) String(s string) Ref { return p.Bytes(append([]byte(s), 0)) }

// Text is the address of a string in the data.
func (p *Program) Text(s string) Arg { return At(p.String(s)) }

// Strings puts a NULL-terminated array of pointers to strings into the data.
func (p *Program) Strings(list []string) Ref {
	refs := make([]Ref, len(list))
	for i, s := range list {
		refs[i] = p.String(s)
	}
	at := p.Bytes(make([]byte, 8*(len(list)+1)))
	for i, r := range refs {
		p.Pointer(at+Ref(8*i), r)
	}
	return at
}

// Pointer makes the eight bytes at place hold the address of target.
func (p *Program) Pointer(place, target Ref) {
	*(*uint64)(unsafe.Pointer(&p.data[place])) = uint64(target)
	p.relocs = append(p.relocs, uint64(place))
}

// Object puts the bytes of a C-like value without pointers into the data.
func Object[T any](p *Program, v T) Ref {
	return p.Bytes(unsafe.Slice((*byte)(unsafe.Pointer(&v)), unsafe.Sizeof(v)))
}

func (p *Program) add(step string, nr uint64, args []Arg) *op {
	o := op{Nr: nr}
	for i, a := range args {
		o.Args[i] = a.v
		if a.ptr {
			o.Ptr |= 1 << i
		}
		if a.reg {
			o.Reg |= 1 << i
		}
	}
	p.ops = append(p.ops, o)
	p.steps = append(p.steps, step)
	return &p.ops[len(p.ops)-1]
}

// Call adds a system call; when it fails, the sandbox does not start and step
// says what failed.
func (p *Program) Call(step string, nr uintptr, args ...Arg) { p.add(step, uint64(nr), args) }

// Try adds a system call that may fail.
func (p *Program) Try(step string, nr uintptr, args ...Arg) {
	p.add(step, uint64(nr), args).Flags |= flagIgnore
}

// Pass adds a system call that may fail with one error.
func (p *Program) Pass(step string, pass unix.Errno, nr uintptr, args ...Arg) {
	p.add(step, uint64(nr), args).Pass = uint32(pass)
}

// Save adds a system call and gives the register that will hold its result.
func (p *Program) Save(step string, r Reg, nr uintptr, args ...Arg) Reg {
	o := p.add(step, uint64(nr), args)
	o.Flags |= flagSave
	o.Save = uint8(r)
	return r
}

// Reg reserves a register.
func (p *Program) Reg() Reg {
	r := firstFree + p.regs
	if r >= numRegs {
		panic("spawn: out of registers")
	}
	p.regs++
	return r
}

// Poke stores the low 32 bits of a register in the data.
func (p *Program) Poke(place Ref, r Reg) {
	o := p.add("", pokeNr, []Arg{At(place), Int(uint64(r))})
	o.Nr = pokeNr
}

// Hand adds the calls that give a descriptor of the sandbox to who started it,
// which takes it with [Child.Take]. It must come after StatusFD is in place.
func (p *Program) Hand(step string, r Reg) {
	said := Object(p, record{What: recordHanded << 32})
	iov := Object(p, [2]uint64{0, uint64(unsafe.Sizeof(record{}))})
	p.Pointer(iov, said)
	control := unix.UnixRights(0)
	oob := p.Bytes(control)
	msg := Object(p, unix.Msghdr{Iovlen: 1, Controllen: uint64(len(control))})
	var m unix.Msghdr
	p.Pointer(msg+Ref(unsafe.Offsetof(m.Iov)), iov)
	p.Pointer(msg+Ref(unsafe.Offsetof(m.Control)), oob)
	p.Poke(oob+Ref(unix.CmsgLen(0)), r)
	p.Call(step, unix.SYS_SENDMSG, Int(StatusFD), At(msg), Int(unix.MSG_NOSIGNAL))
	p.hands++
}

// Pause divides the first process's part. The calls before it can be made ahead of
// time, in a sandbox that then waits for the rest ([Spawner.Prepare]); the rest
// may use its registers but not what it poked into the data.
func (p *Program) Pause() {
	for len(p.data)%8 != 0 {
		p.data = append(p.data, 0)
	}
	p.head.ops, p.head.data, p.head.relocs = len(p.ops), len(p.data), len(p.relocs)
}

// Head is what comes before the pause, encoded: programs with equal heads differ
// only in the rest.
func (p *Program) Head() []byte {
	h := header{NOps: uint64(p.head.ops), Pauses: 1}
	return encode(h, p.ops[:p.head.ops], p.data[:p.head.data], p.relocs[:p.head.relocs])
}

// Fork ends the part of the sandbox's first process.
func (p *Program) Fork() { p.fork, p.forked = len(p.ops), true }

// Stay ends the part that makes a sandbox for one command after the other
// ([Child.Stay]). The calls added after it look for remains of a command, and
// write the results with [Program.Seen]; calls after [Program.Around] look for
// changes around the sandbox. If a result differs from the first one, or a call
// fails, no further command is run. n is the number of bytes that each can see.
func (p *Program) Stay(n int) {
	p.stays = true
	p.own = watch{From: uint64(len(p.ops)), Len: uint64(n)}
	p.own.Seen = uint64(p.Bytes(make([]byte, 2*n)))
	p.around = watch{Len: uint64(n)}
	p.around.Seen = uint64(p.Bytes(make([]byte, 2*n)))
}

// Share is [Program.Stay] for a sandbox in which commands run at the same time ([Zygote.Start]). Files and
// processes that one of them leaves behind are there for the others. No command starts after the first process
// has found a difference; it does not look at the surroundings ([Program.Around]).
func (p *Program) Share(n int) {
	p.shares = true
	p.Stay(n)
}

// HandSelf adds the calls that give the process of a command in a shared sandbox to
// who started it. They must come first.
func (p *Program) HandSelf(step string, r Reg) {
	p.Save(step, r, unix.SYS_GETPID)
	p.Save(step, r, unix.SYS_PIDFD_OPEN, From(r), Int(0))
	p.Hand(step, r)
	p.Call(step, unix.SYS_CLOSE, From(r))
}

// Around begins the second of the two parts that look.
func (p *Program) Around() {
	p.own.To, p.around.From = uint64(len(p.ops)), uint64(len(p.ops))
	p.used = 0
}

// Seen gives the next n bytes, aligned to eight, of what the current part sees.
func (p *Program) Seen(n int) Ref {
	w := p.own
	if p.own.To != 0 {
		w = p.around
	}
	at := Ref(w.Seen) + Ref(p.used)
	p.used += (n + 7) / 8 * 8
	if p.used > int(w.Len) {
		panic("spawn: more is seen than was reserved")
	}
	return at
}

// Put sets bytes of the data.
func (p *Program) Put(at Ref, b []byte) { copy(p.data[at:], b) }

// Forked reports whether the command's part has begun.
func (p *Program) Forked() bool { return p.forked }

// Step names the call that failed.
func (p *Program) Step(i int) string {
	if p.before != nil && i >= 0 {
		if i < len(p.before.steps) {
			return p.before.steps[i]
		}
		i -= len(p.before.steps)
	}
	if i < 0 || i >= len(p.steps) {
		return fmt.Sprintf("step %d", i)
	}
	return p.steps[i]
}

// Len is the number of calls.
func (p *Program) Len() int { return len(p.ops) }

// rest is what comes after the pause, encoded.
func (p *Program) rest() ([]byte, error) {
	for len(p.data)%8 != 0 {
		p.data = append(p.data, 0)
	}
	h := header{Before: uint64(p.head.ops)}
	if p.before != nil {
		h.Before = uint64(len(p.before.ops))
	}
	switch {
	case p.forked == p.stays:
		return nil, fmt.Errorf("spawn: a program without a command")
	case p.stays:
		h.Stays, h.Own, h.Around = 1, p.own, p.around
		if p.shares {
			h.Shares = 1
		}
		h.Around.To = uint64(len(p.ops))
		h.NOps = h.Own.From - h.Before
		for _, i := range []*uint64{&h.Own.From, &h.Own.To, &h.Around.From, &h.Around.To} {
			*i -= h.Before
		}
		h.NTool = h.Around.To - h.NOps // they have pointers to be made real too
	default:
		h.NOps, h.NTool = uint64(p.fork-p.head.ops), uint64(len(p.ops)-p.fork)
	}
	return encode(h, p.ops[p.head.ops:], p.data, p.relocs), nil
}

func encode(h header, ops []op, data []byte, relocs []uint64) []byte {
	h.Data = uint64(unsafe.Sizeof(h)) + uint64(len(ops))*uint64(unsafe.Sizeof(op{}))
	h.Relocs = h.Data + uint64(len(data))
	h.NReloc = uint64(len(relocs))
	h.Size = h.Relocs + 8*h.NReloc
	buf := make([]byte, 0, h.Size)
	buf = append(buf, unsafe.Slice((*byte)(unsafe.Pointer(&h)), unsafe.Sizeof(h))...)
	if len(ops) > 0 {
		buf = append(buf, unsafe.Slice((*byte)(unsafe.Pointer(&ops[0])), uintptr(len(ops))*unsafe.Sizeof(op{}))...)
	}
	buf = append(buf, data...)
	if len(relocs) > 0 {
		buf = append(buf, unsafe.Slice((*byte)(unsafe.Pointer(&relocs[0])), 8*len(relocs))...)
	}
	return buf
}

// memory writes an encoded program into a fresh memory file.
func memory(program []byte) (fd int, err error) {
	if fd, err = unix.MemfdCreate("remit-program", unix.MFD_CLOEXEC); err != nil {
		return -1, err
	}
	for off := 0; off < len(program); {
		n, werr := unix.Pwrite(fd, program[off:], int64(off))
		if werr != nil {
			_ = unix.Close(fd)
			return -1, werr
		}
		off += n
	}
	return fd, nil
}
