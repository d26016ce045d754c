package changeset_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A process that dies while it makes a changeset leaves folders that say nothing.
func TestWhatWasNeverMadeIsDropped(t *testing.T) {
	p := newPlace(t)
	_, err := p.home.Begin("made", p.ws)
	must(t, err)
	changes := filepath.Join(p.dir, "home", "changes")
	old := time.Now().Add(-2 * time.Hour)
	for name, made := range map[string][]string{"bare": nil, "half": {"upper"}, "most": {"upper", "work"}, "fresh": {"upper"}, "written": {"upper/x"}} {
		must(t, os.MkdirAll(filepath.Join(changes, name), 0o700))
		for _, d := range made {
			must(t, os.MkdirAll(filepath.Join(changes, name, d), 0o700))
		}
		if name != "fresh" {
			must(t, os.Chtimes(filepath.Join(changes, name), old, old))
		}
	}
	must(t, os.Chtimes(filepath.Join(changes, "made"), old, old))
	must(t, p.home.DropUnmade(time.Now().Add(-time.Hour)))
	for name, stays := range map[string]bool{"bare": false, "half": false, "most": false, "fresh": true, "written": true, "made": true} {
		if _, err := os.Lstat(filepath.Join(changes, name)); (err == nil) != stays {
			t.Errorf("%s: %v, it should stay: %v", name, err, stays)
		}
	}
}
