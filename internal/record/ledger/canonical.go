package ledger

import (
	"bytes"
	"encoding/binary"
	"math"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// canonicalEvent reads an event in exactly the form that Encode writes. It reports false for
// every other input, also for one that may be an event, and leaves the reason to the caller.
// Large ledgers are verified with it: it takes a sixth of the time of decoding with the
// library and encoding again.
func canonicalEvent(b []byte) (Event, bool) {
	r := canonicalReader{rest: bytes.Clone(b)} // the event keeps parts of it
	var e Event
	n := r.head(cborMap)
	for last := uint64(0); n > 0 && !r.failed; n-- {
		key := r.head(cborUint)
		if key <= last { // in order, and each once
			return e, false
		}
		last = key
		r.field(&e, key)
	}
	return e, !r.failed && len(r.rest) == 0 && e.Kind != 0 && r.dated
}

// field reads the value of a key. Values that Encode leaves out are refused.
func (r *canonicalReader) field(e *Event, key uint64) {
	switch key {
	case 1:
		e.Kind = Kind(r.number(math.MaxUint8))
	case 2:
		e.At, r.dated = r.integer(), true
	case 3:
		e.Run = Seq(r.number(math.MaxUint64))
	case 4:
		e.Call = uint32(r.number(math.MaxUint32))
	case 5:
		e.Tool = tool.ID(r.text())
	case 6:
		e.Digest = r.nonEmpty()
	case 7:
		e.Status = tool.Status(r.number(math.MaxUint8))
	case 8:
		e.Code = fault.Code(r.number(math.MaxInt32))
	case 9:
		e.Effect = policy.Effect(r.number(math.MaxUint8))
	case 10:
		e.Rule = r.text()
	case 11:
		e.Link = uint8(r.number(math.MaxUint8))
	case 12:
		e.Risk = tool.Risk(r.number(math.MaxUint8))
	case 13:
		e.Effects = tool.Effects(r.number(math.MaxUint32))
	case 14:
		e.Timeline = r.integers()
	case 15:
		e.Step = r.text()
	case 16:
		e.Commit = r.nonEmpty()
	case 17:
		e.Approved = r.readTrue()
	case 18:
		e.Line = uint32(r.number(math.MaxUint32))
	default:
		r.rareField(e, key)
	}
}

// rareField is field for the keys that most events of calls do not have.
func (r *canonicalReader) rareField(e *Event, key uint64) {
	switch key {
	case 20:
		e.ID = r.nonEmpty()
	case 21:
		e.Mode = Mode(r.number(math.MaxUint8))
	case 22:
		e.Name = r.text()
	case 23:
		e.Principal = r.text()
	case 24:
		e.Owner = r.nonEmpty()
	case 25:
		e.Plan = r.nonEmpty()
	case 26:
		e.Policies = r.list()
	case 27:
		e.Workspace = r.text()
	case 28:
		e.ReplayOf = r.nonEmpty()
	case 29:
		e.Total = uint32(r.number(math.MaxUint32))
	case 30:
		e.Completed = uint32(r.number(math.MaxUint32))
	case 31:
		e.Denied = uint32(r.number(math.MaxUint32))
	case 32:
		e.Failed = uint32(r.number(math.MaxUint32))
	case 33:
		e.Change = Change(r.number(math.MaxUint8))
	case 34:
		e.Refused = uint32(r.number(math.MaxUint32))
	case 35:
		e.Usage = r.integers()
	case 36:
		e.Client = r.text()
	default:
		r.failed = true // events of authority and of agents are few
	}
}

// canonicalReader reads deterministic CBOR (RFC 8949, section 4.2.1). After the first
// failure its values are meaningless.
type canonicalReader struct {
	rest   []byte
	failed bool
	dated  bool // the event has an At, which may be zero
}

// head reads the head of a value of a major type: its number or length, in the shortest form.
func (r *canonicalReader) head(major byte) uint64 {
	b := r.rest
	if len(b) == 0 || b[0]&0xe0 != major {
		r.failed = true
		return 0
	}
	n := uint64(b[0] & 0x1f)
	if n < 24 {
		r.rest = b[1:]
		return n
	}
	size := 1 << (n - 24)
	if n > 27 || len(b) < 1+size {
		r.failed = true
		return 0
	}
	var wide [8]byte
	copy(wide[8-size:], b[1:1+size])
	n = binary.BigEndian.Uint64(wide[:])
	if least := [...]uint64{1: 24, 2: 1 << 8, 4: 1 << 16, 8: 1 << 32}[size]; n < least {
		r.failed = true // it has a shorter form
	}
	r.rest = b[1+size:]
	return n
}

// number reads a positive number up to most.
func (r *canonicalReader) number(most uint64) uint64 {
	n := r.head(cborUint)
	if n == 0 || n > most {
		r.failed = true
	}
	return n
}

// integer reads an integer of any sign.
func (r *canonicalReader) integer() int64 {
	major := byte(cborUint)
	if len(r.rest) > 0 && r.rest[0]&0xe0 == cborNegative {
		major = cborNegative
	}
	n := r.head(major)
	if n > math.MaxInt64 {
		r.failed = true
	}
	if major == cborNegative {
		return -1 - int64(n)
	}
	return int64(n)
}

// bytes reads a string of a major type. It shares the reader's memory.
func (r *canonicalReader) bytes(major byte) []byte {
	n := r.head(major)
	if r.failed || n > uint64(len(r.rest)) {
		r.failed = true
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

func (r *canonicalReader) nonEmpty() []byte {
	b := r.bytes(cborBytes)
	r.failed = r.failed || len(b) == 0
	return b
}

func (r *canonicalReader) text() string {
	b := r.bytes(cborText)
	r.failed = r.failed || len(b) == 0 || !utf8.Valid(b)
	return string(b)
}

// readTrue reads the value true.
func (r *canonicalReader) readTrue() bool {
	if len(r.rest) == 0 || r.rest[0] != cborTrue {
		r.failed = true
		return false
	}
	r.rest = r.rest[1:]
	return true
}

// length reads the head of a list that is not empty.
func (r *canonicalReader) length() int {
	n := r.head(cborArray)
	if n == 0 || n > maxElements || n > uint64(len(r.rest)) {
		r.failed = true
		return 0
	}
	return int(n)
}

func (r *canonicalReader) integers() []int64 {
	out := make([]int64, r.length())
	for i := range out {
		out[i] = r.integer()
	}
	return out
}

func (r *canonicalReader) list() [][]byte {
	out := make([][]byte, r.length())
	for i := range out {
		out[i] = r.bytes(cborBytes)
	}
	return out
}
