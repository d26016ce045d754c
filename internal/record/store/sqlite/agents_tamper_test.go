package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
)

// agentTables lists the tables of agents and sessions, each with the number of
// its key columns.
var agentTables = map[string]int{"agents": 1, "sessions": 1, "messages": 2, "files": 2, "session_runs": 2, "seals": 1}

var room = store.Quota{Bytes: 1 << 20, Files: 100}

// agents is a ledger with rows in every table of agents and sessions: agents 1 to
// 3, and sessions 11 to 13 with 5 messages, 3 files and a run each.
func agents(t *testing.T) string {
	t.Helper()
	ctx, home := context.Background(), t.TempDir()
	s := must(sqlite.Open(ctx, sqlite.Options{Home: home, Durability: sqlite.Process}))
	at := ledger.Time(1_700_000_000_000_000)
	for i := byte(1); i <= 3; i++ {
		a := must(s.SaveAgent(ctx, store.AgentRecord{ID: id(i), Name: fmt.Sprint("agent ", i), Doc: []byte(`{"v":1}`), By: "user:ann", Saved: at}))
		a.Doc = []byte(`{"v":2}`)
		must(s.SaveAgent(ctx, a))
	}
	for i := byte(11); i <= 13; i++ {
		r := store.SessionRecord{ID: id(i), Agent: id(i - 10), Doc: []byte(`{"v":1}`), By: "user:ann", Saved: at}
		if i > 11 {
			r.Parent = id(i - 1)
		}
		r = must(s.SaveSession(ctx, r))
		run, session := uuid.Must(uuid.NewV7()), id(i)
		seq := must(s.Append(ctx, ledger.Entry{Event: ledger.Event{Kind: ledger.RunStarted, At: 1, ID: run[:], Mode: ledger.Live, Subject: session[:]}}))
		for n := range 5 {
			m := message(n)
			m.Run, m.At = seq, at
			must(s.AddMessages(ctx, session, n, m))
		}
		must(s.ChangeFiles(ctx, session, room, store.FileChange{Path: "/d", Folder: true, At: at}, store.FileChange{Path: "/d/x", Content: []byte("first"), At: at}, store.FileChange{Path: "/y", Content: []byte("y"), At: at}))
		must(s.ChangeFiles(ctx, session, room, store.FileChange{Path: "/d/x", Was: 1, Content: fmt.Appendf(nil, "second of %d", i), At: at}, store.FileChange{Path: "/y", Was: 1, Delete: true, At: at}))
		r.Doc = []byte(`{"v":2}`)
		must(s.SaveSession(ctx, r))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if r := verify(t, home, store.VerifyOptions{}); len(r.Problems) > 0 {
		t.Fatalf("the fixture is not sound: %+v", r.Problems)
	}
	return home
}

func TestVerifyNamesEveryChangeOfWhatAgentsLeave(t *testing.T) {
	namesEveryChange(t, agents(t), agentTables)
}

// again changes agent 1 and session 11 of the fixture.
func again(t *testing.T, home string) {
	t.Helper()
	ctx := context.Background()
	s := must(sqlite.Open(ctx, sqlite.Options{Home: home, Durability: sqlite.Process}))
	a := must(s.Agent(ctx, id(1).String()))
	a.Doc = []byte(`{"v":3}`)
	must(s.SaveAgent(ctx, a))
	must(s.AddMessages(ctx, id(11), 5, message(6), message(7)))
	must(s.ChangeFiles(ctx, id(11), room, store.FileChange{Path: "/d/x", Was: 2, Content: []byte("third")}, store.FileChange{Path: "/z"}))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// A row that this ledger itself once wrote has a MAC that fits.
func TestVerifyNamesWhatAgentsLeftPutBack(t *testing.T) {
	before := agents(t)
	after := forge(t, before, func(*sql.DB) {})
	again(t, after)
	old := db(t, before)
	defer old.Close()
	for _, table := range []string{"agents", "sessions", "messages", "files"} {
		home := forge(t, after, func(d *sql.DB) { restore(t, d, table, query(t, old, "SELECT * FROM "+table)) })
		if r := verify(t, home, store.VerifyOptions{}); !named(r, table, 0) {
			t.Errorf("%s: problems %+v; want one in it", table, r.Problems)
		}
		home = forge(t, after, func(d *sql.DB) { // with all tables and seals as they were
			for _, other := range []string{"agents", "sessions", "messages", "files", "seals"} {
				restore(t, d, other, query(t, old, "SELECT * FROM "+other))
			}
		})
		if r := verify(t, home, store.VerifyOptions{}); !named(r, table, 0) || !named(r, "log", 0) {
			t.Errorf("all as it was: problems %+v; want some in log and in %s", r.Problems, table)
		}
	}
}

// forgeEvent rewrites an event as an attacker without the keys can: its payload,
// and a body that commits to the payload.
func forgeEvent(t *testing.T, d *sql.DB, seq any, change func(parts map[string]ledger.Part)) {
	t.Helper()
	var body, salt, data []byte
	if err := d.QueryRow("SELECT body, salt, data FROM events WHERE seq = ?", seq).Scan(&body, &salt, &data); err != nil {
		t.Fatal(err)
	}
	e, parts := must(ledger.Decode(body)), must(ledger.DecodeParts(data))
	change(parts)
	data = must(ledger.EncodeParts(parts))
	c := ledger.Commitment(salt, data)
	e.Commit = c[:]
	must(d.Exec("UPDATE events SET body = ?, data = ? WHERE seq = ?", must(ledger.Encode(&e)), data, seq))
}

func TestWhatAgentsLeftIsRefusedWhereItWasChanged(t *testing.T) {
	ctx, from := context.Background(), agents(t)
	exec := func(script string) func(*sql.DB) { return func(d *sql.DB) { must(d.Exec(script)) } }
	event := func(what string) func(*sql.DB) {
		return func(d *sql.DB) {
			for _, row := range query(t, d, what) {
				forgeEvent(t, d, row[0], func(parts map[string]ledger.Part) {
					parts[ledger.PartDoc] = ledger.Part{Inline: []byte(strings.NewReplacer(`"v":2`, `"v":9`, "message", "massage", "/d/x", "/d/z").Replace(string(parts[ledger.PartDoc].Inline)))}
				})
			}
		}
	}
	session := id(11)
	agent := func(s *sqlite.Store) error { _, err := s.Agent(ctx, id(1).String()); return err }
	read := func(s *sqlite.Store) error { _, err := s.Session(ctx, session.String()); return err }
	messages := func(s *sqlite.Store) error {
		for _, err := range s.Messages(ctx, session, 0, false) {
			if err != nil {
				return err
			}
		}
		return nil
	}
	newest := func(s *sqlite.Store) error {
		for _, err := range s.Messages(ctx, session, 0, true) {
			return err
		}
		return nil
	}
	add := func(s *sqlite.Store) error { _, err := s.AddMessages(ctx, session, 5, message(5)); return err }
	tree := func(s *sqlite.Store) error { _, err := s.FileTree(ctx, session); return err }
	file := func(version int) func(*sqlite.Store) error {
		return func(s *sqlite.Store) error {
			f, err := s.File(ctx, session, "/d/x", version)
			if err == nil {
				_, err = s.LoadFile(ctx, f)
			}
			return err
		}
	}
	change := func(s *sqlite.Store) error {
		_, err := s.ChangeFiles(ctx, session, room, store.FileChange{Path: "/d/x", Was: 2, Content: []byte("third")})
		return err
	}
	runs := func(s *sqlite.Store) error { _, err := s.SessionRuns(ctx, session); return err }
	const mine = " WHERE session = x'0b00000000007000800000000000000b'"
	tests := map[string]struct {
		change func(*sql.DB)
		use    func(s *sqlite.Store) error
	}{
		"an agent's name":              {exec("UPDATE agents SET name = 'other'"), agent},
		"an agent's older event":       {exec("UPDATE agents SET seq = seq - 1"), agent},
		"an agent's document":          {event("SELECT seq FROM agents"), agent},
		"an agent in a list":           {event("SELECT seq FROM agents"), func(s *sqlite.Store) error { _, err := s.Agents(ctx, store.PageFilter{}); return err }},
		"a session's parent":           {exec("UPDATE sessions SET parent = agent"), read},
		"a session's document":         {event("SELECT seq FROM sessions"), read},
		"a session in a list":          {event("SELECT seq FROM sessions"), func(s *sqlite.Store) error { _, err := s.Sessions(ctx, store.SessionFilter{}); return err }},
		"how many messages there are":  {exec("UPDATE sessions SET last = 3"), messages},
		"a message":                    {event("SELECT seq FROM messages" + mine + " AND number = 3"), messages},
		"the newest message":           {event("SELECT seq FROM messages" + mine + " AND number = 5"), newest},
		"a message's time":             {exec("UPDATE messages SET at = 5"), messages},
		"a message removed":            {exec("DELETE FROM messages" + mine + " AND number = 3"), messages},
		"the last message removed":     {exec("DELETE FROM messages" + mine + " AND number = 5"), messages},
		"the newest message removed":   {exec("DELETE FROM messages" + mine + " AND number = 5"), newest},
		"all messages removed":         {exec("DELETE FROM messages"), messages},
		"a message's event removed":    {exec("DELETE FROM events WHERE seq = (SELECT seq FROM messages" + mine + " AND number = 3)"), messages},
		"messages that changed places": {exec("UPDATE messages SET number = -number" + mine + "; UPDATE messages SET number = 6 + number" + mine), messages},
		"another session's messages": {exec("DELETE FROM messages" + mine + "; UPDATE messages SET session = x'0b00000000007000800000000000000b' WHERE session = x'0c00000000007000800000000000000c'"),
			messages},
		"a session that gets a message": {exec("UPDATE sessions SET agent = zeroblob(16)"), add},
		"a file's size":                 {exec("UPDATE files SET size = 0"), tree},
		"a file removed":                {exec("DELETE FROM files WHERE path = '/d/x'"), tree},
		"a deletion taken back":         {exec("UPDATE files SET gone = 0"), tree},
		"a session's size":              {exec("UPDATE sessions SET bytes = 0"), tree},
		"a file's older version":        {exec("UPDATE files SET version = 1"), file(0)},
		"a file's content":              {exec("UPDATE blobs SET data = x'00'"), file(0)},
		"another file's content":        {exec("UPDATE files SET address = zeroblob(32)"), file(0)},
		"an older version's event":      {event("SELECT seq - 2 FROM files" + mine + " AND path = '/d/x'"), file(1)},
		"an older version's removed":    {exec("DELETE FROM events WHERE seq = (SELECT seq - 2 FROM files" + mine + " AND path = '/d/x')"), file(1)},
		"a file that is to change":      {exec("UPDATE files SET size = 0"), change},
		"what a session holds":          {exec("UPDATE sessions SET files = 0"), change},
		"no seal":                       {exec("DELETE FROM seals WHERE name = 'files'"), change},
		"a run removed":                 {exec("DELETE FROM session_runs"), runs},
		"another session's run":         {exec("UPDATE session_runs SET session = x'0b00000000007000800000000000000b'"), runs},
		"how many runs there are":       {exec("UPDATE sessions SET runs = 0"), runs},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			home := forge(t, from, tt.change)
			s := must(sqlite.Open(ctx, sqlite.Options{Home: home, Durability: sqlite.Process}))
			if err := tt.use(s); !errors.Is(err, fault.StoreCorrupt) {
				t.Errorf("%v, want %v", err, fault.StoreCorrupt)
			}
			if strings.Contains(name, "event removed") || strings.Contains(name, "no seal") {
				_ = s.Close() // it cannot sign what was removed
				return
			}
			if _, err := s.SaveAgent(ctx, store.AgentRecord{ID: id(99), Name: "new"}); err != nil { // others are unaffected
				t.Errorf("another agent: %v", err)
			}
			_ = s.Close() // an event that was rewritten cannot be signed
			if r := verify(t, home, store.VerifyOptions{}); len(r.Problems) == 0 {
				t.Error("verify finds nothing")
			}
		})
	}
}

