package tables

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"database/sql"
	"errors"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
)

// Unlike events, rows in the tables of grants, budgets and approvals change. Each
// of their rows ends with a MAC over the table's name and all columns before it,
// so that a row that was edited is refused when it is used. Each table also has a
// seal, a row of table seals. It holds the number of rows and a sum of their
// MACs, so that a removed, added or restored older row is found too. The keys are
// the ledger's. They cannot reveal that the whole file is an older copy.

// sealedTable describes a table whose rows carry MACs.
type sealedTable struct {
	name    string
	format  int      // the first one that has the table
	told    bool     // events tell of all its rows
	keys    int      // how many columns, from the first, are the primary key
	columns []string // without mac, which is the last
	events  []int    // columns, see changedBy

	get, put, drop, all string // statements
}

func newSealedTable(format int, name string, keys int, columns []string) *sealedTable {
	where := strings.Join(columns[:keys], " = ? AND ") + " = ?"
	list := strings.Join(columns, ", ") + ", mac"
	var assign strings.Builder
	for _, c := range columns[keys:] {
		assign.WriteString(c + " = excluded." + c + ", ")
	}
	assign.WriteString("mac = excluded.mac")
	return &sealedTable{
		name: name, format: format, keys: keys, columns: columns,
		all:  "SELECT " + list + " FROM " + name,
		get:  "SELECT " + list + " FROM " + name + " WHERE " + where,
		drop: "DELETE FROM " + name + " WHERE " + where,
		put:  "INSERT INTO " + name + "(" + list + ") VALUES(" + strings.Repeat("?, ", len(columns)) + "?) ON CONFLICT(" + strings.Join(columns[:keys], ", ") + ") DO UPDATE SET " + assign.String(),
	}
}

