package ledger

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/remitrun/remit/internal/base/fault"
)

// Checkpoint is a state of a log. Its text is the body of a signed note: the
// origin, the size and the root hash on a line each, as transparency logs
// write them, then "prev" and the size of the checkpoint signed before it.
type Checkpoint struct {
	Origin string // names the ledger, as its key does
	Size   int64
	Root   tlog.Hash
	Prev   int64 // size of the checkpoint before it, 0 for the first
}

func (c Checkpoint) String() string {
	return fmt.Sprintf("%s\n%d\n%s\nprev %d\n", c.Origin, c.Size, c.Root, c.Prev)
}

// ParseCheckpoint reads exactly the form of String.
func ParseCheckpoint(text string) (Checkpoint, error) {
	bad := fault.New(fault.VerifyFailed, "not a ledger checkpoint")
	lines := strings.Split(text, "\n")
	if len(lines) != 5 {
		return Checkpoint{}, bad
	}
	var c Checkpoint
	var err error
	c.Origin = lines[0]
	if c.Size, err = strconv.ParseInt(lines[1], 10, 64); err != nil {
		return Checkpoint{}, bad
	}
	if c.Root, err = tlog.ParseHash(lines[2]); err != nil {
		return Checkpoint{}, bad
	}
	if c.Prev, err = strconv.ParseInt(strings.TrimPrefix(lines[3], "prev "), 10, 64); err != nil {
		return Checkpoint{}, bad
	}
	if c.String() != text || c.Size < 0 || c.Prev < 0 {
		return Checkpoint{}, bad
	}
	return c, nil
}

// OpenCheckpoint checks a signed checkpoint against the ledger's public keys.
func OpenCheckpoint(signed []byte, keys PublicKeys) (Checkpoint, error) {
	key := keys.Newest()
	n, err := note.Open(signed, keys)
	if err != nil {
		return Checkpoint{}, fault.Wrap(fault.VerifyFailed, err, "the checkpoint is not signed by %s", key.Name())
	}
	c, err := ParseCheckpoint(n.Text)
	if err != nil {
		return Checkpoint{}, err
	}
	if c.Origin != key.Name() {
		return Checkpoint{}, fault.New(fault.VerifyFailed, "the checkpoint is of %q, not of %q", c.Origin, key.Name())
	}
	if !keys.signed(n, c.Size) {
		return Checkpoint{}, fault.New(fault.VerifyFailed, "the checkpoint of size %d is signed with a key that was replaced before", c.Size)
	}
	return c, nil
}

// ProofFormat names the format of [Proof].
const ProofFormat = "remit-proof/v1"

// Proof shows that events are in a log. To check it, only the log's public key is
// needed.
type Proof struct {
	Format     string       `json:"format"`
	Ledger     string       `json:"ledger"` // the checkpoint's origin
	Checkpoint string       `json:"checkpoint"`
	Rotations  []string     `json:"rotations,omitempty"` // of the ledger's key, as signed notes, oldest first
	Events     []ProofEvent `json:"events"`
}

// ProofEvent is one event and its audit path (RFC 6962, section 2.1.1).
type ProofEvent struct {
	Seq   Seq         `json:"seq"`
	Body  []byte      `json:"body"` // canonical bytes, base64 in JSON
	Proof []tlog.Hash `json:"proof"`
}

// CheckProof checks a proof in JSON with a ledger's public key (the content of
// ledger.pub) and returns the proven events. The events of a proof are in the order
// of their Seq.
func CheckProof(proof []byte, publicKey string) (Checkpoint, []Event, error) {
	if _, err := note.NewVerifier(strings.TrimSpace(publicKey)); err != nil {
		return Checkpoint{}, nil, fault.Wrap(fault.Usage, err, "not a ledger's public key")
	}
	var p Proof
	dec := json.NewDecoder(strings.NewReader(string(proof)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&p); err != nil {
		return Checkpoint{}, nil, fault.Wrap(fault.VerifyFailed, err, "the proof cannot be read: %s", err)
	}
	keys, err := FollowKeys(publicKey, p.Rotations)
	if err != nil {
		return Checkpoint{}, nil, err
	}
	if origin := keys.Newest().Name(); p.Format != ProofFormat || p.Ledger != origin || dec.More() {
		return Checkpoint{}, nil, fault.New(fault.VerifyFailed, "not a proof in format %s by %q", ProofFormat, origin)
	}
	cp, err := OpenCheckpoint([]byte(p.Checkpoint), keys)
	if err != nil {
		return Checkpoint{}, nil, err
	}
	if len(p.Events) == 0 {
		return cp, nil, fault.New(fault.VerifyFailed, "the proof has no event")
	}
	events := make([]Event, len(p.Events))
	last := Seq(0)
	for i, pe := range p.Events {
		if pe.Seq <= last || int64(pe.Seq) > cp.Size {
			return cp, nil, fault.New(fault.VerifyFailed, "event %d is out of order or beyond the checkpoint", pe.Seq)
		}
		last = pe.Seq
		if err := tlog.CheckRecord(pe.Proof, cp.Size, cp.Root, int64(pe.Seq)-1, tlog.RecordHash(pe.Body)); err != nil {
			return cp, nil, fault.Wrap(fault.VerifyFailed, err, "event %d is not in the log: %s", pe.Seq, base64.StdEncoding.EncodeToString(pe.Body))
		}
		if events[i], err = Decode(pe.Body); err != nil {
			return cp, nil, err
		}
	}
	return cp, events, nil
}
