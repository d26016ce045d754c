package storetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// Files checks that open also returns a [store.Files].
func Files(t *testing.T, open OpenStore) {
	t.Helper()
	cases := []struct {
		name string
		run  func(t *testing.T, open OpenStore)
	}{
		{"a file comes back, in every version", filesComeBack},
		{"the tree is what is there now", filesTree},
		{"equal contents are kept once", filesOnce},
		{"only who saw the newest version changes a file", filesStale},
		{"of two who change a file one is told", filesRace},
		{"files are in folders, and folders go last", filesFolders},
		{"a session holds no more than its quota", filesQuota},
		{"two writers do not exceed a quota", filesQuotaRace},
		{"a path has one spelling", filesPaths},
		{"sessions do not see each other's files", filesApart},
		{"changes are all made, or none", filesAtomic},
		{"what happened is in the events", filesEvents},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.run(t, open) })
	}
}

// folder is a session with its files.
type folder struct {
	*testing.T
	s       store.Store
	f       store.Files
	session uuid.UUID
	quota   store.Quota
}

func openFiles(t *testing.T, open OpenStore, home string) folder {
	t.Helper()
	s, g := openSessions(t, open, home)
	f, ok := s.(store.Files)
	if !ok {
		t.Fatalf("%T keeps no files", s)
	}
	return folder{t, s, f, saveSession(t, g, newSession()).ID, store.Quota{Bytes: 1 << 20, Files: 100}}
}

func file(path string, was int, content string) store.FileChange {
	return store.FileChange{Path: path, Was: was, Content: []byte(content), At: ledger.Time(base + int64(was))}
}

func dir(path string) store.FileChange {
	return store.FileChange{Path: path, Folder: true, At: ledger.Time(base)}
}

func gone(path string, was int) store.FileChange {
	return store.FileChange{Path: path, Was: was, Delete: true, At: ledger.Time(base + int64(was))}
}

// change makes changes that must succeed.
func (d folder) change(c ...store.FileChange) []store.FileRecord {
	d.Helper()
	out, err := d.f.ChangeFiles(context.Background(), d.session, d.quota, c...)
	if err != nil || len(out) != len(c) {
		d.Fatalf("ChangeFiles gives %d, %v", len(out), err)
	}
	return out
}

// refused makes changes that must fail.
func (d folder) refused(what string, code fault.Code, c ...store.FileChange) {
	d.Helper()
	out, err := d.f.ChangeFiles(context.Background(), d.session, d.quota, c...)
	wantCode(d.T, what, err, code)
	if out != nil {
		d.Errorf("%s gives %+v", what, out)
	}
}

func (d folder) file(path string, version int) (store.FileRecord, string) {
	d.Helper()
	f, err := d.f.File(context.Background(), d.session, path, version)
	if err != nil {
		d.Fatalf("File(%q, %d): %v", path, version, err)
	}
	b, err := d.f.LoadFile(context.Background(), f)
	if err != nil && !f.Folder && !f.Deleted {
		d.Errorf("LoadFile(%q, %d): %v", path, version, err)
	}
	return f, string(b)
}

// tree is the session's paths, with their versions.
func (d folder) tree() []string {
	d.Helper()
	all, err := d.f.FileTree(context.Background(), d.session)
	if err != nil {
		d.Fatalf("FileTree: %v", err)
	}
	var out []string
	for _, f := range all {
		out = append(out, fmt.Sprintf("%s %d", f.Path, f.Version))
	}
	return out
}

func filesComeBack(t *testing.T, open OpenStore) {
	home := t.TempDir()
	d := openFiles(t, open, home)
	contents := []string{"one", "", strings.Repeat("three ", 20_000), "\x00\xff\xfe", "one"}
	for i, c := range contents {
		want := store.FileRecord{Path: "/a", Version: i + 1, Size: int64(len(c)), SHA256: sha256.Sum256([]byte(c)), Created: ledger.Time(base), Modified: ledger.Time(base + int64(i))}
		got := d.change(file("/a", i, c))[0]
		want.Blob, want.Seq = got.Blob, got.Seq
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("version %d (-want +got):\n%s", i+1, diff)
		}
	}
	d.change(gone("/a", 5))
	back := d.change(file("/a", 0, "seven"))[0]
	if back.Version != 7 || !back.Created.Equal(ledger.Time(base)) {
		t.Errorf("after its deletion it is %+v", back)
	}
	wantSound(t, d.s)
	if err := d.s.Close(); err != nil {
		t.Fatal(err)
	}
	session := d.session
	d = openFiles(t, open, home)
	d.session = session
	for i, c := range contents {
		if f, got := d.file("/a", i+1); got != c || f.Version != i+1 || f.Size != int64(len(c)) || f.SHA256 != sha256.Sum256([]byte(c)) || !f.Modified.Equal(ledger.Time(base+int64(i))) {
			t.Errorf("version %d is %+v with %.20q", i+1, f, got)
		}
	}
	f, _ := d.file("/a", 6)
	if _, err := d.f.LoadFile(context.Background(), f); !f.Deleted || !errors.Is(err, fault.NotFound) {
		t.Errorf("version 6 is %+v, %v; want it deleted", f, err)
	}
	if f, got := d.file("/a", 0); got != "seven" || f != back {
		t.Errorf("now it is %+v with %q, want %+v", f, got, back)
	}
	for _, v := range []int{8, -1} {
		_, err := d.f.File(context.Background(), d.session, "/a", v)
		wantCode(t, fmt.Sprint("version ", v), err, fault.NotFound)
	}
}

