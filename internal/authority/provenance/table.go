package provenance

// table maps hashes to what is known of them. The hashes are keyed and evenly spread, so they
// are places in the table themselves: linear probing without hashing again.
type table struct {
	entries []entry
	n       int
	zero    slot // of the hash 0
	hasZero bool
}

type entry struct {
	key uint64 // 0: free
	slot
}

const firstEntries = 1 << 10

// len is the number of hashes.
func (t *table) len() int {
	if t.hasZero {
		return t.n + 1
	}
	return t.n
}

// get returns what is known of a hash.
func (t *table) get(h uint64) (slot, bool) {
	if h == 0 {
		return t.zero, t.hasZero
	}
	if len(t.entries) == 0 {
		return slot{}, false
	}
	e := t.find(h)
	return e.slot, e.key != 0
}

// set keeps what is known of a hash.
func (t *table) set(h uint64, s slot) {
	if h == 0 {
		t.zero, t.hasZero = s, true
		return
	}
	if t.n >= len(t.entries)/4*3 {
		t.grow()
	}
	e := t.find(h)
	if e.key == 0 {
		e.key = h
		t.n++
	}
	e.slot = s
}

// find is the entry of a hash, or the free one where it belongs.
func (t *table) find(h uint64) *entry {
	mask := uint64(len(t.entries) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		if e := &t.entries[i]; e.key == h || e.key == 0 {
			return e
		}
	}
}

func (t *table) grow() {
	old := t.entries
	t.entries = make([]entry, max(2*len(old), firstEntries))
	for _, e := range old {
		if e.key != 0 {
			*t.find(e.key) = e
		}
	}
}
