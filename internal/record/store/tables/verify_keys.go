package tables

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
)

// announcement is the newest event about a public key of the ledger.
type announcement struct {
	seq    ledger.Seq
	failed bool // the rotation to it did not take place
}

// announcedKey returns the public key that an event announces, "" if it announces none.
func announcedKey(st *ledger.Stored) string {
	if st.Event.Kind != ledger.Operated || st.Event.Name != ledger.RotateAction {
		return ""
	}
	var about ledger.OperatorAction
	_ = json.Unmarshal(st.Parts[ledger.PartDoc].Inline, &about) // what cannot be read announces nothing, and rotations names the key
	return about.Target
}

// noteKey notes the key that an event announces.
func (v *verification) noteKey(seq ledger.Seq, c *checkedEvent) {
	if c.newKey == "" {
		return
	}
	if v.announced == nil {
		v.announced = map[string]announcement{}
	}
	v.announced[c.newKey] = announcement{seq, c.event.Code != 0}
}

// rotations compares the rotations of the ledger's key with the events that announce them, as far
// as these events were read. Differences are reported, but are not problems: see VerifyReport.
func (v *verification) rotations(ctx context.Context) error {
	for _, r := range v.s.Rotations() {
		a, ok := v.announced[r.New]
		delete(v.announced, r.New)
		if r.Size <= v.start {
			continue // its event was not read
		}
		switch key := ledger.KeyID(r.New); {
		case r.Size > v.tree.Size:
			v.differ("the key %s was made after %d events, this ledger has only %d: it is older than its keys", key, r.Size, v.tree.Size)
		case !ok || a.failed || int64(a.seq) > r.Size:
			v.differ("no event up to %d announces the key %s; unless an older backup was restored, somebody made that key without Remit", r.Size, key)
		}
	}
	for key, a := range v.announced {
		if !a.failed {
			v.differ("event %d announces the key %s, which keys/%s lacks: the rotation was cut off, or keys/ is an older copy", a.seq, ledger.KeyID(key), RotationsFile)
		}
	}
	if was, err := v.s.CheckPublicKey(ctx); err != nil {
		v.differ("%s", fault.Message(err))
	} else if was != "" {
		v.differ("%s", RepairedNote(was))
	}
	slices.Sort(v.rep.Rotations)
	return nil
}

func (v *verification) differ(format string, args ...any) {
	v.rep.Rotations = append(v.rep.Rotations, fmt.Sprintf(format, args...))
}