func filesTree(t *testing.T, open OpenStore) {
	d := openFiles(t, open, t.TempDir())
	if got := d.tree(); got != nil {
		t.Errorf("a new session has %v", got)
	}
	d.change(file("/b", 0, "1"), dir("/d"), file("/d/x", 0, ""), file("/d.y", 0, "2"), file("/Z", 0, "3"))
	d.change(file("/b", 1, "11"), gone("/Z", 1))
	if got, want := d.tree(), []string{"/b 2", "/d 1", "/d.y 1", "/d/x 1"}; !slices.Equal(got, want) {
		t.Errorf("the tree is %v, want %v", got, want)
	}
	_, err := d.f.FileTree(context.Background(), v7())
	wantCode(t, "an unknown session's tree", err, fault.SessionUnknown)
	_, err = d.f.File(context.Background(), v7(), "/b", 0)
	wantCode(t, "an unknown session's file", err, fault.SessionUnknown)
	for _, path := range []string{"/none", "/Z", "/B"} {
		_, err = d.f.File(context.Background(), d.session, path, 0)
		wantCode(t, path, err, fault.NotFound)
	}
	f, _ := d.file("/d", 0)
	_, err = d.f.LoadFile(context.Background(), f)
	wantCode(t, "a folder's content", err, fault.Conflict)
	wantSound(t, d.s)
}

func filesOnce(t *testing.T, open OpenStore) {
	d := openFiles(t, open, t.TempDir())
	a := d.change(file("/a", 0, "the same"), file("/b", 0, "the same"), file("/c", 0, "another"))
	if a[0].Blob != a[1].Blob || a[0].Blob == a[2].Blob {
		t.Errorf("contents are at %x, %x and %x", a[0].Blob.Address, a[1].Blob.Address, a[2].Blob.Address)
	}
	if rep, err := d.s.Verify(context.Background(), store.VerifyOptions{}); err != nil || rep.Blobs != 2 || len(rep.Problems) > 0 {
		t.Errorf("%d blobs, %v, %+v; want 2", rep.Blobs, err, rep.Problems)
	}
}

func filesStale(t *testing.T, open OpenStore) {
	d := openFiles(t, open, t.TempDir())
	d.change(file("/a", 0, "1"))
	d.change(file("/a", 1, "2"))
	d.refused("as if it were not there", fault.Stale, file("/a", 0, "x"))
	d.refused("an older version", fault.Stale, file("/a", 1, "x"))
	d.refused("a version too far", fault.Stale, file("/a", 3, "x"))
	d.refused("a deletion of an older version", fault.Stale, gone("/a", 1))
	d.refused("a file that is not there", fault.Stale, file("/b", 1, "x"))
	d.change(gone("/a", 2))
	d.refused("a deleted file", fault.Stale, file("/a", 3, "x"))
	d.refused("a deleted file's deletion", fault.Stale, gone("/a", 3))
	d.refused("no version", fault.Internal, file("/a", -1, "x"))
	d.refused("a deletion of nothing", fault.Internal, gone("/a", 0))
	d.refused("a path twice", fault.Internal, file("/b", 0, "x"), file("/b", 0, "y"))
	d.refused("a folder with a content", fault.Internal, store.FileChange{Path: "/b", Folder: true, Content: []byte("x")})
	if out, err := d.f.ChangeFiles(context.Background(), d.session, d.quota); out != nil || err != nil {
		t.Errorf("no change gives %v, %v", out, err)
	}
	_, err := d.f.ChangeFiles(context.Background(), v7(), d.quota, file("/a", 0, "x"))
	wantCode(t, "a file of no session", err, fault.SessionUnknown)
	g := d.s.(store.Sessions)
	r, err := g.Session(context.Background(), d.session.String())
	if err != nil {
		t.Fatal(err)
	}
	r.Deleted = true
	saveSession(t, g, r)
	d.refused("a file of a deleted session", fault.SessionEnded, file("/a", 0, "x"))
	wantSound(t, d.s)
}

