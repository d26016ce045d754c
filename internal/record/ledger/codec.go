package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// SaltSize is the number of random bytes in front of a payload when an event
// commits to it.
const SaltSize = 16

// maxElements bounds the lists of an event.
const maxElements = 1024

// The modes are fixed at start and safe for concurrent use.
var (
	encMode = must(cbor.CoreDetEncOptions().EncMode())
	decMode = must(cbor.DecOptions{
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		IndefLength:       cbor.IndefLengthForbidden,
		TagsMd:            cbor.TagsForbidden,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		MaxMapPairs:       256,
		MaxArrayElements:  maxElements,
		MaxNestedLevels:   4,
	}.DecMode())
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // the options above are wrong: a bug, found by any test
	}
	return v
}

// Encode gives an event's canonical bytes, of which the Merkle leaf is made.
func Encode(e *Event) ([]byte, error) {
	if err := e.Check(); err != nil {
		return nil, err
	}
	return encMode.Marshal(e)
}

// Decode reads only the canonical form that Encode writes. It refuses unknown,
// duplicate and inconsistent fields, and other spellings of the same event, with
// fault.StoreCorrupt.
func Decode(b []byte) (Event, error) {
	if e, ok := canonicalEvent(b); ok && e.Check() == nil {
		return e, nil
	}
	return decodeAny(b)
}

// decodeAny is Decode for all events. It names the fault in an event that is not valid.
func decodeAny(b []byte) (Event, error) {
	var e Event
	if err := decMode.Unmarshal(b, &e); err != nil {
		return Event{}, fault.Wrap(fault.StoreCorrupt, err, "an event cannot be decoded: %s", err)
	}
	if err := e.Check(); err != nil {
		return Event{}, fault.Wrap(fault.StoreCorrupt, err, "a decoded event makes no sense: %s", fault.Message(err))
	}
	again, err := encMode.Marshal(&e)
	if err != nil || !bytes.Equal(again, b) {
		return Event{}, fault.New(fault.StoreCorrupt, "an event is not in its canonical encoding")
	}
	return e, nil
}

// Check reports the first thing about the event that makes no sense by itself.
func (e *Event) Check() error {
	bad := func(format string, args ...any) error {
		return fault.New(fault.Internal, "event: "+format, args...)
	}
	if e.Kind < RunStarted || e.Kind > FilesLabelled {
		return bad("unknown event kind %d", e.Kind)
	}
	free := e.Kind.OfAuthority() || e.Kind.OfAgents() || e.Kind.OfQueue() || e.Kind == FilesLabelled
	if e.Kind == Operated && (e.Run != 0 || e.Name == "" || e.Principal == "") {
		return bad("%s with run %d, name %q and principal %q", e.Kind, e.Run, e.Name, e.Principal)
	}
	if (e.Kind == RunStarted) != (e.Run == 0) && !(e.Run == 0 && (free || e.Kind == Operated)) {
		return bad("%s with run %d", e.Kind, e.Run)
	}
	if e.Kind.OfQueue() != (e.Queued != 0) || int(e.Queued) >= len(queueStates) || e.Kind.OfQueue() && e.Run != 0 {
		return bad("%s with run %d and state %d of the queue", e.Kind, e.Run, e.Queued)
	}
	if e.Kind.OfCall() != (e.Call != 0) && !(e.Run != 0 && free) {
		return bad("%s with call %d", e.Kind, e.Call)
	}
	if e.Run > 1<<62 {
		return bad("run %d is out of range", e.Run)
	}
	for _, s := range [...]string{string(e.Tool), e.Rule, e.Step, e.Name, e.Principal, e.Workspace, e.Client} {
		if !utf8.ValidString(s) {
			return bad("%q is not UTF-8", s)
		}
	}
	for _, f := range [...]struct {
		name string
		got  []byte
		want int
	}{{"digest", e.Digest, 32}, {"commit", e.Commit, 32}, {"plan", e.Plan, 32}, {"id", e.ID, 16}, {"owner", e.Owner, 16}, {"replay_of", e.ReplayOf, 16},
		{"grant", e.Grant, 16}, {"parent", e.Parent, 16}, {"subject", e.Subject, 16}, {"agent", e.Agent, 16}} {
		if len(f.got) != 0 && len(f.got) != f.want {
			return bad("%s has %d bytes", f.name, len(f.got))
		}
	}
	for _, p := range e.Policies {
		if len(p) != 32 {
			return bad("a policy's digest has %d bytes", len(p))
		}
	}
	return e.checkKind(bad)
}

