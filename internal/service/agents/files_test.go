package agents_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/agents/capability/capabilitytest"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
	"github.com/remitrun/remit/internal/service/agents"
)

// keptFiles is a store, and a maker of new sessions' files in it.
func keptFiles(t *testing.T, quota store.Quota) (*sqlite.Store, func() capability.Files) {
	t.Helper()
	s, err := sqlite.Open(context.Background(), sqlite.Options{Home: t.TempDir(), Durability: sqlite.Process})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, func() capability.Files {
		id := uuid.Must(uuid.NewV7())
		if _, err := s.SaveSession(context.Background(), store.SessionRecord{ID: id, Doc: []byte("{}")}); err != nil {
			panic(err)
		}
		return agents.FilesOf(s, quota)(id)
	}
}

var wide = store.Quota{Bytes: 1 << 20, Files: 1000}

// told is what a call tells: its error's number, and what it gives.
func told(err error, more ...any) string {
	return fmt.Sprint(append([]any{int(fault.CodeOf(err))}, more...)...)
}

func paths(files []capability.File) (out []string) {
	for _, f := range files {
		out = append(out, fmt.Sprintf("%s %t %d", f.Path, f.Folder, f.Size))
	}
	return out
}

// TestSessionFilesAreThoseOfTheContract has files in the ledger do what files in
// memory do.
func TestSessionFilesAreThoseOfTheContract(t *testing.T) {
	s, fresh := keptFiles(t, wide)
	ctx, p := t.Context(), permittest.PermitFor(t, t.TempDir(), "version: 1\n")
	names := []string{"/a", "b", "/d/x", "/d/./y", "/d/e/z", "/d", "/d/e", "/../a", "/a/b", "/d.x", ""}
	rapid.Check(t, func(t *rapid.T) {
		kept, memory := fresh(), &capabilitytest.SessionFiles{}
		both := func(what string, do func(f capability.Files) string) {
			if got, want := do(kept), do(memory); got != want {
				t.Fatalf("%s: got %s, want %s", what, got, want)
			}
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			name := rapid.SampledFrom(names).Draw(t, "name")
			switch rapid.IntRange(0, 5).Draw(t, "do") {
			case 0, 1:
				content, guard := []byte(rapid.SampledFrom([]string{"", "one", "twotwo"}).Draw(t, "content")), rapid.SampledFrom([]string{"", "", "new", "current", "other"}).Draw(t, "guard")
				both("write "+name, func(f capability.Files) string {
					now, _ := f.Stat(ctx, p, name) // versions also count deletions in one of them
					version := map[string]int{"new": capability.MustBeNew, "current": now.Version, "other": now.Version + 1}[guard]
					got, isNew, err := f.Write(ctx, p, name, content, version)
					if err != nil {
						return told(err)
					}
					return told(err, got.Path, got.Size, got.Version > now.Version, got.SHA256, isNew)
				})
			case 2:
				recursive := rapid.Bool().Draw(t, "recursive")
				both("delete "+name, func(f capability.Files) string { n, err := f.Delete(ctx, p, name, recursive); return told(err, n) })
			case 3:
				both("list "+name, func(f capability.Files) string { l, err := f.List(ctx, p, name); return told(err, paths(l)) })
			case 4:
				both("all "+name, func(f capability.Files) string { l, err := f.All(ctx, p, name); return told(err, paths(l)) })
			case 5:
				both("read "+name, func(f capability.Files) string {
					b, got, err := f.Read(ctx, p, name)
					st, serr := f.Stat(ctx, p, name)
					if err != nil {
						return told(err, told(serr, st.Path, st.Folder))
					}
					return told(err, b, got.Path, st == got)
				})
			}
		}
		both("all", func(f capability.Files) string { l, err := f.All(ctx, p, "/"); return told(err, paths(l)) })
	})
	if rep, err := s.Verify(ctx, store.VerifyOptions{}); err != nil || len(rep.Problems) > 0 {
		t.Errorf("verify: %v, %+v", err, rep.Problems)
	}
}

