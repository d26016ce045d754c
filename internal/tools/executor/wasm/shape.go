package wasm

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/base/fault"
)

const (
	wasmPage = 64 << 10 // bytes of a page of a module's memory
	// MaxModule is the most bytes that a module may have.
	MaxModule = 32 << 20
	// maxElements bounds the entries of all of a module's tables, each 8 bytes of the
	// host's memory that the module's own limit does not count.
	maxElements = 1 << 20
	// maxLocals and maxBody bound one function, so that compiling it ends.
	maxLocals = 50_000
	maxBody   = 4 << 20 // bytes
)

// wasip1 is the only module that functions may be imported from.
const wasip1 = "wasi_snapshot_preview1"

// shape is the requirements of a module, read before its code is compiled.
type shape struct {
	imports  []imported
	elements uint64 // entries that its tables begin with
	memories int
	pages    uint64 // that its memory begins with
}

// imported is one import.
type imported struct {
	module, name string
	kind         byte
}

// Kinds of imports and exports in the binary format.
const kindFunction = 0

func (i imported) String() string {
	kinds := []string{"function", "table", "memory", "global", "tag"}
	kind := "thing of unknown kind"
	if int(i.kind) < len(kinds) {
		kind = kinds[i.kind]
	}
	return fmt.Sprintf("the %s %.80q of %.80q", kind, i.name, i.module)
}

// errCut: the module ends in the middle of something.
var errCut = errors.New("it is cut off or damaged")

// scan reads the sections of the binary format that declare a module's needs. The engine reads all
// of it once more; this only has to be right for what the engine accepts.
type scan struct {
	b  []byte
	at int
}

func (s *scan) byte() (byte, error) {
	if s.at >= len(s.b) {
		return 0, errCut
	}
	s.at++
	return s.b[s.at-1], nil
}

// number reads an unsigned LEB128 of at most 32 bits.
func (s *scan) number() (uint64, error) {
	var v uint64
	for shift := 0; shift < 35; shift += 7 {
		c, err := s.byte()
		if err != nil {
			return 0, err
		}
		v |= uint64(c&0x7f) << shift
		if c&0x80 == 0 {
			return v, nil
		}
	}
	return 0, errCut
}

func (s *scan) bytes() ([]byte, error) {
	n, err := s.number()
	if err != nil || n > uint64(len(s.b)-s.at) {
		return nil, errCut
	}
	s.at += int(n)
	return s.b[s.at-int(n) : s.at], nil
}

// limits reads the bounds of a memory or table, and gives the lower one.
func (s *scan) limits() (uint64, error) {
	flag, err := s.byte()
	if err != nil {
		return 0, err
	}
	if flag > 1 {
		return 0, errors.New("it has a memory or table of a kind that is not supported (shared, or of 64 bits)")
	}
	least, err := s.number()
	if err == nil && flag == 1 {
		_, err = s.number()
	}
	return least, err
}

// measure reads the requirements of a module.
func measure(b []byte) (*shape, error) {
	if len(b) > MaxModule {
		return nil, fmt.Errorf("it has %d bytes, more than %d", len(b), MaxModule)
	}
	if len(b) < 8 || string(b[:4]) != "\x00asm" {
		return nil, errors.New("it is not WebAssembly")
	}
	if string(b[4:8]) == "\x0d\x00\x01\x00" {
		return nil, errors.New("it is a component, and modules of WASI preview 1 are run")
	}
	if string(b[4:8]) != "\x01\x00\x00\x00" {
		return nil, errors.New("its version of the binary format is not known")
	}
	out := &shape{}
	s := &scan{b: b, at: 8}
	for s.at < len(b) {
		id, err := s.byte()
		if err != nil {
			return nil, err
		}
		body, err := s.bytes()
		if err != nil {
			return nil, err
		}
		in := &scan{b: body}
		switch id {
		case 2:
			err = out.readImports(in)
		case 4:
			err = out.readTables(in)
		case 5:
			err = out.readMemories(in)
		case 10:
			err = readCode(in)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (o *shape) readImports(s *scan) error {
	n, err := s.number()
	for ; err == nil && n > 0; n-- {
		var module, name []byte
		var i imported
		if module, err = s.bytes(); err != nil {
			return err
		}
		if name, err = s.bytes(); err != nil {
			return err
		}
		if !utf8.Valid(module) || !utf8.Valid(name) {
			return errors.New("it imports something whose name is not UTF-8")
		}
		if i.kind, err = s.byte(); err != nil {
			return err
		}
		i.module, i.name = string(module), string(name)
		o.imports = append(o.imports, i)
		if i.kind != kindFunction {
			return nil // it is refused for this one; what follows need not be read
		}
		_, err = s.number()
	}
	return err
}

func (o *shape) readTables(s *scan) error {
	n, err := s.number()
	for ; err == nil && n > 0; n-- {
		var least uint64
		if _, err = s.byte(); err != nil {
			return err
		}
		least, err = s.limits()
		o.elements += least
	}
	return err
}

func (o *shape) readMemories(s *scan) error {
	n, err := s.number()
	for ; err == nil && n > 0; n-- {
		var least uint64
		least, err = s.limits()
		o.memories++
		o.pages += least
	}
	return err
}

// readCode refuses functions that the engine would choke on.
func readCode(s *scan) error {
	n, err := s.number()
	for ; err == nil && n > 0; n-- {
		var body []byte
		if body, err = s.bytes(); err != nil {
			return err
		}
		if len(body) > maxBody {
			return fmt.Errorf("it has a function of %d bytes, more than %d", len(body), maxBody)
		}
		err = readLocals(&scan{b: body})
	}
	return err
}

func readLocals(s *scan) error {
	groups, err := s.number()
	for locals := uint64(0); err == nil && groups > 0; groups-- {
		var n uint64
		if n, err = s.number(); err != nil {
			return err
		}
		if locals += n; locals > maxLocals {
			return fmt.Errorf("it has a function with more than %d variables", maxLocals)
		}
		_, err = s.byte()
	}
	return err
}

// check refuses what no call could be given. functions reports whether a module may import a
// function.
func (o *shape) check(functions func(name string) bool) error {
	var foreign []string
	for _, i := range o.imports {
		if i.module == wasip1 && i.kind == kindFunction && functions(i.name) {
			continue
		}
		if text := i.String(); !slices.Contains(foreign, text) && len(foreign) < 5 {
			foreign = append(foreign, text)
		}
	}
	switch {
	case len(foreign) > 0:
		return fault.New(fault.Usage, "the module imports %s, which nothing gives it", strings.Join(foreign, ", and ")).
			WithHint("a module may import the functions of %s only; build it for wasip1 or wasm32-wasip1", wasip1)
	case o.elements > maxElements:
		return fault.New(fault.Usage, "the module has tables of %d entries, more than %d", o.elements, maxElements)
	case o.memories != 1:
		return fault.New(fault.Usage, "the module has %d memories, and needs one", o.memories)
	}
	return nil
}
