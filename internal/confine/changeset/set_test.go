package changeset_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/changeset"
	"github.com/remitrun/remit/internal/confine/files"
)

func wantCode(t *testing.T, err error, want fault.Code) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
}

func unrecorded() error { return nil }

func TestStates(t *testing.T) {
	p := newPlace(t)
	put(t, p.ws, map[string]string{"f": "old", "d/x": "x"})
	s := p.held(t, "run", func(root string) {
		put(t, root, map[string]string{"f": "new", "sub/a": "a", "sub/b": "b"})
		must(t, os.RemoveAll(root+"/d"))
	})
	_, err := s.Apply(t.Context(), anything)
	wantCode(t, err, fault.Conflict) // it goes on
	wantCode(t, s.Discard(unrecorded), fault.Conflict)
	_, err = s.Review(t.Context(), anything)
	must(t, err)
	_, err = s.Review(t.Context(), anything)
	wantCode(t, err, fault.Conflict)
	_, err = s.Apply(t.Context(), anything, "none")
	wantCode(t, err, fault.NotFound)

	done, err := s.Apply(t.Context(), anything, "sub/a")
	must(t, err)
	if got := list(done); got != "added sub\nadded sub/a\n" {
		t.Errorf("a new file came with\n%s", got)
	}
	left, err := s.Changes(t.Context(), anything)
	must(t, err)
	if got := list(left); got != "deleted d\ndeleted d/x\nmodified f\nadded sub/b\n" || s.State() != changeset.Review {
		t.Errorf("%s with\n%s", s.State(), got)
	}
	_, err = s.Apply(t.Context(), anything)
	must(t, err)
	if s.State() != changeset.Applied {
		t.Errorf("it is %s", s.State())
	}
	_, upper, _ := s.Layers()
	if _, err := os.Lstat(upper); err == nil {
		t.Error("the upper layer is still there")
	}
	_, err = s.Apply(t.Context(), anything)
	wantCode(t, err, fault.Conflict) // twice
	wantCode(t, s.Discard(unrecorded), fault.Conflict)
	again, err := p.home.Load("run")
	must(t, err)
	if all, err := again.Changes(t.Context(), anything); err != nil || len(all) != 6 {
		t.Errorf("what was applied cannot be listed: %v, %v", list(all), err)
	}
	_, err = p.home.Undo("run")
	must(t, err)
	if got := snapshot(t, p.ws); got != "\"d\" drwxr-xr-x \"\"\n\"d/x\" -rw-r--r-- \"x\"\n\"f\" -rw-r--r-- \"old\"\n" {
		t.Errorf("undone\n%s", got)
	}
	_, err = p.home.Undo("run")
	wantCode(t, err, fault.NotFound)

	s = p.reviewed(t, "other", func(root string) { put(t, root, map[string]string{"f": "new"}) })
	must(t, s.Discard(unrecorded))
	if b, err := os.ReadFile(p.ws + "/f"); err != nil || string(b) != "old" || s.State() != changeset.Rejected {
		t.Errorf("%s with %q, %v", s.State(), b, err)
	}
	_, err = s.Apply(t.Context(), anything)
	wantCode(t, err, fault.Conflict)
	_, err = p.home.Undo("other")
	wantCode(t, err, fault.NotFound)
	_, err = p.home.Load("unknown")
	wantCode(t, err, fault.NotFound)
}

func TestUndoRefusesWhatChangedSince(t *testing.T) {
	p := newPlace(t)
	put(t, p.ws, map[string]string{"f": "old", "g": "old"})
	s := p.reviewed(t, "run", func(root string) { put(t, root, map[string]string{"f": "new", "g": "new", "made/x": "x"}) })
	_, err := s.Apply(t.Context(), anything)
	must(t, err)
	put(t, p.ws, map[string]string{"f": "theirs", "made/theirs": "t"})
	before := snapshot(t, p.ws)
	_, err = p.home.Undo("run")
	wantCode(t, err, fault.Conflict)
	if err == nil || !strings.Contains(err.Error(), `"f"`) || strings.Contains(err.Error(), `"g"`) {
		t.Errorf("it names not what changed: %v", err)
	}
	if got := snapshot(t, p.ws); got != before {
		t.Errorf("something was undone:\n%s", got)
	}
	_, err = p.home.Undo("run", "h")
	wantCode(t, err, fault.NotFound)
	back, err := p.home.Undo("run", "f")
	must(t, err)
	if len(back.Kept) != 1 || back.Kept[0] != "made" {
		t.Errorf("kept %v, want the folder that holds something else", back.Kept)
	}
	want := "\"f\" -rw-r--r-- \"old\"\n\"g\" -rw-r--r-- \"old\"\n\"made\" drwxr-xr-x \"\"\n\"made/theirs\" -rw-r--r-- \"t\"\n"
	if got := snapshot(t, p.ws); got != want {
		t.Errorf("undone\n%s", got)
	}
}

