package changeset_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/changeset"
)

// copies counts the contents that are kept.
func copies(t *testing.T, p place) (n int) {
	t.Helper()
	must(t, filepath.WalkDir(filepath.Join(p.dir, "home", "undo", "blobs"), func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			n++
		}
		return err
	}))
	return n
}

// aged makes a finished changeset or log look old.
func aged(t *testing.T, p place, what string, age time.Duration) {
	t.Helper()
	at := time.Now().Add(-age)
	must(t, os.Chtimes(filepath.Join(p.dir, "home", what), at, at))
}

// stocked has an applied changeset, one that waits after a part was applied,
// and a log of file tools; each keeps a copy of its own and one in common.
func stocked(t *testing.T) place {
	t.Helper()
	p := newPlace(t)
	write := func(run, name string) *changeset.Set {
		put(t, p.ws, map[string]string{name: strings.Repeat(name, 1000), name + "-same": "same"})
		return p.reviewed(t, run, func(root string) {
			put(t, root, map[string]string{name: "new " + name, name + "-same": "other " + name, name + "-left": "x"})
		})
	}
	_, err := write("applied", "a").Apply(t.Context(), anything)
	must(t, err)
	_, err = write("waiting", "b").Apply(t.Context(), anything, "b")
	must(t, err)
	put(t, p.ws, map[string]string{"c": strings.Repeat("c", 1000)})
	l := p.home.Log("tools")
	dir, err := os.Open(p.ws)
	must(t, err)
	must(t, l.Before(p.ws+"/c", int(dir.Fd()), "c"), os.WriteFile(p.ws+"/c", []byte("new"), 0o644),
		l.After(p.ws+"/c", int(dir.Fd()), "c"), l.Close(), dir.Close())
	return p
}

func TestSweep(t *testing.T) {
	const month = 30 * 24 * time.Hour
	tests := map[string]struct {
		keep    changeset.Retention
		old     []string // what is two months old
		removed int
		copies  int // of four
		undo    map[string]bool
	}{
		"nothing is old":      {changeset.Retention{Age: month}, nil, 0, 4, map[string]bool{"applied": true, "tools": true, "waiting": true}},
		"an old changeset":    {changeset.Retention{Age: month}, []string{"changes/applied/state.json"}, 1, 2, map[string]bool{"applied": false, "tools": true}},
		"an old log":          {changeset.Retention{Age: month}, []string{"undo/runs/ls/tools.jsonl"}, 1, 3, map[string]bool{"applied": true, "tools": false}},
		"one that waits":      {changeset.Retention{Age: month}, []string{"changes/waiting/state.json"}, 0, 4, map[string]bool{"waiting": true}},
		"for ever":            {changeset.Retention{}, []string{"changes/applied/state.json"}, 0, 4, map[string]bool{"applied": true}},
		"too much, by age":    {changeset.Retention{Bytes: 2500}, []string{"undo/runs/ls/tools.jsonl"}, 1, 3, map[string]bool{"applied": true, "tools": false}},
		"far too much":        {changeset.Retention{Bytes: 1}, nil, 2, 1, map[string]bool{"applied": false, "tools": false, "waiting": true}},
		"a crash's leftovers": {changeset.Retention{}, []string{"undo/blobs/new-x"}, 0, 4, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := stocked(t)
			must(t, os.WriteFile(filepath.Join(p.dir, "home/undo/blobs/new-x"), nil, 0o600))
			for _, o := range tc.old {
				aged(t, p, o, 2*month)
			}
			got, err := p.home.Sweep(tc.keep)
			must(t, err)
			if name != "a crash's leftovers" {
				must(t, os.Remove(filepath.Join(p.dir, "home/undo/blobs/new-x")))
			}
			if n := copies(t, p); got.Removed != tc.removed || n != tc.copies || got.Waiting != 1 {
				t.Errorf("%+v with %d copies, want %d removed and %d copies", got, n, tc.removed, tc.copies)
			}
			for run, can := range tc.undo {
				_, err := p.home.Undo(run)
				if can {
					must(t, err)
				} else {
					wantCode(t, err, fault.NotFound)
				}
			}
		})
	}
}

