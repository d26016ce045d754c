package database_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/remitrun/remit/internal/record/store/sqlite"
	"github.com/remitrun/remit/internal/service/database"
	"github.com/remitrun/remit/internal/service/home"
)

func TestASharedLedgerIsOpenedOnce(t *testing.T) {
	h := &home.Home{Config: home.Config{Dir: t.TempDir()}}
	s := &database.Shared{}
	first, release, err := s.Open(t.Context(), h, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	second, _, err := s.Open(t.Context(), h, false)
	if err != nil || second != first {
		t.Errorf("another ledger, %v", err)
	}
	if _, err := second.Head(t.Context()); err != nil || s.Stale() {
		t.Errorf("%v, stale %t", err, s.Stale())
	}
	elsewhere, closeIt, err := s.Open(t.Context(), &home.Home{Config: home.Config{Dir: t.TempDir()}}, false)
	if err != nil || elsewhere == first {
		t.Errorf("the ledger of another folder is shared, %v", err)
	} else if err := closeIt(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// Files that were replaced by others of the same size and time show, too.
func TestAReplacedLedgerIsStale(t *testing.T) {
	for _, name := range []string{sqlite.File, "keys/ledger.key", "keys/blob.key", "keys"} {
		h := &home.Home{Config: home.Config{Dir: t.TempDir()}}
		s := &database.Shared{}
		if _, _, err := s.Open(t.Context(), h, false); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(h.Dir, name)
		st, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(file); err == nil {
			err = os.WriteFile(file+".next", b, st.Mode())
			if err == nil {
				err = os.Chtimes(file+".next", st.ModTime(), st.ModTime())
			}
			if err == nil {
				err = os.Rename(file+".next", file)
			}
			if err != nil {
				t.Fatal(err)
			}
		} else if err := os.RemoveAll(file); err != nil {
			t.Fatal(err)
		}
		if !s.Stale() {
			t.Errorf("%s was replaced unnoticed", name)
		}
		_ = s.Close() // of files that are gone
	}
}