func TestOddWorkspaces(t *testing.T) {
	p := newPlace(t)
	must(t, os.Symlink("ws", p.dir+"/link"))
	_, err := p.home.Begin("link", p.dir+"/link")
	wantCode(t, err, fault.Usage)
	_, err = p.home.Begin("none", p.dir+"/none")
	wantCode(t, err, fault.Usage)
	_, err = p.home.Begin("outer", p.dir)
	wantCode(t, err, fault.Usage) // Remit's own folder lies inside
	_, err = p.home.Begin("../x", p.ws)
	wantCode(t, err, fault.Internal)

	s := p.reviewed(t, "run", func(root string) { put(t, root, map[string]string{"f": "new"}) })
	must(t, os.Rename(p.ws, p.ws+".old"))
	_, err = s.Apply(t.Context(), anything)
	wantCode(t, err, fault.NotFound)
	must(t, os.Symlink("ws.old", p.ws))
	if _, err = s.Apply(t.Context(), anything); err == nil {
		t.Error("applied through a link")
	}
	must(t, os.Remove(p.ws), os.Mkdir(p.ws, 0o755))
	_, err = s.Apply(t.Context(), anything)
	wantCode(t, err, fault.Conflict) // another folder
	must(t, os.Remove(p.ws), os.Rename(p.ws+".old", p.ws))
	_, err = s.Apply(t.Context(), anything)
	must(t, err)
}

