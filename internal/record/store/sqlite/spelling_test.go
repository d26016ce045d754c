package sqlite_test

import (
	"bytes"
	"context"
	"database/sql"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
)

// One payload can be compressed in several ways. The commitment covers only the
// uncompressed content, so another check must find a changed compressed form.
func TestVerifyNamesAnotherSpellingOfAPayload(t *testing.T) {
	home := t.TempDir()
	s := must(sqlite.Open(context.Background(), sqlite.Options{Home: home, Durability: sqlite.Process}))
	intent, outcome := call(begin(s), 1, false)
	intent.Payload[ledger.PartArgs] = bytes.Repeat([]byte(`{"path":"out/a.txt"}`), 40)
	must(s.Append(context.Background(), intent))
	must(s.Append(context.Background(), outcome))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var was []byte
	d := db(t, home)
	if err := d.QueryRow("SELECT data FROM events WHERE seq = 2").Scan(&was); err != nil {
		t.Fatal(err)
	}
	d.Close()
	dec := must(zstd.NewReader(nil))
	defer dec.Close()
	says := must(dec.DecodeAll(was, nil))
	others := 0
	for bit := range 8 * len(was) {
		is := bytes.Clone(was)
		is[bit/8] ^= 1 << (bit % 8)
		if got, err := dec.DecodeAll(is, nil); err != nil || !bytes.Equal(got, says) {
			continue // it says something else, or nothing: other tests are about that
		}
		others++
		changed := forge(t, home, func(d *sql.DB) { must(d.Exec("UPDATE events SET data = ? WHERE seq = 2", is)) })
		if r := verify(t, changed, store.VerifyOptions{}); !named(r, "events", 2) {
			t.Errorf("bit %d flipped: problems %+v; want event 2", bit, r.Problems)
		}
	}
	if others == 0 {
		t.Error("no other spelling was found; the test shows nothing")
	}
}
