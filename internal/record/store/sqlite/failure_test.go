package sqlite_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
)

func TestAFullDiskLosesNothingThatWasAcknowledged(t *testing.T) {
	s := openWith(t, sqlite.Options{Home: t.TempDir()})
	run := begin(s)
	s.LimitPages(60)
	acknowledged := 0
	var failed error
	for i := 1; i <= 200 && failed == nil; i++ {
		in, out := call(run, i, true)
		in.Payload[ledger.PartArgs] = make([]byte, 3000)
		_, _ = rand.Read(in.Payload[ledger.PartArgs])
		if _, failed = s.Append(context.Background(), in, out); failed == nil {
			acknowledged++
		}
	}
	if !errors.Is(failed, fault.StoreFull) {
		t.Fatalf("a full disk gives %v, want %v", failed, fault.StoreFull)
	}
	s.LimitPages(0)
	in, out := call(run, 500, true)
	must(s.Append(context.Background(), in, out)) // space is back
	r := must(s.Verify(context.Background(), store.VerifyOptions{}))
	if len(r.Problems) > 0 || r.Events != uint64(1+2*acknowledged+2) {
		t.Errorf("%d events, problems %+v; want those of %d calls", r.Events, r.Problems, acknowledged+1)
	}
}

// A run whose end could not be recorded does not stay open while its process lives. Here the
// outcome of a call was lost, so the ledger refuses the end.
func TestARunWithoutARecordedEndIsClosed(t *testing.T) {
	ctx, s := context.Background(), openWith(t, sqlite.Options{Home: t.TempDir()})
	run := begin(s)
	in, _ := call(run, 1, true)
	must(s.Append(ctx, in))
	other := begin(s)
	end := ledger.Entry{Event: ledger.Event{Kind: ledger.RunFinished, At: in.Event.At + 2, Run: run, Status: tool.Completed}}
	if _, err := s.Append(ctx, end); err == nil {
		t.Fatal("a run with an open call ends")
	}
	if n := must(s.Recover(ctx)); n != 1 {
		t.Errorf("%d runs are closed", n)
	}
	for _, r := range must(s.Runs(ctx, store.RunFilter{Limit: 10})) {
		if want := map[ledger.Seq]string{run: "interrupted", other: ledger.Running}[r.Seq]; r.Status != want {
			t.Errorf("run %d is %s, not %s", r.Seq, r.Status, want)
		}
	}
	if n := must(s.Recover(ctx)); n != 0 {
		t.Errorf("%d runs are closed again", n)
	}
}

// An entry that may not be on the disk is not acknowledged, and nothing is after it.
func TestAFailedSyncIsAnError(t *testing.T) {
	home := t.TempDir()
	s := must(sqlite.Open(context.Background(), sqlite.Options{Home: home}))
	run := begin(s)
	s.BreakSync()
	in, out := call(run, 1, true)
	if _, err := s.Append(context.Background(), in); !errors.Is(err, fault.StoreFailed) || !strings.Contains(err.Error(), "synced") {
		t.Errorf("an intent that is not on the disk: %v", err)
	}
	for _, e := range []ledger.Entry{out, in} {
		if _, err := s.Append(context.Background(), e); !errors.Is(err, fault.StoreFailed) {
			t.Errorf("an entry after it: %v", err)
		}
	}
	_ = s.Close() // it cannot sign a checkpoint
	s = openWith(t, sqlite.Options{Home: home})
	must(s.Recover(context.Background()))
	if r := must(s.Verify(context.Background(), store.VerifyOptions{})); len(r.Problems) > 0 {
		t.Errorf("%+v", r.Problems)
	}
}

// A lone caller's entry is synced although the store is being closed.
func TestCloseWaitsForSyncs(t *testing.T) {
	for range soaked(6, 20) {
		s := must(sqlite.Open(context.Background(), sqlite.Options{Home: t.TempDir()}))
		run := begin(s)
		appended := make(chan error)
		go func() {
			in, _ := call(run, 1, true)
			_, err := s.Append(context.Background(), in)
			appended <- err
		}()
		err := s.Close()
		if a := <-appended; err != nil || a != nil && !strings.Contains(a.Error(), "closed") {
			t.Fatalf("Close: %v; Append meanwhile: %v", err, a)
		}
	}
}