func (e *Event) checkKind(bad func(string, ...any) error) error {
	if e.Effect > policy.Allow || e.Risk > tool.Critical || e.Status > tool.StatusInterrupted {
		return bad("effect %d, risk %d or status %d is unknown", e.Effect, e.Risk, e.Status)
	}
	ends := e.Kind == CallOutcome || e.Kind == CallDone || e.Kind == RunFinished
	if ends != (e.Status != tool.Pending) {
		return bad("%s with status %s", e.Kind, e.Status)
	}
	if (e.Kind == RunStarted || e.Kind.ofQuestion() || e.Kind == RunQueued || e.Kind == QueueChanged) != (len(e.ID) == 16) || (e.Kind == RunStarted) != (e.Mode == Live || e.Mode == Replay) || e.Mode > Replay {
		return bad("%s with an id of %d bytes and mode %d", e.Kind, len(e.ID), e.Mode)
	}
	if len(e.Usage) > maxUsage || len(e.Usage) > 0 && !e.Kind.OfCall() || slices.ContainsFunc(e.Usage, func(n int64) bool { return n < 0 }) {
		return bad("%s with usage %v", e.Kind, e.Usage)
	}
	if e.Client != "" && e.Kind != RunStarted && e.Kind != CallIntent && e.Kind != CallOutcome {
		return bad("%s of a client's call", e.Kind)
	}
	if e.Refused > 0 && !ends {
		return bad("%s with %d refusals", e.Kind, e.Refused)
	}
	if (e.Kind == Changeset) != (e.Change != 0) || e.Change > ChangesFailed {
		return bad("%s with change %d", e.Kind, e.Change)
	}
	if (e.Kind == CallIntent || e.Kind == CallDone) != (e.Tool != "") {
		return bad("%s with tool %q", e.Kind, e.Tool)
	}
	return e.checkAuthority(bad)
}

// The highest numbers of standings and of states of questions that there are.
const (
	maxStanding = 2
	maxQuestion = 5
)

func (e *Event) checkAuthority(bad func(string, ...any) error) error {
	ofGrant := e.Kind == GrantIssued || e.Kind == GrantStanding
	if ofGrant && len(e.Grant) != 16 || len(e.Grant) != 0 && !e.Kind.OfAuthority() && e.Kind != RunStarted && !e.Kind.OfQueue() {
		return bad("%s with a grant's ID of %d bytes", e.Kind, len(e.Grant))
	}
	if len(e.Parent) != 0 && (e.Kind != GrantIssued && e.Kind != SessionSaved || bytes.Equal(e.Parent, e.Grant)) {
		return bad("%s with parent %x", e.Kind, e.Parent)
	}
	if e.Standing > maxStanding || e.Standing > 0 && e.Kind != GrantStanding && e.Kind != Violation {
		return bad("%s with standing %d", e.Kind, e.Standing)
	}
	if (e.Kind == Violation) != (e.Violated != 0) || int(e.Violated) >= len(violations) {
		return bad("%s with violation %d", e.Kind, e.Violated)
	}
	if e.Kind.ofQuestion() != (e.Question != 0) || e.Question > maxQuestion || (e.Kind == QuestionAsked) && e.Question != 1 {
		return bad("%s with a question's state %d", e.Kind, e.Question)
	}
	return e.checkAgents(bad)
}

func (e *Event) checkAgents(bad func(string, ...any) error) error {
	ours := e.Kind.OfAgents() || e.Kind == ScheduleSaved
	if ours && len(e.Subject) != 16 || len(e.Subject) != 0 && !ours && e.Kind != RunStarted && e.Kind != RunQueued {
		return bad("%s with a subject of %d bytes", e.Kind, len(e.Subject))
	}
	if ours != (e.Number != 0) {
		return bad("%s with number %d", e.Kind, e.Number)
	}
	if e.Gone && (!ours || e.Kind == MessageAdded) {
		return bad("%s that deletes", e.Kind)
	}
	if len(e.Agent) != 0 && e.Kind != SessionSaved {
		return bad("%s with an agent", e.Kind)
	}
	if e.Kind == SessionSaved && bytes.Equal(e.Parent, e.Subject) {
		return bad("%s whose parent it is itself", e.Kind)
	}
	if e.Kind == AgentSaved && e.Name == "" {
		return bad("%s without a name", e.Kind)
	}
	return nil
}

// maxUsage bounds Usage.
const maxUsage = 16

// OfCall reports whether events of the kind tell of a call.
func (k Kind) OfCall() bool { return k == CallIntent || k == CallOutcome || k == CallDone }

