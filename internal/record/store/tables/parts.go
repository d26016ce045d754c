package tables

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/remitrun/remit/internal/record/ledger"
)

// EventsAndPayloads names, in a statement, table events with its columns salt and data. A
// database that keeps payloads in parts replaces it. An alias follows.
const EventsAndPayloads = "events /* and payloads */"

// Part numbers the payloads of one class and month. A database with parts keeps each in a
// table of its own, which it can drop as a whole.
type Part int64

const (
	// NoPart is that of an event without a payload.
	NoPart Part = 0
	// KeptPart has the payloads that are kept for good or longer than the rest of their part.
	KeptPart Part = 1
)

// Class decides how long payloads are kept.
type Class int64

// The classes of payloads that have a retention of their own.
const (
	RunPayloads     Class = 2 // erased with a run
	SessionPayloads Class = 3 // erased with a session
)

// String names the class, for names of tables.
func (c Class) String() string { return [...]string{"", "kept", "runs", "sessions"}[c&3] }

// lastMonth bounds months: those of years up to 9999.
const lastMonth = (10000 - 1970) * 12

// PartFor returns the part of a class for the month of a time.
func PartFor(c Class, at time.Time) Part {
	month := (at.UTC().Year()-1970)*12 + int(at.UTC().Month()) - 1
	if month < 0 || month >= lastMonth {
		return KeptPart
	}
	return Part(month)<<2 | Part(c)
}

// Class returns the class of a part's payloads.
func (p Part) Class() Class { return Class(p & 3) }

// Month returns the begin of a part's month.
func (p Part) Month() time.Time { return time.Date(1970, time.Month(p>>2)+1, 1, 0, 0, 0, 0, time.UTC) }

// String names the part, as runs_202611.
func (p Part) String() string {
	if p == KeptPart {
		return KeptPart.Class().String()
	}
	return fmt.Sprintf("%s_%s", p.Class(), p.Month().Format("200601"))
}

// PartOf returns the part of an event's payload.
func PartOf(e *ledger.Event) Part {
	switch class := classOf(e); {
	case e.Commit == nil:
		return NoPart
	case class == 0:
		return KeptPart
	default:
		return PartFor(class, time.UnixMicro(e.At))
	}
}

// classOf is the class of an event's payload; 0: it is never erased. Events of grants and of
// operators never are: they tell the authority that each person had.
func classOf(e *ledger.Event) Class {
	switch {
	case e.Kind == ledger.RunStarted || e.Kind == ledger.RunQueued || e.Kind == ledger.QueueChanged:
		return RunPayloads
	case e.Kind == ledger.SessionSaved || e.Kind == ledger.MessageAdded || e.Kind == ledger.FileSaved:
		return SessionPayloads
	case e.Run != 0 && (e.Kind.OfCall() || e.Kind == ledger.RunFinished || e.Kind == ledger.Changeset || e.Kind == ledger.Violation ||
		e.Kind == ledger.QuestionAsked || e.Kind == ledger.QuestionVoted || e.Kind == ledger.QuestionClosed):
		return RunPayloads
	}
	return 0
}

// Parts is a database that keeps payloads in parts.
type Parts interface {
	// Parts lists the parts that can be dropped.
	Parts(ctx context.Context) ([]Part, error)
	// LockPart keeps everybody else from the payloads, until the end of conn's transaction. It
	// returns the last event that has a payload in the part. With ErrPartInUse nothing is locked.
	LockPart(ctx context.Context, conn *sql.Conn, p Part) (last ledger.Seq, err error)
	// DropPart removes the payloads of a part that is locked, except some that move to KeptPart.
	// From then on EventsAndPayloads gives the mark as the data of its events.
	DropPart(ctx context.Context, conn *sql.Conn, p Part, keep []ledger.Seq, mark []byte) error
}

// ErrPartInUse is the error of Parts.LockPart while somebody reads payloads for a long time.
var ErrPartInUse = errors.New("the payloads are in use")

// droppedHead begins the mark that stands for the payloads of a part that was dropped. No
// payload and no other mark begins with it.
const droppedHead = 0xf7

// droppedSize is the length of such a mark: head, part, last event, MAC.
const droppedSize = 1 + 8 + 8 + 16

// droppedMark stands for the payloads of a part up to an event: only the ledger can write it.
func (k *Keys) droppedMark(p Part, last ledger.Seq) []byte {
	out := binary.BigEndian.AppendUint64([]byte{droppedHead}, uint64(p))
	out = binary.BigEndian.AppendUint64(out, uint64(last))
	m := hmac.New(sha256.New, k.row)
	m.Write([]byte("dropped payloads\n"))
	m.Write(out)
	return append(out, m.Sum(nil)[:16]...)
}

// isDropped reports whether an event's payload was dropped with its part.
func (s *Store) isDropped(r *rawEvent, e *ledger.Event) bool {
	if r.salt != nil || len(r.data) != droppedSize || r.data[0] != droppedHead {
		return false
	}
	p, last := Part(binary.BigEndian.Uint64(r.data[1:])), ledger.Seq(binary.BigEndian.Uint64(r.data[9:]))
	return r.seq <= last && p == PartOf(e) && hmac.Equal(r.data, s.keys.droppedMark(p, last))
}

// isMark reports whether data stands in the place of a payload.
func isMark(salt, data []byte) bool {
	return salt == nil && (bytes.HasPrefix(data, []byte{erasedHead}) || bytes.HasPrefix(data, []byte{droppedHead}))
}