// The sealed tables, with their columns in the order of the schema.
var (
	tableGrants = eventsTell(newSealedTable(SealedFormat, "grants", 1, []string{grantID: "id", grantParent: "parent",
		grantHolder: "holder", grantSeq: "seq"}))
	tableStandings = eventsTell(newSealedTable(SealedFormat, "standings", 1, []string{standingID: "id", standingState: "standing",
		standingSince: "since", standingSeq: "seq"}))
	tableProofs  = newSealedTable(SealedFormat, "proofs", 1, []string{proofID: "id", proofUntil: "until"})
	tableBudgets = newSealedTable(SealedFormat, "budgets", 2, []string{budgetNode: "node", budgetWhat: "what", budgetLimit: "lim",
		budgetSpent: "spent"})
	tableLeases = newSealedTable(SealedFormat, "leases", 3, []string{leaseNode: "node", leaseWhat: "what", leaseRun: "run",
		leaseAmount: "amount", leaseSettled: "settled"})
	tableQuestions = eventsTell(newSealedTable(SealedFormat, "questions", 1, []string{questionID: "id", questionBinding: "binding",
		questionState: "state", questionRun: "run", questionUntil: "until", questionOnce: "once", questionNeeds: "needs",
		questionAdmin: "admin", questionSeq: "seq"}))
	tableVotes = eventsTell(newSealedTable(SealedFormat, "votes", 2, []string{voteQuestion: "question", voteBy: "by",
		voteYes: "yes", voteAdmin: "admin", voteSeq: "seq"}))
	tableAgents = eventsTell(newSealedTable(agentsFormat, "agents", 1, []string{agentID: "id", agentName: "name",
		agentVersion: "version", agentGone: "gone", agentCreated: "created", agentSeq: "seq", agentLeaf: "leaf"}))
	tableSessions = eventsTell(newSealedTable(agentsFormat, "sessions", 1, []string{sessionID: "id", sessionAgent: "agent",
		sessionParent: "parent", sessionVersion: "version", sessionGone: "gone", sessionLast: "last", sessionFiles: "files",
		sessionBytes: "bytes", sessionRuns: "runs", sessionCreated: "created", sessionSeq: "seq", sessionLeaf: "leaf"}))
	tableFiles = eventsTell(newSealedTable(agentsFormat, "files", 2, []string{fileSession: "session", filePath: "path",
		fileVersion: "version", fileFolder: "folder", fileGone: "gone", fileSize: "size", fileDigest: "sha256", fileAddress: "address",
		fileCreated: "created", fileModified: "modified", fileSeq: "seq", fileLeaf: "leaf"}))

	tableRequests = newSealedTable(requestsFormat, "requests", 2, []string{requestHolder: "holder", requestKey: "key",
		requestPrint: "print", requestUntil: "until", requestStatus: "status", requestPlace: "place"})

	tableQueue = changedBy([]int{queueSeq, queueLast, queueRun}, newSealedTable(QueueFormat, "queue", 1, []string{queueID: "id", queueState: "state", queuePriority: "priority",
		queueDue: "due", queueUnique: "uniq", queueRoot: "root", queueRun: "run", queueLast: "last", queueToken: "token", queueSeq: "seq"}))
	tableSlots     = newSealedTable(QueueFormat, "slots", 2, []string{slotRun: "run", slotKey: "key"})
	tableSchedules = eventsTell(newSealedTable(QueueFormat, "schedules", 1, []string{scheduleID: "id", scheduleName: "name",
		scheduleVersion: "version", scheduleState: "state", scheduleGone: "gone", scheduleNext: "next", scheduleLast: "last",
		scheduleToken: "token", scheduleSeq: "seq"}))
	tablePauses = eventsTell(newSealedTable(QueueFormat, "pauses", 1, []string{pauseName: "name", pauseState: "state", pauseSeq: "seq"}))

	tableEphemera = newSealedTable(EphemeraFormat, "ephemera", 2, []string{ephemeralKind: "kind", ephemeralKey: "key", ephemeralOwner: "owner",
		ephemeralVersion: "version", ephemeralUntil: "until", ephemeralData: "data"})

	sealedTables = []*sealedTable{tableGrants, tableStandings, tableProofs, tableBudgets, tableLeases, tableQuestions, tableVotes, tableAgents, tableSessions, tableFiles, tableRequests,
		tableQueue, tableSlots, tableSchedules, tablePauses, tableEphemera, tableLabels}

	// tableMessages has MACs and no seal.
	tableMessages = newSealedTable(agentsFormat, "messages", 2, []string{messageSession: "session", messageNumber: "number",
		messageRun: "run", messageAt: "at", messageSeq: "seq", messageCommit: "commitment"})
)

func eventsTell(t *sealedTable) *sealedTable {
	t.told = true
	return t
}

// changedBy is eventsTell for a table in which each change of a row puts a newer event into one
// of the columns.
func changedBy(events []int, t *sealedTable) *sealedTable {
	t.events = events
	return eventsTell(t)
}

// sealedRow is a row of a sealed table without its MAC: int64, string or []byte
// for each column.
type sealedRow []any

func (r sealedRow) int(i int) int64    { n, _ := r[i].(int64); return n }
func (r sealedRow) text(i int) string  { s, _ := r[i].(string); return s }
func (r sealedRow) bytes(i int) []byte { b, _ := r[i].([]byte); return b }

// scanSealed reads a row of t, or of any query that gives t's columns and then
// mac, and checks its MAC. Even with an error it returns a row of the right
// length.
func (s *Store) scanSealed(t *sealedTable, scan func(...any) error) (sealedRow, []byte, error) {
	row := make(sealedRow, len(t.columns))
	var mac []byte
	into := make([]any, len(row)+1)
	for i := range row {
		into[i] = &row[i]
	}
	into[len(row)] = &mac
	if err := scan(into...); err != nil {
		return row, nil, err
	}
	s.scanned.Add(1)
	if !hmac.Equal(mac, s.keys.rowMAC(t.name, row)) {
		return row, mac, s.notOurs(t)
	}
	for i := range row {
		if b, ok := row[i].([]byte); ok && b == nil { // nil would be written as NULL
			row[i] = []byte{}
		}
	}
	return row, mac, nil
}