func filesRace(t *testing.T, open OpenStore) {
	home := t.TempDir()
	d := openFiles(t, open, home)
	other := openFiles(t, open, home)
	d.change(file("/a", 0, ""))
	var wg sync.WaitGroup
	for w := range 6 {
		wg.Go(func() {
			f := []store.Files{d.f, other.f}[w%2]
			for done := 0; done < 15; {
				now, err := f.File(context.Background(), d.session, "/a", 0)
				var b []byte
				if err == nil {
					b, err = f.LoadFile(context.Background(), now)
				}
				if err == nil {
					_, err = f.ChangeFiles(context.Background(), d.session, d.quota, file("/a", now.Version, string(append(b, byte('0'+w)))))
				}
				if err == nil {
					done++
				} else if !errors.Is(err, fault.Stale) {
					t.Errorf("worker %d: %v", w, err)
					return
				}
			}
		})
	}
	wg.Wait()
	f, got := d.file("/a", 0)
	for w := range 6 {
		if n := strings.Count(got, fmt.Sprint(w)); n != 15 {
			t.Errorf("%d of worker %d's 15 additions are there: %q", n, w, got)
		}
	}
	if f.Version != 91 {
		t.Errorf("it is version %d, want 91", f.Version)
	}
	wantSound(t, d.s)
}

func filesFolders(t *testing.T, open OpenStore) {
	d := openFiles(t, open, t.TempDir())
	d.refused("a file in no folder", fault.Conflict, file("/d/x", 0, ""))
	d.refused("a folder in no folder", fault.Conflict, dir("/d/e"))
	d.change(file("/d/e/x", 0, ""), dir("/d/e"), dir("/d")) // in any order
	d.change(file("/f", 0, ""))
	d.refused("a file in a file", fault.Conflict, file("/f/x", 0, ""))
	d.refused("a folder that is not empty", fault.Conflict, gone("/d", 1))
	d.refused("a folder with only some of what is in it", fault.Conflict, gone("/d", 1), gone("/d/e", 1))
	d.refused("a file for a folder that is not empty", fault.Conflict, file("/d", 1, "x"))
	d.refused("a new file in a folder that goes", fault.Conflict, gone("/d", 1), gone("/d/e", 1), gone("/d/e/x", 1), file("/d/y", 0, ""))
	d.change(dir2("/d", 1)) // a new version of a folder is a folder
	d.change(gone("/d/e/x", 1), gone("/d/e", 1), gone("/d", 2))
	d.refused("a file in a folder that is gone", fault.Conflict, file("/d/x", 0, ""))
	d.change(file("/d", 0, "now a file"), gone("/f", 1))
	d.change(dir("/f"), file("/f/x", 0, ""))
	if got, want := d.tree(), []string{"/d 4", "/f 3", "/f/x 1"}; !slices.Equal(got, want) {
		t.Errorf("the tree is %v, want %v", got, want)
	}
	if f, _ := d.file("/d", 3); !f.Deleted || !f.Folder {
		t.Errorf("the folder's deletion is %+v", f)
	}
	wantSound(t, d.s)
}

func dir2(path string, was int) store.FileChange {
	c := dir(path)
	c.Was = was
	return c
}

func filesQuota(t *testing.T, open OpenStore) {
	d := openFiles(t, open, t.TempDir())
	d.quota = store.Quota{}
	d.refused("no quota", fault.FilesFull, file("/a", 0, ""))
	d.quota = store.Quota{Bytes: 10, Files: 3}
	d.refused("too large", fault.FilesFull, file("/a", 0, "12345678901"))
	d.change(file("/a", 0, "1234567890"))
	d.refused("a byte too much", fault.FilesFull, file("/b", 0, "1"))
	d.refused("more than before", fault.FilesFull, file("/a", 1, "12345678901"))
	d.change(file("/a", 1, "123456789"), file("/b", 0, "1")) // together it fits
	d.change(dir("/d"))
	d.refused("a path too many", fault.FilesFull, file("/c", 0, ""))
	d.change(gone("/b", 1), file("/c", 0, "x"))
	d.quota = store.Quota{Bytes: 5, Files: 1} // less than is there
	d.refused("as much as before", fault.FilesFull, file("/c", 1, "xx"))
	d.change(file("/a", 2, "12345678")) // smaller
	d.refused("another file", fault.FilesFull, file("/e", 0, ""))
	d.change(gone("/a", 3))
	if got, want := d.tree(), []string{"/c 1", "/d 1"}; !slices.Equal(got, want) {
		t.Errorf("the tree is %v, want %v", got, want)
	}
	wantSound(t, d.s)
}

