package tables

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
)

// storedLevel is the lowest level of the Merkle tree whose nodes are stored.
// Lower nodes are computed from at most 256 events when a proof needs them.
const storedLevel = 8

// logState is the one row of table log: the newest state of the log.
type logState struct {
	ledger.Frontier
	signed int64  // size of the newest signed checkpoint
	seals  string // of all sealed tables, see Dialect.Seals; "" in formats that have none
	mac    []byte
}

// sum authenticates the state under the ledger's key. It reveals a tail that was
// rewritten after the newest checkpoint, and a table that was restored to an
// older state together with its seal.
func (l *logState) sum(k *Keys) []byte { return l.sumIn(k, k.ring.Load().epoch()) }

// sumIn is sum while the key of an epoch signs.
func (l *logState) sumIn(k *Keys, epoch string) []byte {
	m := k.logMACs.Get().(hash.Hash)
	defer k.logMACs.Put(m)
	m.Reset()
	m.Write([]byte(k.origin))
	var n [16]byte
	binary.BigEndian.PutUint64(n[:8], uint64(l.Size))
	binary.BigEndian.PutUint64(n[8:], uint64(l.signed))
	m.Write(n[:])
	m.Write(l.Bytes())
	m.Write([]byte(l.seals)) // since size determines the length of everything before it
	m.Write([]byte(epoch))   // empty, or begins with a byte that seals do not have
	return m.Sum(nil)
}

// hasSeal reports whether a table's present seal has this MAC.
func (l *logState) hasSeal(table string, mac []byte) bool {
	return strings.Contains(" "+l.seals+" ", fmt.Sprintf(" %s %X ", table, mac))
}

const (
	selectOld = "SELECT origin, size, frontier, signed, mac, '' FROM log WHERE id = 1" // without the seals, which formats before SealedFormat lack
)

// readLog reads and authenticates the newest state.
func (s *Store) readLog(ctx context.Context, q Querier) (logState, error) {
	var origin string
	var size int64
	var frontier []byte
	var l logState
	query := s.dialect.selectLog()
	if s.format < SealedFormat {
		query = selectOld
	}
	into := []any{&origin, &size, &frontier, &l.signed, &l.mac, &l.seals}
	err := q.QueryRowContext(ctx, query).Scan(into...)
	if s.db.Failed(err) { // the table of seals is missing, so it was changed
		err = q.QueryRowContext(ctx, selectOld).Scan(into...)
	}
	if err != nil {
		return l, err
	}
	return l, s.authenticate(&l, origin, size, frontier)
}

func (s *Store) authenticate(l *logState, origin string, size int64, frontier []byte) error {
	if origin != s.keys.origin {
		return fault.New(fault.StoreFailed, "%q is ledger %q, but the key is of %q", s.name, origin, s.keys.origin).
			WithHint("put the key that belongs to it into the folder keys")
	}
	var err error
	if l.Frontier, err = ledger.ParseFrontier(size, frontier); err != nil {
		return err
	}
	if !s.keys.wrote(l) {
		return s.errNotWritten()
	}
	return nil
}

func (s *Store) errNotWritten() error {
	return fault.New(fault.StoreCorrupt, "the state of the log in %q was not written by this ledger", s.name).
		ForOperator("remit verify lists the changed records; if the ledger's key was rotated on another node, copy its folder keys")
}

// sign makes a checkpoint of the state.
func (s *Store) sign(l *logState) ([]byte, error) {
	c := ledger.Checkpoint{Origin: s.keys.origin, Size: l.Size, Root: l.Root(), Prev: l.signed}
	return note.Sign(&note.Note{Text: c.String()}, s.keys.pair())
}

// index returns a node's storage index, in tlog's numbering.
func index(n ledger.Node) int64 { return tlog.StoredHashIndex(n.Level, n.N) }

// tagged is the number of an event that its tag covers: 0 where the writer does not know
// the number.
func (s *Store) tagged(seq ledger.Seq) ledger.Seq {
	if s.shared != nil {
		return 0
	}
	return seq
}

// tagger makes the tags of events, over their stored bytes. The stored bytes
// matter because one payload can be compressed in several ways, and its
// commitment covers only the uncompressed content. Tags only help to locate a
// change. The signed roots and the log's MAC authenticate the events. A tagger is
// for one goroutine.
type tagger struct {
	mac hash.Hash
	buf [sha256.Size]byte
}

func newTagger(k *Keys) *tagger { return &tagger{mac: hmac.New(sha256.New, k.tag)} }

func (t *tagger) tag(seq ledger.Seq, body, salt, data []byte) int64 {
	t.mac.Reset()
	binary.BigEndian.PutUint64(t.buf[:8], uint64(seq))
	binary.BigEndian.PutUint64(t.buf[8:16], uint64(len(body)))
	binary.BigEndian.PutUint64(t.buf[16:24], uint64(len(salt)))
	t.mac.Write(t.buf[:24])
	t.mac.Write(body)
	t.mac.Write(salt)
	t.mac.Write(data)
	return int64(binary.BigEndian.Uint32(t.mac.Sum(t.buf[:0])) >> 1) // SQLite keeps it in 4 bytes
}
