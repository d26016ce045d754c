package e2e_test

import (
	"bytes"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/remitrun/remit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/record/ledger"
)

// rewrite changes an event as somebody would who knows the format and has the
// file, but not the keys: the payload is salted and committed to anew, and all
// that follows from the event is computed again as far as it can be.
func rewrite(t *testing.T, db *sql.DB, seq int64, change func(e *ledger.Event, parts map[string]ledger.Part)) {
	t.Helper()
	row := query(t, db, "SELECT body, data FROM events WHERE seq = ?", seq)[0]
	e, err := ledger.Decode(row[0].([]byte))
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string]ledger.Part{}
	if data, ok := row[1].([]byte); ok {
		if parts, err = ledger.DecodeParts(unpack(t, data)); err != nil {
			t.Fatal(err)
		}
	}
	change(&e, parts)
	salt := make([]byte, ledger.SaltSize)
	_, _ = rand.Read(salt)
	data, err := ledger.EncodeParts(parts)
	if err != nil {
		t.Fatal(err)
	}
	if commit := ledger.Commitment(salt, data); e.Commit != nil {
		e.Commit = commit[:]
	} else {
		salt, data = nil, nil
	}
	body, err := ledger.Encode(&e)
	if err != nil {
		t.Fatal(err)
	}
	execute(t, db, "UPDATE events SET body = ?, salt = ?, data = ?, run = ?, call = ? WHERE seq = ?", body, salt, data, int64(e.Run), int64(e.Call), seq)
	rehash(t, db)
}