// damage is a change to a closed ledger, and the result of Open after it.
func TestOpenSaysWhatIsWrong(t *testing.T) {
	write := func(name, text string) func(string) error {
		return func(home string) error { return os.WriteFile(filepath.Join(home, name), []byte(text), 0o600) }
	}
	sql := func(q string) func(string) error {
		return func(home string) error { d := db(t, home); _, err := d.Exec(q); return errors.Join(err, d.Close()) }
	}
	remove := func(name string) func(string) error {
		return func(home string) error { return os.Remove(filepath.Join(home, name)) }
	}
	tests := map[string]struct {
		damage func(home string) error
		code   fault.Code
		says   string
	}{
		"no ledger at all":      {write(sqlite.File, strings.Repeat("not a database ", 1000)), fault.StoreCorrupt, "restore"},
		"another program's":     {sql("PRAGMA application_id = 7"), fault.StoreCorrupt, "another program"},
		"a newer Remit's":       {sql("PRAGMA user_version = 99"), fault.StoreVersion, "newer Remit"},
		"no signing key":        {remove("keys/ledger.key"), fault.StoreFailed, "missing"},
		"no blob key":           {remove("keys/blob.key"), fault.StoreFailed, "missing"},
		"a damaged key":         {write("keys/ledger.key", "nonsense"), fault.StoreFailed, "damaged"},
		"an empty key":          {write("keys/blob.key", "\n"), fault.StoreFailed, "damaged"},
		"a key others can read": {func(home string) error { return os.Chmod(filepath.Join(home, "keys/ledger.key"), 0o644) }, fault.StoreFailed, "chmod 600"},
		"a key that is a folder": {func(home string) error {
			return errors.Join(os.Remove(filepath.Join(home, "keys/blob.key")), os.Mkdir(filepath.Join(home, "keys/blob.key"), 0o700))
		}, fault.StoreFailed, "not a regular file"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			if err := must(sqlite.Open(context.Background(), sqlite.Options{Home: home})).Close(); err != nil {
				t.Fatal(err)
			}
			if err := tt.damage(home); err != nil {
				t.Fatal(err)
			}
			for _, readOnly := range []bool{false, true} {
				_, err := sqlite.Open(context.Background(), sqlite.Options{Home: home, ReadOnly: readOnly})
				if !errors.Is(err, tt.code) || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("read-only %v: %v; want %v with %q", readOnly, err, tt.code, tt.says)
				}
			}
		})
	}
}

