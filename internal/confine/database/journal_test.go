package database

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

// hotJournal is a rollback journal that a crash would have left, and that names a file of
// several databases' transaction (https://sqlite.org/fileformat.html#the_rollback_journal). Who
// rolls it back deletes that file.
func hotJournal(names string) []byte {
	magic := []byte{0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7}
	b := append([]byte{}, magic...)
	for _, n := range []uint32{0, 7, 1, 512, 4096} { // records, nonce, pages, sector, page
		b = binary.BigEndian.AppendUint32(b, n)
	}
	b = append(b, make([]byte, 512-len(b))...)
	b = binary.BigEndian.AppendUint32(b, 262145)
	sum := uint32(0)
	for _, c := range []byte(names) {
		sum += uint32(c)
	}
	b = append(b, names...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(names)))
	b = binary.BigEndian.AppendUint32(b, sum)
	return append(b, magic...)
}

// Who may write files beside a database must not have Remit delete others with it: SQLite
// refuses names that it does not give such files itself (since 3.54).
func TestAJournalDeletesNoOtherFile(t *testing.T) {
	for name, use := range map[string]func(d *Database) error{
		"query": func(d *Database) error { _, err := d.Query(t.Context(), "SELECT body FROM notes", nil); return err },
		"execute": func(d *Database) error {
			_, err := d.Execute(t.Context(), "INSERT INTO notes(body) VALUES ('x')", nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			file, victim := makeShopNamed(t, "shop.db"), filepath.Join(t.TempDir(), "keys")
			if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file+"-journal", hotJournal(victim), 0o600); err != nil {
				t.Fatal(err)
			}
			err := use(Open(permitFor(t, databasePolicy(file, "read: ['*'], write: ['*']")), "main", nil))
			if b, rerr := os.ReadFile(victim); rerr != nil || string(b) != "precious" {
				t.Errorf("the other file has %q, %v; the statement: %v", b, rerr, err)
			}
		})
	}
}