// Of many who apply at once one does.
func TestApplyAtOnce(t *testing.T) {
	p := newPlace(t)
	files := map[string]string{}
	for i := range 200 {
		files[fmt.Sprintf("d%d/f%d", i%7, i)] = "x"
	}
	p.reviewed(t, "run", func(root string) { put(t, root, files) })
	var won atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			s, err := p.home.Load("run")
			if err == nil {
				_, err = s.Apply(t.Context(), anything)
			}
			if err == nil {
				won.Add(1)
			} else if !errors.Is(err, fault.Conflict) {
				t.Errorf("got %v", err)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Errorf("%d applied it", won.Load())
	}
	if left, err := filepath.Glob(p.ws + "/*/.remit-*"); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A discard is recorded only where it takes place, and takes place only where
// it is recorded.
func TestDiscardIsRecorded(t *testing.T) {
	p := newPlace(t)
	s := p.reviewed(t, "run", func(root string) { put(t, root, map[string]string{"f": "new"}) })
	late, err := p.home.Load("run") // before it is applied
	must(t, err)
	full := errors.New("the ledger is full")
	if err := s.Discard(func() error { return full }); !errors.Is(err, full) || s.State() != changeset.Review {
		t.Errorf("not recorded, it is %s, %v", s.State(), err)
	}
	must(t, s.Discard(func() error {
		_, err := late.Apply(t.Context(), anything)
		wantCode(t, err, fault.Conflict) // not in between
		return nil
	}))
	wantCode(t, late.Discard(func() error {
		t.Error("what is over was recorded as discarded")
		return nil
	}), fault.Conflict)
}

// Tools and commands take turns at the layers.
func TestHoldTakesTurns(t *testing.T) {
	p := newPlace(t)
	s, err := p.home.Begin("run", p.ws)
	must(t, err)
	h := s.Hold(p.box.Overlay)
	_, leave, err := h.Enter(t.Context())
	if err != nil {
		t.Skip(err)
	}
	_, inner, err := h.Enter(t.Context()) // once more, as a move does
	must(t, err)
	inner()
	soon, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, _, _, _, err = h.Alone(soon)
	wantCode(t, err, fault.ToolCancelled)
	leave()
	_, _, _, done, err := h.Alone(t.Context())
	must(t, err)
	entered := make(chan struct{})
	go func() {
		_, leave, err := h.Enter(t.Context())
		if err == nil {
			leave()
		}
		close(entered)
	}()
	select {
	case <-entered:
		t.Error("a tool came in while a command was alone")
	case <-time.After(20 * time.Millisecond):
	}
	soon, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, _, err = h.Enter(soon) // nor does it wait once it is cancelled
	wantCode(t, err, fault.ToolCancelled)
	_, _, err = files.ResolveIn(soon, h, tool.Env{Workspace: p.ws}, "f") // nor does a decision
	wantCode(t, err, fault.ToolCancelled)
	done()
	<-entered
	h.Close()
	_, _, err = h.Enter(t.Context())
	wantCode(t, err, fault.HandleRefused)
}

// The log of a run that is not held.
func TestLog(t *testing.T) {
	p := newPlace(t)
	put(t, p.ws, map[string]string{"f": "old", "gone": "g", "d/x": "x"})
	before := snapshot(t, p.ws)
	l := p.home.Log("run")
	dir, err := unix.Open(p.ws, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must(t, err)
	defer unix.Close(dir)
	change := func(name string, do func(p string) error) {
		must(t, l.Before(p.ws+"/"+name, dir, name), do(p.ws+"/"+name), l.After(p.ws+"/"+name, dir, name))
	}
	write := func(s string) func(string) error {
		return func(p string) error { return os.WriteFile(p, []byte(s), 0o644) }
	}
	change("f", write("1"))
	change("f", write("2"))
	change("gone", os.Remove)
	change("new", write("n"))
	change("made", func(p string) error { return os.Mkdir(p, 0o755) })
	change("link", func(p string) error { return os.Symlink("f", p) })
	must(t, l.Before(p.ws+"/f", dir, "f")) // an effect that never came
	must(t, l.Close())
	back, err := p.home.Undo("run")
	must(t, err)
	if got := snapshot(t, p.ws); got != before {
		t.Errorf("undone\n%s\nwant\n%s", got, before)
	}
	if len(back.Restored) != 5 || !strings.HasPrefix(back.Restored[0].Path, p.ws) {
		t.Errorf("it did %s", list(back.Restored))
	}
	_, err = p.home.Undo("run")
	wantCode(t, err, fault.Conflict)
	_, err = p.home.Undo("nothing")
	wantCode(t, err, fault.NotFound)
}

// What file tools wrote is put back only where it is still what they left.
func TestLogUndoRefusesWhatChangedSince(t *testing.T) {
	p := newPlace(t)
	put(t, p.ws, map[string]string{"f": "old", "g": "old"})
	l := p.home.Log("run")
	dir, err := unix.Open(p.ws, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must(t, err)
	defer unix.Close(dir)
	for _, name := range []string{"f", "g"} {
		must(t, l.Before(p.ws+"/"+name, dir, name), os.WriteFile(p.ws+"/"+name, []byte("new"), 0o644), l.After(p.ws+"/"+name, dir, name))
	}
	must(t, l.Close())
	put(t, p.ws, map[string]string{"f": "theirs"})
	before := snapshot(t, p.ws)
	_, err = p.home.Undo("run")
	wantCode(t, err, fault.Conflict)
	if err == nil || !strings.Contains(err.Error(), `/ws/f"`) || strings.Contains(err.Error(), `/ws/g"`) {
		t.Errorf("it names %v", err)
	}
	if got := snapshot(t, p.ws); got != before {
		t.Errorf("something was put back:\n%s", got)
	}
	_, err = p.home.Undo("run", p.ws+"/f")
	must(t, err)
	if got := snapshot(t, p.ws); got != "\"f\" -rw-r--r-- \"old\"\n\"g\" -rw-r--r-- \"old\"\n" {
		t.Errorf("undone\n%s", got)
	}
}

func TestText(t *testing.T) {
	p := newPlace(t)
	put(t, p.ws, map[string]string{"text": "a\nb\n", "bin": "a\x00", "gone": "x\n"})
	s := p.reviewed(t, "run", func(root string) {
		put(t, root, map[string]string{"text": "a\nc\n", "bin": "b\x00", "new-bin": "\xff\xfe", "big": strings.Repeat("x", 1<<20+1), "empty": ""})
		must(t, os.Remove(root+"/gone"), os.Symlink("text", root+"/link"))
	})
	changes, err := s.Changes(t.Context(), anything)
	must(t, err)
	want := map[string]string{"text": "-b\n+c\n", "gone": "-x\n", "link": "+-> text\n", "empty": "", "bin": "binary", "new-bin": "binary", "big": "over 1 MiB"}
	for _, c := range changes {
		got, err := s.Text(c)
		must(t, err)
		w, shown := want[c.Path], got.Omitted
		for _, h := range got.Diff.Hunks {
			for _, l := range h.Lines {
				shown += l.Sign() + l.Text + "\n"
			}
		}
		if w == "" && shown != "" || !strings.Contains(shown, w) {
			t.Errorf("%s is shown as %q, want %q", c.Path, shown, w)
		}
	}
}

// Ten thousand changed files.
func BenchmarkDiffApply(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		p := newPlace(b)
		old, changed := map[string]string{}, map[string]string{}
		for i := range 10_000 {
			name := fmt.Sprintf("d%d/e%d/file%d.go", i%10, i%100, i)
			old[name], changed[name] = "package old // "+name, "package changed // "+name
		}
		put(b, p.ws, old)
		s := p.held(b, "run", func(root string) { put(b, root, changed) })
		b.StartTimer()
		_, err := s.Review(b.Context(), anything)
		must(b, err)
		_, err = s.Apply(b.Context(), anything)
		must(b, err)
	}
}