func TestAnotherLedgersKeyIsRefused(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	for _, home := range []string{a, b} {
		s := must(sqlite.Open(context.Background(), sqlite.Options{Home: home}))
		begin(s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"ledger.key", "blob.key"} {
		if err := os.Rename(filepath.Join(a, "keys", f), filepath.Join(b, "keys", f)); err != nil {
			t.Fatal(err)
		}
	}
	s := must(sqlite.Open(context.Background(), sqlite.Options{Home: b}))
	in, _ := call(1, 1, false)
	if _, err := s.Append(context.Background(), in); !errors.Is(err, fault.StoreFailed) || !strings.Contains(err.Error(), "key") {
		t.Errorf("Append under another ledger's key: %v", err)
	}
	if r := must(s.Verify(context.Background(), store.VerifyOptions{})); len(r.Problems) == 0 {
		t.Error("a ledger verifies under another one's key")
	}
	if _, err := s.Checkpoint(context.Background()); err == nil {
		t.Error("Checkpoint signed another ledger")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestADamagedPageIsReported(t *testing.T) {
	home := fixture(t)
	path := filepath.Join(home, sqlite.File)
	b := must(os.ReadFile(path))
	copy(b[5*4096:6*4096], bytes.Repeat([]byte{0xaa}, 4096))
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := verify(t, home, store.VerifyOptions{}); len(r.Problems) == 0 {
		t.Error("a page of rubbish went unnoticed")
	}
}

func TestALockedLedgerIsAnError(t *testing.T) {
	home := t.TempDir()
	s := must(sqlite.Open(context.Background(), sqlite.Options{Home: home}))
	s.WaitMillis(100)
	run := begin(s)
	d := db(t, home)
	must(d.Exec("BEGIN IMMEDIATE"))
	in, out := call(run, 1, false)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := s.Append(ctx, in); !errors.Is(err, fault.StoreFailed) || !strings.Contains(err.Error(), "locked") {
		t.Errorf("Append while another program holds the lock: %v", err)
	}
	must(d.Exec("ROLLBACK"))
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	must(s.Append(ctx, in, out))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestModesOfWhatIsMade(t *testing.T) {
	home := filepath.Join(t.TempDir(), "a", "b ?#%20")
	s := openWith(t, sqlite.Options{Home: home})
	begin(s)
	for path, want := range map[string]os.FileMode{
		"": 0o700, "keys": 0o700, "owners": 0o700, sqlite.File: 0o600, sqlite.File + "-wal": 0o600, "keys/ledger.key": 0o600, "keys/blob.key": 0o600,
	} {
		if got := must(os.Stat(filepath.Join(home, path))).Mode().Perm(); got != want {
			t.Errorf("%q has mode %04o, want %04o", path, got, want)
		}
	}
	if got := strings.TrimSpace(string(must(os.ReadFile(filepath.Join(home, "keys/ledger.pub"))))); got != s.PublicKey() {
		t.Errorf("ledger.pub is %q, want %q", got, s.PublicKey())
	}
}

// TestThePublicKeyFileHasTheWholeKey: a key that is read as one with the same name and hash is
// another one where its text differs. The text is broken at each place.
func TestThePublicKeyFileHasTheWholeKey(t *testing.T) {
	home := t.TempDir()
	s := openWith(t, sqlite.Options{Home: home})
	file := filepath.Join(home, "keys", "ledger.pub")
	for i := range s.PublicKey() {
		text := s.PublicKey()[:i] + "\n" + s.PublicKey()[i:] + "\n"
		must(0, os.WriteFile(file, []byte(text), 0o600))
		was, err := s.CheckPublicKey(t.Context())
		if got := string(must(os.ReadFile(file))); err != nil || (was == "") != (i == 0) || strings.TrimSpace(got) != s.PublicKey() {
			t.Errorf("%q was accepted: %q, %v; the file has %q", text, was, err, got)
		}
	}
}

func TestManyFirstOpensAtOnceMakeOneLedger(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	var wg sync.WaitGroup
	keys := make([]string, 8)
	for i := range keys {
		wg.Go(func() {
			s, err := sqlite.Open(context.Background(), sqlite.Options{Home: home})
			if err != nil {
				t.Errorf("Open: %v", err)
				return
			}
			begin(s)
			keys[i] = s.PublicKey()
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
	wg.Wait()
	for _, k := range keys {
		if k != keys[0] {
			t.Errorf("two keys were made: %q and %q", k, keys[0])
		}
	}
	if r := verify(t, home, store.VerifyOptions{}); r.Runs != 8 || len(r.Problems) > 0 {
		t.Errorf("%d runs, problems %+v; want 8 and none", r.Runs, r.Problems)
	}
}

func TestReadOnlyWritesNothing(t *testing.T) {
	if _, err := sqlite.Open(context.Background(), sqlite.Options{Home: filepath.Join(t.TempDir(), "none"), ReadOnly: true}); !errors.Is(err, fault.StoreFailed) {
		t.Errorf("opening what is not there for reading: %v", err)
	}
	home := t.TempDir()
	w := openWith(t, sqlite.Options{Home: home})
	run := begin(w)
	s := openWith(t, sqlite.Options{Home: home, ReadOnly: true})
	in, _ := call(run, 1, false)
	_, err1 := s.Append(context.Background(), in)
	_, err2 := s.Checkpoint(context.Background())
	_, err3 := s.Recover(context.Background())
	for _, err := range []error{err1, err2, err3} {
		if !errors.Is(err, fault.StoreReadOnly) {
			t.Errorf("%v, want %v", err, fault.StoreReadOnly)
		}
	}
	if runs := must(s.Runs(context.Background(), store.RunFilter{})); len(runs) != 1 {
		t.Errorf("%d runs are seen, want 1", len(runs))
	}
}

// A process without write permission can read the ledger. Its appends fail with
// the reason.
func TestAFolderThatCannotBeWritten(t *testing.T) {
	const env = "REMIT_TEST_READ_ONLY_HOME"
	if home := os.Getenv(env); home != "" {
		_, err := sqlite.Open(context.Background(), sqlite.Options{Home: filepath.Join(home, "new")})
		if !errors.Is(err, fault.StoreReadOnly) {
			t.Errorf("making a ledger: %v, want %v", err, fault.StoreReadOnly)
		}
		s, err := sqlite.Open(context.Background(), sqlite.Options{Home: home})
		if err == nil {
			in, _ := call(1, 1, false)
			_, err = s.Append(context.Background(), in)
			_ = s.Close()
		}
		if !errors.Is(err, fault.StoreReadOnly) {
			t.Errorf("appending: %v, want %v", err, fault.StoreReadOnly)
		}
		r := openWith(t, sqlite.Options{Home: home, ReadOnly: true})
		if runs := must(r.Runs(context.Background(), store.RunFilter{})); len(runs) != 1 {
			t.Errorf("%d runs, want 1", len(runs))
		}
		return
	}
	if os.Getuid() != 0 {
		t.Skip("needs a second user: run as root")
	}
	home := must(os.MkdirTemp("", "remit-ro-"))
	defer os.RemoveAll(home)
	s := must(sqlite.Open(context.Background(), sqlite.Options{Home: home}))
	begin(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	const nobody = 65534
	for _, f := range []string{"keys", "keys/ledger.key", "keys/blob.key"} {
		if err := os.Chown(filepath.Join(home, f), nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chmod(home, 0o755), os.Chmod(filepath.Join(home, sqlite.File), 0o644)); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(home, "test")
	if err := errors.Join(os.WriteFile(bin, must(os.ReadFile(must(os.Executable()))), 0o755), os.Chmod(bin, 0o755)); err != nil {
		t.Fatal(err)
	}
	cmd := osexec.Command(bin, "-test.run=^TestAFolderThatCannotBeWritten$")
	cmd.Dir, cmd.Env = "/", append(os.Environ(), env+"="+home)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
