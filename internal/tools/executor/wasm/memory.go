package wasm

import (
	"github.com/tetratelabs/wazero/experimental"
)

// memory is what one call's module computes in. It grows as far as the call may.
type memory struct {
	buf  []byte
	most uint64
	full bool // it was to grow further
}

// Allocate implements experimental.MemoryAllocator.
func (m *memory) Allocate(uint64, uint64) experimental.LinearMemory { return m }

// Reallocate implements experimental.LinearMemory. A memory never shrinks, so the bytes beyond its
// length were never written.
func (m *memory) Reallocate(size uint64) []byte {
	if size > m.most {
		m.full = true
		return nil
	}
	if size > uint64(cap(m.buf)) {
		to := min(max(size, uint64(cap(m.buf))*3/2), m.most)
		grown := make([]byte, size, to)
		copy(grown, m.buf)
		m.buf = grown
	}
	m.buf = m.buf[:size:cap(m.buf)]
	return m.buf
}

// Free implements experimental.LinearMemory.
func (m *memory) Free() { m.buf = nil }
