package changes_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/app/apptest"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/changes"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/runs"
)

// TestMain lets the test binary be the process that dies while it undoes a run.
func TestMain(m *testing.M) {
	if dir := os.Getenv("CHANGES_DIE"); dir != "" {
		dieWhileUndoing(dir, os.Getenv("CHANGES_RUN"))
	}
	os.Exit(m.Run())
}

// dying is a ledger whose process dies from the moment at which it is told that changes are
// undone, as soon as it renames a file within an open folder: the undo has begun to replace
// files.
type dying struct{ store.Backend }

func (d dying) Append(ctx context.Context, entries ...ledger.Entry) (ledger.Seq, error) {
	seq, err := d.Backend.Append(ctx, entries...)
	for _, e := range entries {
		if e.Event.Change == ledger.ChangesUndoing {
			err = errors.Join(err, dieAtRename())
		}
	}
	return seq, err
}

// dieAtRename has the kernel kill this process at its first renameat that does not begin
// at the current folder.
func dieAtRename() error {
	const nr, firstArgument = 0, 16 // in struct seccomp_data
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	equal := func(k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jt: yes, Jf: no}
	}
	give := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	here := int32(unix.AT_FDCWD)
	program := []unix.SockFilter{
		load(nr), equal(unix.SYS_RENAMEAT, 0, 2),
		load(firstArgument), equal(uint32(here), 0, 1),
		give(unix.SECCOMP_RET_ALLOW),
		give(unix.SECCOMP_RET_KILL_PROCESS),
	}
	runtime.LockOSThread() // the two calls belong together
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&filter)))
	if errno != 0 {
		return errno
	}
	return nil
}

func dieWhileUndoing(dir, run string) {
	cfg, err := home.FromEnv([]string{"REMIT_HOME=" + dir, "USER=ann"})
	if err != nil {
		panic(err)
	}
	a, err := app.New(cfg, app.Own{})
	if err != nil {
		panic(err)
	}
	a.Home.Ledger = func(ctx context.Context) (store.Backend, error) {
		st, err := a.Store(ctx)
		return dying{st}, err
	}
	if _, _, err = a.Changes.Undo(context.Background(), "", run); err != nil {
		panic(err)
	}
	os.Exit(0)
}