func unpack(t *testing.T, data []byte) []byte {
	t.Helper()
	if !bytes.HasPrefix(data, []byte{0x28, 0xb5, 0x2f, 0xfd}) {
		return data
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if data, err = d.DecodeAll(data, nil); err != nil {
		t.Fatal(err)
	}
	return data
}

// rehash computes the tree over the events as they now are, and writes it where
// the ledger keeps it.
func rehash(t *testing.T, db *sql.DB) {
	t.Helper()
	var f ledger.Frontier
	for _, r := range query(t, db, "SELECT body FROM events ORDER BY seq") {
		f.Append(tlog.RecordHash(r[0].([]byte)), func(n ledger.Node) {
			execute(t, db, "UPDATE nodes SET hash = ? WHERE idx = ?", n.Hash[:], tlog.StoredHashIndex(n.Level, n.N))
		})
	}
	execute(t, db, "UPDATE log SET size = ?, frontier = ?", f.Size, f.Bytes())
}

// event finds an event of a run by a word of its body or payload.
func event(t *testing.T, db *sql.DB, match func(e *ledger.Event, parts map[string]ledger.Part) bool) int64 {
	t.Helper()
	for _, r := range query(t, db, "SELECT seq, body, data FROM events ORDER BY seq") {
		e, err := ledger.Decode(r[1].([]byte))
		if err != nil {
			t.Fatal(err)
		}
		parts := map[string]ledger.Part{}
		if data, ok := r[2].([]byte); ok {
			if parts, err = ledger.DecodeParts(unpack(t, data)); err != nil {
				t.Fatal(err)
			}
		}
		if match(&e, parts) {
			return r[0].(int64)
		}
	}
	t.Fatal("no such event")
	return 0
}

// replaced is a part with one text in place of another.
func replaced(t *testing.T, p ledger.Part, old, new string) ledger.Part {
	t.Helper()
	if !bytes.Contains(p.Inline, []byte(old)) {
		t.Fatalf("%q is not in %q", old, p.Inline)
	}
	p.Inline = bytes.Replace(p.Inline, []byte(old), []byte(new), 1)
	return p
}

// attacks are what somebody with the file tries. Each gives the event that
// verify must name, or 0.
var attacks = map[string]struct {
	replay bool // the mixed run must not replay either
	do     func(t *testing.T, db *sql.DB) (event int64)
}{
	"an argument": {true, func(t *testing.T, db *sql.DB) int64 {
		at := event(t, db, func(e *ledger.Event, p map[string]ledger.Part) bool {
			return e.Tool == "fs.read" && e.Effect == policy.Allow
		})
		rewrite(t, db, at, func(_ *ledger.Event, p map[string]ledger.Part) {
			p[ledger.PartArgs] = replaced(t, p[ledger.PartArgs], "notes", "votes")
		})
		return at
	}},
	"a denial becomes a permission": {true, func(t *testing.T, db *sql.DB) int64 {
		at := event(t, db, func(e *ledger.Event, p map[string]ledger.Part) bool {
			return e.Kind == ledger.CallDone && e.Effect == policy.Deny && e.Tool == "fs.read"
		})
		rewrite(t, db, at, func(e *ledger.Event, p map[string]ledger.Part) {
			e.Effect, e.Code, e.Status, e.Rule = policy.Allow, 0, 1, `files.read.allow[0] "**"`
			delete(p, ledger.PartRefusals)
			delete(p, ledger.PartError)
		})
		execute(t, db, "UPDATE runs SET denied = denied - 1, completed = completed + 1 WHERE seq = (SELECT min(seq) FROM runs)")
		return at
	}},
	"an output": {true, func(t *testing.T, db *sql.DB) int64 {
		at := event(t, db, func(e *ledger.Event, p map[string]ledger.Part) bool {
			return bytes.Contains(p[ledger.PartOutput].Inline, []byte("/ok/first"))
		})
		rewrite(t, db, at, func(_ *ledger.Event, p map[string]ledger.Part) {
			p[ledger.PartOutput] = replaced(t, p[ledger.PartOutput], "/ok/first", "/ok/worst")
		})
		return at
	}},
	"what happened": {true, func(t *testing.T, db *sql.DB) int64 {
		at := event(t, db, func(e *ledger.Event, p map[string]ledger.Part) bool {
			return bytes.Contains(p[ledger.PartHappened].Inline, []byte("copy.txt"))
		})
		rewrite(t, db, at, func(_ *ledger.Event, p map[string]ledger.Part) { delete(p, ledger.PartHappened) })
		return at
	}},
	"the policy": {true, func(t *testing.T, db *sql.DB) int64 {
		at := event(t, db, func(e *ledger.Event, _ map[string]ledger.Part) bool { return e.Kind == ledger.RunStarted })
		rewrite(t, db, at, func(_ *ledger.Event, p map[string]ledger.Part) {
			p[ledger.PartPolicy] = replaced(t, p[ledger.PartPolicy], "private", "pirated")
		})
		return at
	}},
	"the time": {true, func(t *testing.T, db *sql.DB) int64 {
		rewrite(t, db, 5, func(e *ledger.Event, _ map[string]ledger.Part) { e.At += 3_600_000_000 })
		return 5
	}},
	"payloads of two runs swapped": {true, func(t *testing.T, db *sql.DB) int64 {
		a := event(t, db, func(e *ledger.Event, p map[string]ledger.Part) bool {
			return bytes.Contains(p[ledger.PartArgs].Inline, []byte("ok/first"))
		})
		b := event(t, db, func(e *ledger.Event, p map[string]ledger.Part) bool {
			return bytes.Contains(p[ledger.PartArgs].Inline, []byte("ok/second"))
		})
		execute(t, db, "UPDATE events SET salt = (SELECT salt FROM events o WHERE o.seq = ?1 + ?2 - events.seq), data = (SELECT data FROM events o WHERE o.seq = ?1 + ?2 - events.seq) WHERE seq IN (?1, ?2)", a, b)
		return a
	}},
	"two events change places": {true, func(t *testing.T, db *sql.DB) int64 {
		execute(t, db, "UPDATE events SET seq = -seq WHERE seq IN (4, 6)")
		execute(t, db, "UPDATE events SET seq = 10 + seq WHERE seq < 0")
		rehash(t, db)
		return 4
	}},
	"an event in the middle deleted": {true, func(t *testing.T, db *sql.DB) int64 {
		execute(t, db, "DELETE FROM events WHERE seq = 7")
		return 7
	}},
	"an event in the middle deleted, the others moved up": {true, func(t *testing.T, db *sql.DB) int64 {
		execute(t, db, "DELETE FROM events WHERE seq = 7")
		execute(t, db, "UPDATE events SET seq = -(seq - 1) WHERE seq > 7")
		execute(t, db, "UPDATE events SET seq = -seq WHERE seq < 0")
		rehash(t, db)
		return 7
	}},
	"an event copied to the end": {false, func(t *testing.T, db *sql.DB) int64 {
		execute(t, db, "INSERT INTO events SELECT (SELECT max(seq) + 1 FROM events), run, call + 1000, tag, body, salt, data FROM events WHERE seq = 4")
		rehash(t, db)
		return 0
	}},
	"the tail cut off": {false, func(t *testing.T, db *sql.DB) int64 {
		execute(t, db, "DELETE FROM events WHERE seq > (SELECT max(seq) - 3 FROM events)")
		execute(t, db, "DELETE FROM checkpoints WHERE size > (SELECT max(seq) FROM events)")
		execute(t, db, "UPDATE log SET signed = (SELECT max(size) FROM checkpoints)")
		execute(t, db, "UPDATE runs SET status = 0, ended = 0 WHERE seq = (SELECT max(seq) FROM runs)")
		rehash(t, db)
		return 0
	}},
	"the last run cut off as if it never was": {false, func(t *testing.T, db *sql.DB) int64 {
		execute(t, db, "DELETE FROM events WHERE seq >= (SELECT max(seq) FROM runs)")
		execute(t, db, "DELETE FROM run_tools WHERE run = (SELECT max(seq) FROM runs)")
		execute(t, db, "DELETE FROM runs WHERE seq = (SELECT max(seq) FROM runs)")
		execute(t, db, "DELETE FROM checkpoints WHERE size > (SELECT max(seq) FROM events)")
		execute(t, db, "DELETE FROM nodes")
		execute(t, db, "UPDATE log SET signed = (SELECT max(size) FROM checkpoints)")
		rehash(t, db)
		return 0
	}},
	"a payload erased without a word": {true, func(t *testing.T, db *sql.DB) int64 {
		execute(t, db, "UPDATE events SET salt = NULL, data = NULL WHERE seq = 4")
		return 4
	}},
	"a run hidden from the list": {false, func(t *testing.T, db *sql.DB) int64 {
		execute(t, db, "DELETE FROM run_tools WHERE run = (SELECT min(seq) FROM runs)")
		execute(t, db, "DELETE FROM runs WHERE seq = (SELECT min(seq) FROM runs)")
		return 0
	}},
	"a run's status": {true, func(t *testing.T, db *sql.DB) int64 {
		execute(t, db, "UPDATE runs SET status = 1, denied = 0, failed = 0, completed = total WHERE seq = (SELECT min(seq) FROM runs)")
		return 0
	}},
	"a blob's bytes and address": {true, func(t *testing.T, db *sql.DB) int64 {
		execute(t, db, "UPDATE blobs SET data = zeroblob(size), enc = 0")
		return 0
	}},
	"the checkpoints": {false, func(t *testing.T, db *sql.DB) int64 {
		execute(t, db, "DELETE FROM checkpoints")
		execute(t, db, "UPDATE log SET signed = 0")
		return 0
	}},
}

func TestSomebodyWithTheFileIsFoundOut(t *testing.T) {
	w := newRecorded(t)
	for name, attack := range attacks {
		t.Run(name, func(t *testing.T) {
			c := w.copied(t)
			db := open(t, c.home)
			back := unguarded(t, db)
			at := attack.do(t, db)
			back()
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			r := c.remit("verify", "--json")
			var v struct {
				OK       bool
				Problems []struct {
					Table, Message string
					Seq            int64
				}
			}
			if r.status != 4 {
				t.Fatalf("verify: status %d\n%s%s", r.status, r.out, r.err)
			}
			decode(t, r.out, &v)
			named := at == 0
			for _, p := range v.Problems {
				named = named || p.Seq == at
			}
			if v.OK || !named {
				t.Errorf("event %d is not named: %s", at, r.out)
			}
			if !attack.replay {
				return
			}
			r = c.remit("replay", w.mixed)
			if r.status != 4 || !strings.Contains(r.err, "E400") {
				t.Errorf("replay: status %d\n%s%s", r.status, r.out, r.err)
			}
		})
	}
}

// TestAnOldCopyIsFoundByAKeptCheckpoint puts an older state of the whole file
// back, which nothing in the file itself can tell.
func TestAnOldCopyIsFoundByAKeptCheckpoint(t *testing.T) {
	w := newRecorded(t)
	old := w.copied(t)
	keep := func(name string) (note []byte, file string) {
		rt, err := remit.Open(t.Context(), remit.Options{Home: w.home, Workspace: w.workspace, Environ: w.environ()})
		if err != nil {
			t.Fatal(err)
		}
		if note, err = rt.Checkpoint(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := rt.Close(); err != nil {
			t.Fatal(err)
		}
		return note, w.beside(name, string(note))
	}
	_, before := keep("before.note")
	again := w.plan("again", 1, call{Tool: "time.now"}, call{Tool: "fs.write", Args: args("path", "out/again", "content", "again")})
	w.must(0, "run", again, "-p", w.policy, "-w", w.workspace)
	note, after := keep("after.note")

	w.must(0, "verify", "--checkpoint", before)
	w.must(0, "verify", "--checkpoint", after)
	old.must(0, "verify") // whole in itself
	old.must(0, "verify", "--checkpoint", before)
	if r := old.remit("verify", "--checkpoint", after); r.status != 4 {
		t.Errorf("an old copy passes: status %d\n%s%s", r.status, r.out, r.err)
	}
	rt := old.runtime()
	if _, err := rt.Verify(t.Context(), remit.VerifyOptions{Checkpoint: note}); !errors.Is(err, remit.VerifyFailed) {
		t.Errorf("an old copy passes: %v", err)
	}

	// The old copy goes on as if nothing had been: longer, but another history.
	old.workspace = w.workspace
	for range 3 {
		old.must(0, "run", again, "-p", w.policy, "-w", w.workspace)
	}
	old.must(0, "verify")
	if r := old.remit("verify", "--checkpoint", after); r.status != 4 || !strings.Contains(r.out, "checkpoint") {
		t.Errorf("another history passes: status %d\n%s%s", r.status, r.out, r.err)
	}

	// A ledger that was thrown away and begun anew with the same keys.
	gone := w.copied(t)
	for _, f := range []string{"remit.db", "remit.db-wal", "remit.db-shm"} {
		if err := os.Remove(filepath.Join(gone.home, f)); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if r := gone.remit("verify", "--checkpoint", after); r.status == 0 {
		t.Errorf("an empty ledger passes: %s", r.out)
	}

	// A checkpoint that is not this ledger's proves nothing.
	other := newWorld(t)
	other.must(0, "run", other.plan("one", 1, call{Tool: "time.now"}), "-p", w.policy, "-w", other.workspace)
	for name, file := range map[string]string{
		"another ledger's": after, "nonsense": other.beside("x.note", "nonsense\n"),
		"a forged one": other.beside("y.note", strings.Replace(string(note), "\n", "1\n", 2)),
	} {
		in := other
		if name == "a forged one" {
			in = w.world
		}
		if r := in.remit("verify", "--checkpoint", file); r.status == 0 {
			t.Errorf("%s checkpoint is taken: %s", name, r.out)
		}
	}
}

// TestAnotherLedgersKeysFitNothing puts the file of one ledger beside the keys
// of another.
func TestAnotherLedgersKeysFitNothing(t *testing.T) {
	w := newRecorded(t)
	other := newWorld(t)
	other.must(0, "run", other.plan("one", 1, call{Tool: "time.now"}), "-p", w.policy, "-w", other.workspace)
	c := w.copied(t)
	b, err := os.ReadFile(filepath.Join(other.home, "remit.db"))
	if err == nil {
		err = os.WriteFile(filepath.Join(c.home, "remit.db"), b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range [][]string{{"verify"}, {"run", w.plan("one", 1, call{Tool: "time.now"}), "-p", w.policy, "-w", w.workspace}} {
		if r := c.remit(cmd...); r.status != 4 && r.status != 5 {
			t.Errorf("%v: status %d\n%s%s", cmd, r.status, r.out, r.err)
		}
	}
}

// TestTheTailThatNobodySignedIsGuardedToo changes what a run wrote that was
// killed before a checkpoint could cover it.
func TestTheTailThatNobodySignedIsGuardedToo(t *testing.T) {
	w := newWorld(t).durability("process")
	_, arrived := w.hold()
	policy := w.beside("policy.yaml", strings.Replace(fmt.Sprintf(crashPolicy, 0), "127.0.0.1:0", w.server, 1))
	calls := append(crashSteps(6), call{Tool: "http.get", Args: args("url", "http://"+w.server+"/hold")})
	victim := w.start("run", w.plan("victim", 1, calls...), "-p", policy, "-w", w.workspace)
	<-arrived
	killAfter(t, victim, 0)
	argument := func(t *testing.T, db *sql.DB) {
		at := event(t, db, func(_ *ledger.Event, p map[string]ledger.Part) bool {
			return bytes.Contains(p[ledger.PartArgs].Inline, []byte("edited"))
		})
		rewrite(t, db, at, func(_ *ledger.Event, p map[string]ledger.Part) {
			p[ledger.PartArgs] = replaced(t, p[ledger.PartArgs], "edited", "credited")
		})
	}
	tail := map[string]func(t *testing.T, db *sql.DB){
		"an argument": argument,
		"an argument, the log left alone": func(t *testing.T, db *sql.DB) {
			was := query(t, db, "SELECT frontier FROM log")[0][0]
			argument(t, db)
			execute(t, db, "UPDATE log SET frontier = ?", was)
		},
		"the end cut off": func(t *testing.T, db *sql.DB) {
			execute(t, db, "DELETE FROM events WHERE seq > 8")
			rehash(t, db)
		},
		"the end cut off, the log left alone": func(t *testing.T, db *sql.DB) { execute(t, db, "DELETE FROM events WHERE seq > 8") },
		"all cut off": func(t *testing.T, db *sql.DB) {
			for _, tb := range []string{"events", "runs", "run_tools", "nodes", "checkpoints", "blobs"} {
				execute(t, db, "DELETE FROM "+tb)
			}
			execute(t, db, "UPDATE log SET signed = 0")
			rehash(t, db)
		},
	}
	for name, do := range tail {
		t.Run(name, func(t *testing.T) {
			c := &world{t: t, home: t.TempDir(), workspace: w.workspace}
			copyHome(t, w.home, c.home)
			db := open(t, c.home)
			back := unguarded(t, db)
			do(t, db)
			back()
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			for range 2 { // also once the dead run was closed, and the end signed
				if r := c.remit("verify"); r.status != 4 {
					t.Errorf("verify: status %d\n%s%s", r.status, r.out, r.err)
				}
			}
		})
	}
	w.must(0, "verify")
}