// Verification of one run also covers its messages.
func TestVerifyOfARunNamesItsMessages(t *testing.T) {
	from := agents(t)
	d := db(t, from)
	run := must(uuid.FromBytes(query(t, d, "SELECT id FROM runs ORDER BY seq LIMIT 1")[0][0].([]byte)))
	d.Close()
	if r := verify(t, from, store.VerifyOptions{Run: run}); len(r.Problems) > 0 || r.Events != 6 {
		t.Fatalf("the fixture's run is not sound: %+v", r)
	}
	home := forge(t, from, func(d *sql.DB) {
		seq := query(t, d, "SELECT max(seq) FROM messages WHERE session = x'0b00000000007000800000000000000b'")[0][0]
		forgeEvent(t, d, seq, func(parts map[string]ledger.Part) { parts[ledger.PartDoc] = ledger.Part{Inline: []byte("{}")} })
	})
	if r := verify(t, home, store.VerifyOptions{Run: run}); !named(r, "events", 0) {
		t.Errorf("problems %+v; want one in events", r.Problems)
	}
}

func TestAgentTablesAreAllTried(t *testing.T) {
	d := db(t, agents(t))
	defer d.Close()
	var got []string
	for _, r := range query(t, d, "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'") {
		name := r[0].(string)
		_, sealed := sealedTables[name]
		_, agent := agentTables[name]
		_, queue := queueTables[name]
		_, label := labelTables[name]
		if !sealed && !agent && !queue && !label && name != "pauses" && name != "erasing" && !slices.Contains(tables, name) {
			got = append(got, name)
		}
	}
	if got != nil {
		t.Errorf("no test changes the tables %v", got)
	}
}
