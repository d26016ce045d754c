package files_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/files"
)

// A process can set every time of a file but the one of its last change.
func TestChangedSince(t *testing.T) {
	dir := t.TempDir()
	write := func(name string) string {
		t.Helper()
		p := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(name), 0o600)); err != nil {
			t.Fatal(err)
		}
		return p
	}
	old, moved := write("old"), write("moved")
	changed := func(since files.Moment) []string {
		t.Helper()
		var got []string
		err := files.ChangedSince(context.Background(), []string{dir}, since, func(p string) error {
			rel, err := filepath.Rel(dir, p)
			got = append(got, rel)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(got)
		return got
	}
	since := files.Now()
	for slices.Contains(changed(since), "old") { // until the clock of stamps has moved on
		since = files.Now()
	}
	set := write("deep/set back")
	if err := errors.Join(os.Chtimes(set, time.Unix(1, 0), time.Unix(1, 0)), os.Rename(moved, filepath.Join(dir, "to")),
		os.Symlink(old, filepath.Join(dir, "link")), os.Link(set, filepath.Join(dir, "twin"))); err != nil {
		t.Fatal(err)
	}
	if got, want := changed(since), []string{"deep/set back", "to", "twin"}; !slices.Equal(got, want) {
		t.Errorf("changed are %q, want %q", got, want)
	}
	if err := files.ChangedSince(context.Background(), []string{filepath.Join(dir, "none")}, since, nil); err != nil {
		t.Errorf("a folder that is not there: %v", err)
	}
}

func TestContentIn(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	p := filepath.Join(dir, "a")
	if err := errors.Join(os.WriteFile(p, []byte("abc"), 0o600), os.Symlink(p, filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	yes := func(int64) (bool, error) { return true, nil }
	const sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	for name, want := range map[string]files.Content{"a": {Size: 3, SHA256: sum}, ".": {Folder: true}, "link": {}} {
		if got, err := files.ContentIn(ctx, nil, tool.Env{}, filepath.Join(dir, name), yes); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, want)
		}
	}
	if got, err := files.ContentIn(ctx, nil, tool.Env{}, p, func(n int64) (bool, error) { return n > 3, nil }); err != nil || got != (files.Content{Size: 3}) {
		t.Errorf("unread: %+v, %v", got, err)
	}
	if _, err := files.ContentIn(ctx, nil, tool.Env{}, filepath.Join(dir, "none"), yes); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of nothing: %v", err)
	}
}

func TestTopMost(t *testing.T) {
	if got, want := files.TopMost([]string{"/w/a", "/w/ab", "/w/a/b", "/w/a", "/x"}), []string{"/w/a", "/w/ab", "/x"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := files.TopMost([]string{"/w", "/"}); !slices.Equal(got, []string{"/"}) {
		t.Errorf("%q, want the root", got)
	}
}
