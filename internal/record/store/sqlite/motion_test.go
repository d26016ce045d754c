package sqlite_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
)

// A file that is moved, replaced or removed while it is in use gets no commits. The ledger goes on
// by itself once the same file is back.
func TestAMovedFileGetsNoCommits(t *testing.T) {
	ctx := context.Background()
	moves := map[string]func(home string) (back func() error, err error){}
	for _, name := range []string{sqlite.File, sqlite.File + "-wal", "."} {
		away := func(home string) (from, to string) {
			return filepath.Join(home, name), filepath.Clean(filepath.Join(home, name)) + ".away"
		}
		moves[name+" moved"] = func(home string) (func() error, error) {
			from, to := away(home)
			return func() error { return os.Rename(to, filepath.Clean(from)) }, os.Rename(filepath.Clean(from), to)
		}
		moves[name+" replaced"] = func(home string) (func() error, error) {
			from, to := away(home)
			err := os.Rename(filepath.Clean(from), to)
			if err == nil && name == "." {
				err = os.Mkdir(home, 0o700)
			}
			if err == nil && name != sqlite.File+"-wal" {
				other := must(sqlite.Open(ctx, sqlite.Options{Home: home + ".other"}))
				begin(other)
				err = errors.Join(other.Close(), os.Rename(filepath.Join(home+".other", sqlite.File), filepath.Join(home, sqlite.File)))
			} else if err == nil {
				err = os.WriteFile(from, nil, 0o600)
			}
			return func() error {
				return errors.Join(os.RemoveAll(filepath.Clean(from)), os.Rename(to, filepath.Clean(from)))
			}, err
		}
	}
	for name, move := range moves {
		for _, durability := range []sqlite.Durability{sqlite.Power, sqlite.Process} {
			t.Run(name+"/"+string(durability), func(t *testing.T) {
				home := filepath.Join(t.TempDir(), "home")
				s := openWith(t, sqlite.Options{Home: home, Durability: durability})
				run := begin(s)
				in, out := call(run, 1, true)
				must(s.Append(ctx, in, out))
				back, err := move(home)
				if err != nil {
					t.Fatal(err)
				}
				for i := range 3 {
					in, _ := call(run, 2+i, true)
					if _, err := s.Append(ctx, in); !errors.Is(err, fault.StoreFailed) || !strings.Contains(err.Error(), "was moved, removed or replaced") {
						t.Errorf("an intent is accepted: %v", err)
					}
					_, _ = s.Runs(ctx, store.RunFilter{}) // may read another file
				}
				if err := back(); err != nil {
					t.Fatal(err)
				}
				in, out = call(run, 2, true)
				must(s.Append(ctx, in, out))
				if list := must(s.Runs(ctx, store.RunFilter{})); len(list) != 1 || list[0].Seq != run || list[0].Completed != 2 {
					t.Errorf("the runs are %+v", list)
				}
				sound(t, s, nil)
			})
		}
	}
}

// A process without a free file descriptor refuses entries or writes them. Afterwards it goes on.
func TestNoFreeFileDescriptorIsNoLastingError(t *testing.T) {
	ctx := context.Background()
	for n := range 12 { // how many descriptors are free
		s := openWith(t, sqlite.Options{Home: t.TempDir()})
		var was unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
			t.Fatal(err)
		}
		run, acknowledged := ledger.Seq(0), 0
		highest := must(os.Open(os.DevNull))
		low := unix.Rlimit{Cur: uint64(highest.Fd()) + uint64(n), Max: was.Max}
		if err := errors.Join(highest.Close(), unix.Setrlimit(unix.RLIMIT_NOFILE, &low)); err != nil {
			t.Fatal(err)
		}
		id := [16]byte{1}
		start := ledger.Entry{Event: ledger.Event{Kind: ledger.RunStarted, At: 1, ID: id[:], Mode: ledger.Live, Name: "run", Total: 2}}
		var errs []error
		for range 3 {
			if run == 0 {
				seq, err := s.Append(ctx, start)
				if run = seq; err != nil {
					errs = append(errs, err)
					continue
				}
			}
			in, out := call(run, acknowledged+1, true)
			if _, err := s.Append(ctx, in, out); err == nil {
				acknowledged++
			} else {
				errs = append(errs, err)
			}
			_, err := s.Runs(ctx, store.RunFilter{})
			errs = append(errs, err)
		}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
			t.Fatal(err)
		}
		for _, err := range errs {
			if err != nil && (!errors.Is(err, fault.StoreFailed) || !strings.Contains(err.Error(), "too many files are open")) {
				t.Errorf("with %d free descriptors: %v", n, err)
			}
		}
		if run == 0 {
			run = must(s.Append(ctx, start))
		}
		in, out := call(run, acknowledged+1, true)
		must(s.Append(ctx, in, out))
		rep := must(s.Verify(ctx, store.VerifyOptions{}))
		if !rep.OK || rep.Events != uint64(1+2*(acknowledged+1)) {
			t.Errorf("with %d free descriptors: %d calls of %d events, problems %+v", n, acknowledged+1, rep.Events, rep.Problems)
		}
	}
}