func (s *Store) notOurs(t *sealedTable) error {
	return fault.New(fault.StoreCorrupt, "a row of %s in %q was not written by this ledger", t.name, s.name).
		ForOperator("remit verify lists the changed records")
}

// readSealed returns the row of t with this key, or nil if there is none. A row
// whose MAC does not fit is fault.StoreCorrupt.
func (s *Store) readSealed(ctx context.Context, q Querier, t *sealedTable, key ...any) (sealedRow, error) {
	row, _, err := s.scanSealed(t, q.QueryRowContext(ctx, t.get, key...).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return row, err
}

// seal is a row of table seals.
type seal struct {
	version int64 // grows with every transaction that changes the table
	count   int64
	sum     [sha256.Size]byte // XOR of the addends of all rows' MACs
	mac     []byte
	changed bool
}

// addend derives a row's term of the seal's sum from the row's MAC. It uses a
// separate key, so that the sum reveals nothing about the MACs.
func (k *Keys) addend(mac []byte) (out [sha256.Size]byte) {
	m := hmac.New(sha256.New, k.row)
	m.Write([]byte{'S'})
	m.Write(mac)
	m.Sum(out[:0])
	return out
}

func (l *seal) add(k *Keys, mac []byte, n int64) {
	a := k.addend(mac)
	subtle.XORBytes(l.sum[:], l.sum[:], a[:])
	l.count += n
	l.changed = true
}

func (l *seal) row(table string) sealedRow {
	return sealedRow{sealName: table, sealVersion: l.version, sealRows: l.count, sealSum: l.sum[:]}
}

const (
	selectSeal = "SELECT name, version, rows, sum, mac FROM seals WHERE name = ?"
	updateSeal = "UPDATE seals SET version = ?, rows = ?, sum = ?, mac = ? WHERE name = ?"
	insertSeal = "INSERT INTO seals(name, version, rows, sum, mac) VALUES(?, ?, ?, ?, ?)"
)

var tableSeals = newSealedTable(SealedFormat, "seals", 1, []string{sealName: "name", sealVersion: "version", sealRows: "rows", sealSum: "sum"})

// readSeal returns a table's seal. A missing or changed seal is
// fault.StoreCorrupt.
func (s *Store) readSeal(ctx context.Context, q Querier, table string) (seal, error) {
	row, mac, err := s.scanSealed(tableSeals, q.QueryRowContext(ctx, selectSeal, table).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		err = fault.New(fault.StoreCorrupt, "the seal of table %s in %q is missing", table, s.name).ForOperator("remit verify lists the changed records")
	}
	if err != nil {
		return seal{}, err
	}
	l := seal{version: row.int(sealVersion), count: row.int(sealRows), mac: mac}
	copy(l.sum[:], row.bytes(sealSum))
	return l, nil
}

// wholeTable reads all rows of a sealed table and compares them with its seal,
// for use where a row that was removed would do harm. It costs as much as reading
// the whole table. q must see one state of the file.
func (s *Store) wholeTable(ctx context.Context, q Querier, t *sealedTable, take func(sealedRow) error) error {
	want, err := s.readSeal(ctx, q, t.name)
	if err != nil {
		return err
	}
	return s.compareWhole(ctx, q, t, &want, func(row sealedRow, _ []byte) error { return take(row) })
}

// compareWhole is wholeTable for a seal that was read before.
func (s *Store) compareWhole(ctx context.Context, q Querier, t *sealedTable, want *seal, take func(row sealedRow, mac []byte) error) error {
	var got seal
	err := each(ctx, q, t.all, func(rows *sql.Rows) error {
		row, mac, err := s.scanSealed(t, rows.Scan)
		if err != nil {
			return err
		}
		got.add(s.keys, mac, 1)
		return take(row, mac)
	})
	if err == nil && (got.count != want.count || got.sum != want.sum) {
		err = s.sealBroken(t)
	}
	return err
}

func (s *Store) sealBroken(t *sealedTable) error {
	return fault.New(fault.StoreCorrupt, "rows of %s in %q were removed, added or put back", t.name, s.name).
		ForOperator("remit verify lists the changed records")
}

// readSeals returns the seals of all tables, as the log's state has them.
func (w *writer) readSeals(ctx context.Context) (string, error) {
	st, err := w.stmt(ctx, w.s.dialect.Seals)
	if err != nil {
		return "", err
	}
	var seals string
	return seals, st.QueryRowContext(ctx).Scan(&seals)
}

// sealOf returns a table's seal as the writer's transaction sees it. The first time in
// a batch it compares all seals with the log's state, which the batch will replace.
func (w *writer) sealOf(ctx context.Context, t *sealedTable) (*seal, error) {
	if l := w.seals[t.name]; l != nil {
		return l, nil
	}
	if len(w.seals) == 0 {
		if seals, err := w.readSeals(ctx); err != nil {
			return nil, ioError{err}
		} else if seals != w.log.seals {
			return nil, w.s.errNotWritten()
		}
	}
	st, err := w.stmt(ctx, selectSeal)
	if err != nil {
		return nil, ioError{err}
	}
	row, mac, err := w.s.scanSealed(tableSeals, st.QueryRowContext(ctx, t.name).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, w.s.sealBroken(t)
	}
	if err != nil {
		return nil, asIO(err)
	}
	l := &seal{version: row.int(sealVersion), count: row.int(sealRows), mac: mac}
	copy(l.sum[:], row.bytes(sealSum))
	w.seals[t.name] = l
	return l, nil
}

// asIO turns an error without a code, which comes from the disk, into one that
// ends the whole batch.
func asIO(err error) error {
	var coded *fault.Error
	if err == nil || errors.As(err, &coded) {
		return err
	}
	return ioError{err}
}

// row returns the row of t with this key as the transaction sees it, or nil if
// there is none. A row whose MAC does not fit is fault.StoreCorrupt; a failure of
// the disk is an ioError.
func (w *writer) row(ctx context.Context, t *sealedTable, key ...any) (sealedRow, error) {
	row, _, err := w.rowMAC(ctx, t, key...)
	return row, err
}

func (w *writer) rowMAC(ctx context.Context, t *sealedTable, key ...any) (sealedRow, []byte, error) {
	st, err := w.stmt(ctx, t.get)
	if err != nil {
		return nil, nil, ioError{err}
	}
	row, mac, err := w.s.scanSealed(t, st.QueryRowContext(ctx, key...).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil, nil
	}
	return row, mac, asIO(err)
}

// put inserts a row, or replaces the one with its key, and keeps the table's seal
// up to date. Call it from a request's apply, after its check has read the row.
func (w *writer) put(ctx context.Context, t *sealedTable, row sealedRow) error {
	_, old, err := w.rowMAC(ctx, t, row[:t.keys]...)
	if err != nil {
		return err
	}
	return w.replace(ctx, t, old, row)
}

// replace is put for a row whose MAC is known to be old; nil: there is none.
func (w *writer) replace(ctx context.Context, t *sealedTable, old []byte, row sealedRow) error {
	l, err := w.sealOf(ctx, t)
	if err != nil {
		return err
	}
	if old != nil {
		l.add(w.s.keys, old, -1)
	}
	mac := w.s.keys.rowMAC(t.name, row)
	l.add(w.s.keys, mac, 1)
	w.tables[t.name].put(t, row, mac, l)
	_, err = w.exec(ctx, t.put, append(append(make([]any, 0, len(row)+1), row...), mac)...)
	return err
}

// remove deletes the row with this key, if there is one.
func (w *writer) remove(ctx context.Context, t *sealedTable, key ...any) error {
	_, old, err := w.rowMAC(ctx, t, key...)
	if err != nil || old == nil {
		return err
	}
	l, err := w.sealOf(ctx, t)
	if err != nil {
		return err
	}
	l.add(w.s.keys, old, -1)
	w.tables[t.name].remove(key, l)
	_, err = w.exec(ctx, t.drop, key...)
	return err
}

// finishSeals writes the seals of the tables that the batch has changed, and
// updates the log's state for them.
func (w *writer) finishSeals(ctx context.Context, log *logState) error {
	changed := false
	for name, l := range w.seals {
		if !l.changed {
			continue
		}
		changed = true
		l.version++
		mac := w.s.keys.rowMAC(tableSeals.name, l.row(name))
		if _, err := w.exec(ctx, updateSeal, l.version, l.count, l.sum[:], mac, name); err != nil {
			return err
		}
	}
	if !changed {
		return nil
	}
	var err error
	log.seals, err = w.readSeals(ctx)
	return err
}

// MakeSeals writes the seals of the empty tables that a format adds, and updates
// the log's state for them. A state that was tampered with stays invalid.
func (s *Store) MakeSeals(ctx context.Context, tx *sql.Tx, format int) error {
	old := ""
	if format > SealedFormat {
		if err := tx.QueryRowContext(ctx, s.dialect.Seals).Scan(&old); err != nil {
			return err
		}
	}
	for _, t := range sealedTables {
		if t.format != format {
			continue
		}
		l := seal{}
		if _, err := tx.ExecContext(ctx, insertSeal, t.name, 0, 0, l.sum[:], s.keys.rowMAC(tableSeals.name, l.row(t.name))); err != nil {
			return err
		}
	}
	var origin string
	var size int64
	var frontier []byte
	var l logState
	if err := tx.QueryRowContext(ctx, selectOld).Scan(&origin, &size, &frontier, &l.signed, &l.mac, &l.seals); err != nil {
		return err
	}
	l.seals = old
	if intact := s.authenticate(&l, origin, size, frontier) == nil; !intact {
		return nil
	}
	if err := tx.QueryRowContext(ctx, s.dialect.Seals).Scan(&l.seals); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "UPDATE log SET mac = ?", l.sum(s.keys))
	return err
}