// OfAuthority reports whether events of the kind tell of grants, questions or
// violations, which need not belong to a run.
func (k Kind) OfAuthority() bool { return k >= GrantIssued && k <= QuestionClosed }

// OfAgents reports whether events of the kind tell of agents, sessions, their
// messages or files, which need not belong to a run.
func (k Kind) OfAgents() bool { return k >= AgentSaved && k <= FileSaved }

// OfQueue reports whether events of the kind tell of queued runs, schedules or the queue.
func (k Kind) OfQueue() bool { return k >= RunQueued && k <= QueuePaused }

func (k Kind) ofQuestion() bool {
	return k == QuestionAsked || k == QuestionVoted || k == QuestionClosed
}

func (k Kind) String() string {
	names := [...]string{"", "run started", "call intent", "call outcome", "call done", "run finished", "changeset",
		"grant issued", "grant standing", "question asked", "question voted", "violation", "question closed",
		"agent saved", "session saved", "message added", "file saved", "operator action", "run queued",
		"queued run changed", "schedule saved", "queue paused", "files labelled"}
	if int(k) < len(names) && k > 0 {
		return names[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Commitment is the value of an event's Commit: SHA-256 of the salt followed by the
// encoded payload.
func Commitment(salt, data []byte) [sha256.Size]byte {
	var small [512]byte // most payloads need no memory of their own
	if len(salt)+len(data) <= len(small) {
		return sha256.Sum256(append(append(small[:0], salt...), data...))
	}
	h := sha256.New()
	h.Write(salt)
	h.Write(data)
	var c [sha256.Size]byte
	h.Sum(c[:0])
	return c
}

// wireBlob is a blob reference as it is encoded: [address, size].
type wireBlob struct {
	_       struct{} `cbor:",toarray"`
	Address []byte
	Size    uint64
}

// partNumbers are how known names are encoded: a name's key is its number.
// They are part of the format.
var partNumbers = [...]string{1: PartArgs, 2: PartOutput, 3: PartError, 4: PartRefusals, 5: PartFacts, 6: PartHappened,
	7: PartName, 8: PartPlan, 9: PartPolicy, 10: PartInputs, 11: PartAnswer, 12: PartEnv, 13: PartChanges, 14: PartAttempts,
	15: PartGrant, 16: PartReason, 17: PartQuestion, 18: PartDoc, 19: PartBounds, 20: PartContent}

func partKey(name string) any {
	if i := slices.Index(partNumbers[:], name); i > 0 {
		return uint64(i)
	}
	return name
}

func partName(key any) (string, error) {
	switch k := key.(type) {
	case string:
		return k, nil
	case uint64:
		if k > 0 && k < uint64(len(partNumbers)) {
			return partNumbers[k], nil
		}
	}
	return "", fault.New(fault.StoreCorrupt, "a payload has a part with the unknown key %v", key)
}

// EncodeParts gives the canonical bytes of a payload: a CBOR map from part
// names (known ones as numbers) to byte strings, or to [address, size] where
// the bytes are kept apart.
func EncodeParts(parts map[string]Part) ([]byte, error) {
	size := 3
	keys := make([]encodedKey, 0, 8)
	for name, p := range parts {
		if name == "" || !utf8.ValidString(name) || len(name) > 64 {
			return nil, fault.New(fault.Internal, "%q cannot name a part of a payload", name)
		}
		keys = append(keys, encodedKey{encodeKey(partKey(name)), name})
		size += len(name) + len(p.Inline) + 64
	}
	slices.SortFunc(keys, func(x, y encodedKey) int { return bytes.Compare(x.bytes, y.bytes) })
	out := appendHead(make([]byte, 0, size), cborMap, uint64(len(keys)))
	for _, k := range keys {
		out = append(out, k.bytes...)
		if p := parts[k.name]; p.Blob == nil {
			out = append(appendHead(out, cborBytes, uint64(len(p.Inline))), p.Inline...) // nil and empty are one value
		} else {
			out = appendHead(out, cborArray, 2)
			out = append(appendHead(out, cborBytes, uint64(len(p.Blob.Address))), p.Blob.Address[:]...)
			out = appendHead(out, cborUint, uint64(p.Blob.Size))
		}
	}
	return out, nil
}

// encodedKey is a part's key as it is encoded, by which parts are in order.
type encodedKey struct {
	bytes []byte
	name  string
}

func encodeKey(key any) []byte {
	if n, ok := key.(uint64); ok {
		return appendHead(nil, cborUint, n)
	}
	name, _ := key.(string) // there is nothing else
	return append(appendHead(nil, cborText, uint64(len(name))), name...)
}

// The major types of CBOR that payloads and events are made of (RFC 8949, section 3.1).
const (
	cborUint     = 0 << 5
	cborNegative = 1 << 5
	cborBytes    = 2 << 5
	cborText     = 3 << 5
	cborArray    = 4 << 5
	cborMap      = 5 << 5
	cborTrue     = 7<<5 | 21
)

// appendHead adds a major type with its number, in the shortest form.
func appendHead(b []byte, major byte, n uint64) []byte {
	switch {
	case n < 24:
		return append(b, major|byte(n))
	case n <= 0xff:
		return append(b, major|24, byte(n))
	case n <= 0xffff:
		return binary.BigEndian.AppendUint16(append(b, major|25), uint16(n))
	case n <= 0xffffffff:
		return binary.BigEndian.AppendUint32(append(b, major|26), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(b, major|27), n)
}

// DecodePart gives one part of a payload that EncodeParts wrote, or the zero Part
// if it has none of the name. It reads a payload of just that part, kept inline,
// without checking more than its lengths: for payloads whose commitment was checked.
func DecodePart(b []byte, name string) (Part, error) {
	head := append([]byte{cborMap | 1}, encodeKey(partKey(name))...)
	if rest, ok := bytes.CutPrefix(b, head); ok {
		if inline, ok := cutBytes(rest); ok {
			return Part{Inline: inline}, nil
		}
	}
	parts, err := DecodeParts(b)
	return parts[name], err
}

// cutBytes gives the byte string that b is, and nothing else.
func cutBytes(b []byte) ([]byte, bool) {
	inline, rest, ok := takeBytes(b)
	return inline, ok && len(rest) == 0
}

// takeBytes gives the byte string that b begins with, in its shortest form, and the rest.
func takeBytes(b []byte) (inline, rest []byte, ok bool) {
	r := canonicalReader{rest: b}
	inline = r.bytes(cborBytes)
	return inline, r.rest, !r.failed
}

// inlineParts reads a payload in its canonical form whose parts have numbers as keys and are
// kept inline, as most are; nil for others.
func inlineParts(b []byte) map[string]Part {
	if len(b) == 0 || b[0]&0xe0 != cborMap || b[0]&0x1f >= 24 {
		return nil
	}
	n, last := int(b[0]&0x1f), byte(0)
	parts := make(map[string]Part, n)
	for b = b[1:]; len(b) > 0; {
		if b[0] <= last || int(b[0]) >= len(partNumbers) {
			return nil
		}
		inline, rest, ok := takeBytes(b[1:])
		if !ok {
			return nil
		}
		last, b = b[0], rest
		parts[partNumbers[last]] = Part{Inline: inline}
	}
	if len(parts) != n {
		return nil
	}
	return parts
}

// DecodeParts reads only the form that EncodeParts writes.
func DecodeParts(b []byte) (map[string]Part, error) {
	if parts := inlineParts(b); parts != nil {
		return parts, nil
	}
	var m map[any]cbor.RawMessage
	if err := decMode.Unmarshal(b, &m); err != nil {
		return nil, fault.Wrap(fault.StoreCorrupt, err, "a payload cannot be decoded: %s", err)
	}
	parts := make(map[string]Part, len(m))
	for key, raw := range m {
		name, err := partName(key)
		if err != nil {
			return nil, err
		}
		p, err := decodePart(raw)
		if err != nil {
			return nil, fault.Wrap(fault.StoreCorrupt, err, "part %q of a payload cannot be decoded: %s", name, err)
		}
		parts[name] = p
	}
	again, err := EncodeParts(parts)
	if err != nil || m == nil || !bytes.Equal(again, b) {
		return nil, fault.New(fault.StoreCorrupt, "a payload is not in its canonical encoding")
	}
	return parts, nil
}

func decodePart(raw cbor.RawMessage) (Part, error) {
	if len(raw) > 0 && raw[0]>>5 == 2 { // a byte string
		var p Part
		return p, decMode.Unmarshal(raw, &p.Inline)
	}
	var w wireBlob
	if err := decMode.Unmarshal(raw, &w); err != nil {
		return Part{}, err
	}
	if len(w.Address) != 32 || w.Size > 1<<62 {
		return Part{}, fault.New(fault.StoreCorrupt, "a blob reference of %d bytes, size %d", len(w.Address), w.Size)
	}
	ref := &BlobRef{Size: int64(w.Size)}
	copy(ref.Address[:], w.Address)
	return Part{Blob: ref}, nil
}
