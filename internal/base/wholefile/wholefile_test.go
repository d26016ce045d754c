package wholefile_test

import (
	"bytes"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/remitrun/remit/internal/base/wholefile"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("ten"), []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("ten", at("link")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(at("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, read := range []func(string, int64) ([]byte, error){wholefile.Read, wholefile.ReadRegular} {
		for _, name := range []string{"ten", "link"} {
			if b, err := read(at(name), 10); err != nil || string(b) != "0123456789" {
				t.Errorf("%s: %q, %v", name, b, err)
			}
			if _, err := read(at(name), 9); err == nil || !strings.Contains(err.Error(), "larger than 9 bytes") {
				t.Errorf("%s with a byte too many: %v", name, err)
			}
		}
		if _, err := read(at("none"), 9); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a missing file: %v", err)
		}
	}
	for _, name := range []string{"fifo", "socket", "."} {
		if _, err := wholefile.ReadRegular(at(name), 10); !errors.Is(err, wholefile.ErrNotRegular) {
			t.Errorf("%s: %v", name, err)
		}
	}
	go func() { _ = os.WriteFile(at("fifo"), []byte("said"), 0) }()
	if b, err := wholefile.Read(at("fifo"), 10); err != nil || string(b) != "said" {
		t.Errorf("a pipe that was named: %q, %v", b, err)
	}
}

// A reader sees one of the versions, whole, and nothing is left beside the file.
func TestReplaceIsWhole(t *testing.T) {
	name := filepath.Join(t.TempDir(), "state.json")
	version := func(i int) []byte { return bytes.Repeat([]byte{byte('a' + i)}, 1<<16+i) }
	if err := wholefile.Replace(name, version(0)); err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for w := range 3 {
		writers.Go(func() {
			for i := range 5 {
				if err := wholefile.Replace(name, version(5*w+i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { writers.Wait(); close(done) }()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		b, err := wholefile.ReadRegular(name, 1<<20)
		if err != nil || !bytes.Equal(b, version(int(b[0]-'a'))) {
			t.Fatalf("%d bytes, %v", len(b), err)
		}
	}
	st, err := os.Stat(name)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if list, err := os.ReadDir(filepath.Dir(name)); err != nil || len(list) != 1 {
		t.Errorf("beside the file: %v, %v", list, err)
	}
}

// What cannot be replaced stays as it was.
func TestReplaceFails(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "folder")
	if err := os.MkdirAll(filepath.Join(name, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := wholefile.Replace(name, nil); err == nil {
		t.Error("a folder was replaced")
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
		t.Errorf("left: %v, %v", list, err)
	}
	if err := wholefile.Replace(filepath.Join(dir, "none", "f"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a folder: %v", err)
	}
}

func TestLock(t *testing.T) {
	name := filepath.Join(t.TempDir(), "made", "lock")
	var holders atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				unlock, err := wholefile.Lock(name)
				if err != nil {
					t.Error(err)
					return
				}
				if n := holders.Add(1); n != 1 {
					t.Errorf("%d hold it", n)
				}
				runtime.Gosched()
				holders.Add(-1)
				unlock()
			}
		})
	}
	all.Wait()
	link := filepath.Join(filepath.Dir(name), "link")
	if err := os.Symlink("elsewhere", link); err != nil {
		t.Fatal(err)
	}
	if _, err := wholefile.Lock(link); err == nil {
		t.Error("a link was followed")
	}
}
