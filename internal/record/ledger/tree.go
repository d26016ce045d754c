package ledger

import (
	"crypto/sha256"
	"math/bits"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/remitrun/remit/internal/base/fault"
)

// Node is an interior node of the Merkle tree: the N-th of its level, over
// leaves N<<Level to (N+1)<<Level - 1.
type Node struct {
	Level int
	N     int64
	Hash  tlog.Hash
}

// Frontier is all that must be known of a log to append to it: its size and
// the roots of the complete subtrees it consists of, largest first. The zero
// Frontier is the empty log.
type Frontier struct {
	Size  int64
	Roots []tlog.Hash
}

// Append adds a leaf, and calls done (if it is not nil) for every interior
// node that the leaf completed, lowest first.
func (f *Frontier) Append(leaf tlog.Hash, done func(Node)) {
	n, h := f.Size, leaf
	for level := 1; n&1 == 1; level++ {
		last := len(f.Roots) - 1
		h = tlog.NodeHash(f.Roots[last], h)
		f.Roots = f.Roots[:last]
		n >>= 1
		if done != nil {
			done(Node{Level: level, N: n, Hash: h})
		}
	}
	f.Roots = append(f.Roots, h)
	f.Size++
}

// Root is the hash of the whole tree as RFC 6962 defines it.
func (f *Frontier) Root() tlog.Hash {
	if f.Size == 0 {
		return sha256.Sum256(nil)
	}
	h := f.Roots[len(f.Roots)-1]
	for i := len(f.Roots) - 2; i >= 0; i-- {
		h = tlog.NodeHash(f.Roots[i], h)
	}
	return h
}

// Bytes are the roots, one after the other.
func (f *Frontier) Bytes() []byte {
	b := make([]byte, 0, len(f.Roots)*tlog.HashSize)
	for _, h := range f.Roots {
		b = append(b, h[:]...)
	}
	return b
}

// ParseFrontier reads the result of Bytes for a log of this size.
func ParseFrontier(size int64, b []byte) (Frontier, error) {
	if size < 0 || len(b) != bits.OnesCount64(uint64(size))*tlog.HashSize {
		return Frontier{}, fault.New(fault.StoreCorrupt, "a log of size %d cannot have a frontier of %d bytes", size, len(b))
	}
	f := Frontier{Size: size, Roots: make([]tlog.Hash, 0, 64)}
	for ; len(b) > 0; b = b[tlog.HashSize:] {
		f.Roots = append(f.Roots, tlog.Hash(b[:tlog.HashSize]))
	}
	return f, nil
}

// Clone is a copy that shares nothing.
func (f *Frontier) Clone() Frontier {
	return Frontier{Size: f.Size, Roots: append(make([]tlog.Hash, 0, 64), f.Roots...)}
}