// toldColumns are the columns of the event in a query for told.
const toldColumns = ", e.run, e.call, e.tag, e.body, e.salt, e.data"

// scanTold scans t's columns, mac, toldColumns and then more.
func (s *Store) scanTold(t *sealedTable, seq int, tags *tagger, scan func(...any) error, more ...any) (toldRow, error) {
	var l toldRow
	var tag int64
	var err error
	l.row, _, err = s.scanSealed(t, func(into ...any) error {
		return scan(append(append(into, &l.raw.run, &l.raw.call, &tag, &l.raw.body, &l.raw.salt, &l.raw.data), more...)...)
	})
	l.raw.seq = ledger.Seq(l.row.int(seq))
	if err == nil {
		err = s.authentic(&l.raw, tag, tags)
	}
	return l, err
}

// toldRow is a row of a sealed table with the event that records it.
type toldRow struct {
	row sealedRow
	raw rawEvent
}

// readTold reads rows of a sealed table with their events, whose seq is in a column
// of t: the query gives t's columns and mac, then toldColumns. Events are
// decoded later, when the connection is free again: blobs need one too.
func (s *Store) readTold(ctx context.Context, t *sealedTable, seq int, query string, args ...any) ([]toldRow, error) {
	var all []toldRow
	tags := newTagger(s.keys)
	err := each(ctx, s.read, query, func(rows *sql.Rows) error {
		l, err := s.scanTold(t, seq, tags, rows.Scan)
		all = append(all, l)
		return err
	}, args...)
	return all, err
}
