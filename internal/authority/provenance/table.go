package provenance

// table maps hashes to slots by linear probing. The hashes are keyed and evenly spread, so each
// one gives its place in the table and is not hashed again.
type table struct {
	entries []entry
	n       int // hashes
}

type entry struct {
	key uint64 // 0: free; the hash 0 is kept as 1
	slot
}

const firstEntries = 1 << 10

// get returns the slot of a hash; the zero slot: nothing is known.
func (t *table) get(h uint64) slot {
	if len(t.entries) == 0 {
		return slot{}
	}
	return t.find(h).slot
}

// slotAt is the slot of a hash, which is added if the table has fewer than most; nil: it is not
// there. It is good until the next call of at.
func (t *table) slotAt(h uint64, most int) *slot {
	if t.n >= len(t.entries)/4*3 {
		t.grow()
	}
	e := t.find(h)
	if e.key == 0 {
		if t.n >= most {
			return nil
		}
		e.key = max(h, 1)
		t.n++
	}
	return &e.slot
}

// find is the entry of a hash, or the free one where it belongs.
func (t *table) find(h uint64) *entry {
	h = max(h, 1)
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