func filesQuotaRace(t *testing.T, open OpenStore) {
	home := t.TempDir()
	d := openFiles(t, open, home)
	other := openFiles(t, open, home)
	quota := store.Quota{Bytes: 100, Files: 7}
	var wg sync.WaitGroup
	var mu sync.Mutex
	made := 0
	for w := range 20 {
		wg.Go(func() {
			_, err := []store.Files{d.f, other.f}[w%2].ChangeFiles(context.Background(), d.session, quota, file(fmt.Sprint("/", w), 0, "1234567890"))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				made++
			} else if !errors.Is(err, fault.FilesFull) {
				t.Errorf("worker %d: %v", w, err)
			}
		})
	}
	wg.Wait()
	if got := d.tree(); made != 7 || len(got) != 7 {
		t.Errorf("%d files were made, %d are there; 7 may be", made, len(got))
	}
	wantSound(t, d.s)
}

func filesPaths(t *testing.T, open OpenStore) {
	d := openFiles(t, open, t.TempDir())
	for _, path := range []string{"", "/", "a", "./a", "//a", "/a/", "/a/../b", "/..", "/.", "/a/./b", "/a//b", "/\xff", "/a\x00b", "/" + strings.Repeat("x", store.MaxPath)} {
		d.refused(fmt.Sprintf("%.40q", path), fault.ArgsInvalid, file(path, 0, ""))
		_, err := d.f.File(context.Background(), d.session, path, 0)
		wantCode(t, fmt.Sprintf("%.40q", path), err, fault.ArgsInvalid)
	}
	long := "/" + strings.Repeat("\x01", store.MaxPath-1) // no content is kept apart for its name
	for _, path := range []string{"/..a", "/a b", "/Ünï", "/%2e%2e", `/a\b`, "/a\n<\"", long} {
		d.change(file(path, 0, path))
		if _, got := d.file(path, 0); got != path {
			t.Errorf("%q has %q", path, got)
		}
		d.change(file(path, 1, ""))
		if _, got := d.file(path, 1); got != path {
			t.Errorf("%q had %q", path, got)
		}
	}
	wantSound(t, d.s)
}

func filesApart(t *testing.T, open OpenStore) {
	d := openFiles(t, open, t.TempDir())
	e := d
	e.session = saveSession(t, d.s.(store.Sessions), newSession()).ID
	d.change(file("/a", 0, "mine"))
	e.change(file("/a", 0, "yours"), file("/b", 0, "yours"))
	e.change(gone("/a", 1))
	if _, got := d.file("/a", 0); got != "mine" {
		t.Errorf("/a has %q", got)
	}
	if got := d.tree(); !slices.Equal(got, []string{"/a 1"}) {
		t.Errorf("the tree is %v", got)
	}
	wantSound(t, d.s)
}

func filesAtomic(t *testing.T, open OpenStore) {
	d := openFiles(t, open, t.TempDir())
	d.change(file("/a", 0, "1"))
	big := strings.Repeat("big ", 5000)
	d.refused("the last is stale", fault.Stale, file("/b", 0, big), file("/a", 2, "2"))
	d.refused("the last is of a run that is not there", fault.Internal, file("/b", 0, big), store.FileChange{Path: "/c", Run: 99})
	d.refused("the last is of a call of no run", fault.Internal, file("/b", 0, big), store.FileChange{Path: "/c", Call: 1})
	if got := d.tree(); !slices.Equal(got, []string{"/a 1"}) {
		t.Errorf("the tree is %v", got)
	}
	wantSound(t, d.s)
}

func filesEvents(t *testing.T, open OpenStore) {
	d := openFiles(t, open, t.TempDir())
	run, _ := start(t, d.s, nil)
	put(t, d.s, intent(run, 1))
	c := file("/secret-name", 0, "the content")
	c.Run, c.Call, c.By = run, 1, "agent:x"
	f := d.change(c)[0]
	d.change(gone("/secret-name", 1))
	var got []ledger.Event
	for e, err := range d.s.Events(context.Background(), f.Seq) {
		if err != nil {
			t.Fatal(err)
		}
		b, err := ledger.Encode(&e.Event)
		if err != nil || bytes.Contains(b, []byte("secret")) {
			t.Errorf("event %d tells the path outside of its payload, %v", e.Seq, err)
		}
		e.Event.Commit = nil
		got = append(got, e.Event)
	}
	want := []ledger.Event{
		{Kind: ledger.FileSaved, At: base, Run: run, Call: 1, Subject: d.session[:], Number: 1, Principal: "agent:x"},
		{Kind: ledger.FileSaved, At: base + 1, Subject: d.session[:], Number: 2, Gone: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	n := 0
	for call, err := range d.s.Calls(context.Background(), run) {
		if n++; err != nil || call.Index != 1 || call.Parts[ledger.PartArgs].Size() == 0 {
			t.Errorf("call %+v, %v", call, err)
		}
	}
	if n != 1 {
		t.Errorf("%d calls, want 1", n)
	}
	put(t, d.s, outcome(run, 1, 1))
	wantSound(t, d.s)
}