// wrote has a run overwrite a file of 1 MiB in a new workspace.
func wrote(t *testing.T, a *app.App) (run, file string, before []byte) {
	t.Helper()
	work, err := home.Workspace(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file, before = filepath.Join(work, "big"), bytes.Repeat([]byte("old\n"), 1<<18)
	if err := os.WriteFile(file, before, 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := policy.Parse("p.yaml", []byte("version: 1\nname: w\nfiles:\n  write: {allow: [\"**\"]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := a.Runs.Begin(t.Context(), runs.Request{Name: "writes", Root: p, Workspace: work})
	if err != nil {
		t.Fatal(err)
	}
	o, err := s.Call(t.Context(), runner.Call{Tool: "fs.write", Args: tool.Args{"path": "big", "content": "new"}})
	if err = errors.Join(err, o.Err, s.End(t.Context())); err != nil {
		t.Fatal(err)
	}
	return s.Result().ID.String(), file, before
}

// steps gives the recorded steps of changesets.
func steps(t *testing.T, st store.Store) (out []ledger.Change) {
	t.Helper()
	for e, err := range st.Events(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Event.Kind == ledger.Changeset {
			out = append(out, e.Event.Change)
		}
	}
	return out
}

// dieUndoing has another process die while it undoes a run, and returns the pattern of its journals.
func dieUndoing(t *testing.T, dir, run string) (journals string) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "CHANGES_DIE="+dir, "CHANGES_RUN="+run)
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatalf("the other process did not die: %s", out)
	}
	journals = filepath.Join(dir, "undo", "journals", "*")
	if found, err := filepath.Glob(journals); err != nil || len(found) != 1 {
		t.Fatalf("the other process left the journals %v, %v\n%s", found, err, out)
	}
	return journals
}

// failing is a ledger that has no room for so many entries.
type failing struct {
	store.Backend
	left int
}

func (f *failing) Append(ctx context.Context, entries ...ledger.Entry) (ledger.Seq, error) {
	if f.left--; f.left >= 0 {
		return 0, fault.New(fault.StoreFull, "no space is left")
	}
	return f.Backend.Append(ctx, entries...)
}

// An undo that was finished after a death is recorded, although the ledger had no room at first.
func TestARecoveryThatCouldNotBeRecordedIsRecordedLater(t *testing.T) {
	dir := t.TempDir()
	first := apptest.New(t, dir)
	run, _, _ := wrote(t, first)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	a := apptest.New(t, dir)
	st, err := a.Store(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dieUndoing(t, dir, run)
	c, full := &changes.Changes{Home: a.Home}, &failing{st, 2}
	for n := range 4 {
		if err := c.Recover(t.Context(), full); (n < 2) != errors.Is(err, fault.StoreFull) {
			t.Errorf("attempt %d: %v", n, err)
		}
	}
	if got, want := steps(t, st), []ledger.Change{ledger.ChangesUndoing, ledger.ChangesUndone}; !slices.Equal(got, want) {
		t.Errorf("the ledger has the steps %v, want %v", got, want)
	}
}

// A process that has Remit open finishes what another process was undoing when it died, at its
// next request and without waiting.
func TestADeathWhileUndoingIsRecovered(t *testing.T) {
	dir := t.TempDir()
	first := apptest.New(t, dir)
	run, file, before := wrote(t, first)
	if err := first.Close(); err != nil { // it is no owner any more
		t.Fatal(err)
	}
	a := apptest.New(t, dir)
	if _, err := a.Store(t.Context()); err != nil { // the first look: nothing is interrupted
		t.Fatal(err)
	}

	journals := dieUndoing(t, dir, run)

	st, err := a.Store(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if found, err := filepath.Glob(journals); err != nil || len(found) != 0 {
		t.Errorf("the journals %v are left, %v", found, err)
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, before) {
		t.Errorf("the file has %d bytes, %v; want what was there before the run", len(got), err)
	}
	if got, want := steps(t, st), []ledger.Change{ledger.ChangesUndoing, ledger.ChangesUndone}; !slices.Equal(got, want) {
		t.Errorf("the ledger has the steps %v, want %v", got, want)
	}
}

// deaths is a ledger that tells of so many deaths.
type deaths struct {
	store.Store
	n uint64
}

func (d *deaths) Deaths() uint64 { return d.n }

// Recover lists the logs of runs at its first call and after a death, never otherwise.
func TestRecoverLooksOnlyAfterADeath(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	a := apptest.New(t, dir)
	c := &changes.Changes{Home: a.Home, Now: func() time.Time { return now }}
	broken := filepath.Join(dir, "undo", "journals", "x.log")
	if err := os.MkdirAll(filepath.Dir(broken), 0o700); err != nil {
		t.Fatal(err)
	}
	st := &deaths{n: 3}
	looks := func(want bool, when string) {
		t.Helper()
		if err := os.WriteFile(broken, []byte("broken"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := c.Recover(t.Context(), st); (err != nil) != want {
			t.Errorf("%s: Recover = %v; want an error of the broken journal: %t", when, err, want)
		}
		if err := os.Remove(broken); err != nil && want {
			t.Fatal(err)
		}
	}
	// Data is removed once a day, which reads all journals too: that was done just now.
	if err := os.WriteFile(filepath.Join(dir, "undo", "swept"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	looks(true, "at the first call")
	looks(false, "at once")
	now = now.Add(24 * time.Hour)
	looks(false, "a day later without a death")
	st.n++
	looks(true, "after a death")
	looks(false, "after that")
}

// A process that is open for days removes old data once a day.
func TestRecoverRemovesOldData(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	a := apptest.New(t, dir)
	run, _, _ := wrote(t, a)
	st, err := a.Store(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := &changes.Changes{Home: a.Home, Now: func() time.Time { return now }}
	log, swept := filepath.Join(dir, "undo", "runs", run[len(run)-2:], run+".jsonl"), filepath.Join(dir, "undo", "swept")
	age := func(name string, by time.Duration) {
		t.Helper()
		if err := os.Chtimes(name, now.Add(-by), now.Add(-by)); err != nil {
			t.Fatal(err)
		}
	}
	recovered := func() bool {
		t.Helper()
		if err := c.Recover(t.Context(), st); err != nil {
			t.Fatal(err)
		}
		_, err := os.Stat(log)
		return err == nil
	}
	age(log, 400*24*time.Hour)
	if err := os.WriteFile(swept, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if !recovered() {
		t.Error("removed though data was removed less than a day ago")
	}
	age(swept, 25*time.Hour)
	if !recovered() {
		t.Error("asked again at once")
	}
	now = now.Add(2 * time.Hour)
	age(log, 400*24*time.Hour)
	age(swept, 27*time.Hour)
	if recovered() {
		t.Error("a log that is older than the settings allow was not removed")
	}
}

// listings counts how often any process lists one of the folders from now on.
func listings(t *testing.T, folders ...string) (count func() int) {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	for _, f := range folders {
		if _, err := unix.InotifyAddWatch(fd, f, unix.IN_ACCESS|unix.IN_ONLYDIR); err != nil {
			t.Fatal(err)
		}
	}
	return func() (n int) {
		buf := make([]byte, 64<<10)
		for {
			got, err := unix.Read(fd, buf)
			if errors.Is(err, unix.EAGAIN) {
				return n
			}
			if err != nil {
				t.Fatal(err)
			}
			for at := 0; at < got; {
				e := (*unix.InotifyEvent)(unsafe.Pointer(&buf[at]))
				if e.Mask&unix.IN_ISDIR != 0 && e.Len == 0 { // the folder itself was read
					n++
				}
				at += unix.SizeofInotifyEvent + int(e.Len)
			}
		}
	}
}

// A start, a request and a run that writes list none of the folders of finished runs, so that
// they cost the same however many runs wrote something.
func TestFinishedRunsAreNotListed(t *testing.T) {
	dir := t.TempDir()
	first := apptest.New(t, dir)
	run, _, _ := wrote(t, first)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	logs := filepath.Join(dir, "undo", "runs")
	folders := []string{logs, filepath.Join(logs, run[len(run)-2:]), filepath.Join(dir, "changes")}
	for i := range 100 { // of all ends that the next runs can have, some
		folders = append(folders, filepath.Join(logs, fmt.Sprintf("%02x", i)))
	}
	for _, f := range folders {
		if err := os.MkdirAll(f, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	// Old data is removed once a day, which lists all: that was done just now.
	if err := os.WriteFile(filepath.Join(dir, "undo", "swept"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	count := listings(t, folders...)

	a := apptest.New(t, dir)
	for range 3 {
		if _, err := a.Store(t.Context()); err != nil {
			t.Fatal(err)
		}
		wrote(t, a)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if n := count(); n != 0 {
		t.Errorf("folders of finished runs were listed %d times, want 0", n)
	}
	if _, err := os.ReadDir(logs); err != nil {
		t.Fatal(err)
	}
	if n := count(); n == 0 {
		t.Error("a listing was not counted, so the test shows nothing")
	}
}
