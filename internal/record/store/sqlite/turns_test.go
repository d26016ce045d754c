package sqlite_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
)

// Writers of one ledger lose nothing, also where one process keeps the turn or the lock
// of turns is missing: it only shortens waits.
func TestWritersTakeTurns(t *testing.T) {
	tests := map[string]func(t *testing.T, lock string){
		"in turns": func(*testing.T, string) {},
		"while another process keeps the turn": func(t *testing.T, lock string) {
			f := must(os.OpenFile(lock, os.O_RDWR|os.O_CREATE, 0o600))
			t.Cleanup(func() { _ = f.Close() })
			if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
				t.Fatal(err)
			}
		},
		"without a lock": func(t *testing.T, lock string) {
			if err := os.Mkdir(lock, 0o700); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, prepare := range tests {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			if err := must(sqlite.Open(context.Background(), sqlite.Options{Home: home})).Close(); err != nil {
				t.Fatal(err)
			}
			lock := filepath.Join(home, "turn.lock")
			if err := os.Remove(lock); err != nil {
				t.Fatal(err)
			}
			prepare(t, lock)
			const writers, calls = 4, 2
			var all sync.WaitGroup
			for range writers {
				s := openWith(t, sqlite.Options{Home: home})
				s.TurnMillis(10)
				all.Go(func() {
					run := begin(s)
					for i := range calls {
						in, out := call(run, i+1, true)
						must(s.Append(context.Background(), in))
						must(s.Append(context.Background(), out))
					}
				})
			}
			all.Wait()
			r := must(openWith(t, sqlite.Options{Home: home}).Verify(context.Background(), store.VerifyOptions{}))
			if want := uint64(writers * (1 + 2*calls)); r.Events != want || len(r.Problems) > 0 {
				t.Errorf("%d events, want %d; problems %+v", r.Events, want, r.Problems)
			}
		})
	}
}