func TestSessionFilesNeedALivePermit(t *testing.T) {
	_, fresh := keptFiles(t, wide)
	f, over := fresh(), permittest.PermitFor(t, t.TempDir(), "version: 1\n")
	over.End()
	for name, p := range map[string]permit.Permit{"none": {}, "one that is over": over} {
		for what, use := range map[string]func() error{
			"stat":   func() error { _, err := f.Stat(t.Context(), p, "/"); return err },
			"read":   func() error { _, _, err := f.Read(t.Context(), p, "/a"); return err },
			"write":  func() error { _, _, err := f.Write(t.Context(), p, "/a", nil, 0); return err },
			"list":   func() error { _, err := f.List(t.Context(), p, "/"); return err },
			"all":    func() error { _, err := f.All(t.Context(), p, "/"); return err },
			"delete": func() error { _, err := f.Delete(t.Context(), p, "/a", true); return err },
		} {
			if err := use(); !errors.Is(err, fault.HandleRefused) {
				t.Errorf("%s with the permit %s: %v, want %v", what, name, err, fault.HandleRefused)
			}
		}
	}
}

func TestSessionFilesAreNoted(t *testing.T) {
	_, fresh := keptFiles(t, wide)
	f, p := fresh(), permittest.PermitFor(t, t.TempDir(), "version: 1\n")
	ctx := t.Context()
	_, _, err := f.Write(ctx, p, "/d/x", []byte("four"), 0)
	_, _, rerr := f.Read(ctx, p, "d/x")
	_, derr := f.Delete(ctx, p, "/d", true)
	if err := errors.Join(err, rerr, derr); err != nil {
		t.Fatal(err)
	}
	got, _ := p.Happened()
	want := []tool.Happened{
		{Effect: tool.FSWrite, On: "session:/d"}, {Effect: tool.FSWrite, On: "session:/d/x", Bytes: 4}, {Effect: tool.FSRead, On: "session:/d/x", Bytes: 4},
		{Effect: tool.FSDelete, On: "session:/d/x"}, {Effect: tool.FSDelete, On: "session:/d"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestSessionFilesHaveAQuota(t *testing.T) {
	_, fresh := keptFiles(t, store.Quota{Bytes: 10, Files: 2})
	f, p := fresh(), permittest.PermitFor(t, t.TempDir(), "version: 1\n")
	write := func(name string, n int) error {
		_, _, err := f.Write(t.Context(), p, name, bytes.Repeat([]byte("x"), n), 0)
		return err
	}
	for _, tc := range []struct {
		name string
		n    int
		want error
	}{{"/a", 11, fault.FilesFull}, {"/a", 10, nil}, {"/b", 1, fault.FilesFull}, {"/d/b", 0, fault.FilesFull}, {"/b", 0, nil}, {"/a", 3, nil}, {"/b", 7, nil}} {
		if err := write(tc.name, tc.n); !errors.Is(err, tc.want) {
			t.Errorf("write %s of %d bytes: %v, want %v", tc.name, tc.n, err, tc.want)
		}
	}
}

// Writers that come in between are waited for, and folders that go while files
// come into them leave no file without its folder.
func TestSessionFilesUnderManyHands(t *testing.T) {
	s, fresh := keptFiles(t, wide)
	f, p := fresh(), permittest.PermitFor(t, t.TempDir(), "version: 1\n")
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 15 {
				_, _, err := f.Write(t.Context(), p, fmt.Sprintf("/d/%d/%d", i%3, w), []byte{byte(i)}, 0)
				if err == nil && w == 0 {
					_, err = f.Delete(t.Context(), p, "/d", true)
				}
				if err != nil && !errors.Is(err, fault.NotFound) && !errors.Is(err, fault.Conflict) {
					t.Errorf("worker %d: %v", w, err)
				}
			}
		})
	}
	wg.Wait()
	all, err := f.All(t.Context(), p, "/")
	for _, x := range all {
		if d, err := f.Stat(t.Context(), p, filepath.Dir(x.Path)); err != nil || !d.Folder {
			t.Errorf("%s is in no folder: %v", x.Path, err)
		}
	}
	if rep, verr := s.Verify(t.Context(), store.VerifyOptions{}); err != nil || verr != nil || len(rep.Problems) > 0 {
		t.Errorf("%v; verify: %v, %+v", err, verr, rep.Problems)
	}
}