// A sweep stays away while copies are being kept, and comes once a day.
func TestSweepDaily(t *testing.T) {
	p := stocked(t)
	first, err := p.home.SweepDaily(changeset.Retention{Bytes: 1})
	must(t, err)
	again, err := p.home.SweepDaily(changeset.Retention{Bytes: 1})
	must(t, err)
	if first.Removed != 2 || again != (changeset.Kept{}) {
		t.Errorf("first %+v, then %+v", first, again)
	}
	k, err := p.home.Kept()
	must(t, err)
	if k.Waiting != 1 || k.Over != 0 || k.Bytes != 1000 || time.Since(k.Swept) > time.Hour {
		t.Errorf("it says %+v", k)
	}
	if none, err := changeset.In(filepath.Join(p.dir, "none")).SweepDaily(changeset.Retention{Bytes: 1}); err != nil || none != (changeset.Kept{}) {
		t.Errorf("where nothing is: %+v, %v", none, err)
	}
	if _, err := os.Lstat(filepath.Join(p.dir, "none")); err == nil {
		t.Error("a sweep made a folder")
	}
}

// A run's log is kept while the run goes on, however little may be kept.
func TestSweepLeavesARunThatGoesOn(t *testing.T) {
	p := newPlace(t)
	put(t, p.ws, map[string]string{"f": "old"})
	dir, err := os.Open(p.ws)
	must(t, err)
	defer func() { must(t, dir.Close()) }()
	l := p.home.Log("run")
	write := func(content string) {
		must(t, l.Before(p.ws+"/f", int(dir.Fd()), "f"), os.WriteFile(p.ws+"/f", []byte(content), 0o644), l.After(p.ws+"/f", int(dir.Fd()), "f"))
	}
	write("1")
	if k, err := p.home.Sweep(changeset.Retention{Bytes: 1}); err != nil || k.Removed != 0 {
		t.Errorf("a sweep did %+v, %v", k, err)
	}
	_, err = p.home.Undo("run")
	wantCode(t, err, fault.Conflict)
	if err == nil || !strings.Contains(err.Error(), "run run goes on") {
		t.Errorf("it says %v", err)
	}
	write("2")
	must(t, l.Close())
	if err := l.Before(p.ws+"/f", int(dir.Fd()), "f"); err == nil {
		t.Error("a closed log was opened once more")
	}
	_, err = p.home.Undo("run")
	must(t, err)
	if got := snapshot(t, p.ws); got != "\"f\" -rw-r--r-- \"old\"\n" {
		t.Errorf("undone\n%s", got)
	}
}

// A run whose process was killed can be undone: its lock went with it.
func TestUndoOfAKilledRun(t *testing.T) {
	p := newPlace(t)
	put(t, p.ws, map[string]string{"f": "old"})
	if !killed(t, p, "log", 1) {
		t.Fatal("it was not killed")
	}
	if got := snapshot(t, p.ws); got != "\"f\" -rw-r--r-- \"new\"\n" {
		t.Fatalf("it wrote\n%s", got)
	}
	_, err := p.home.Undo("run", p.ws+"/f")
	must(t, err)
	if got := snapshot(t, p.ws); got != "\"f\" -rw-r--r-- \"old\"\n" {
		t.Errorf("undone\n%s", got)
	}
}

// What is kept is counted without reading the logs, as there may be very many.
func TestKeptDoesNotReadLogs(t *testing.T) {
	p := stocked(t)
	was, err := p.home.Kept()
	must(t, err)
	put(t, filepath.Join(p.dir, "home/undo/runs/le"), map[string]string{"unreadable.jsonl": "no log\n"})
	is, err := p.home.Kept()
	must(t, err)
	if was.Over == 0 || is.Over != was.Over+1 || is.Bytes != was.Bytes || is.Waiting != was.Waiting {
		t.Errorf("with one log more it says %+v, before %+v", is, was)
	}
	if _, err := p.home.Sweep(changeset.Retention{}); err == nil {
		t.Error("a sweep removes data although it cannot know what a log refers to")
	}
}
