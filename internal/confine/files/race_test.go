//go:build linux

package files_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/confine/files"
)

// rounds is 2,000, or what REMIT_SOAK_RACES says.
func rounds(t *testing.T) int {
	n, err := strconv.Atoi(os.Getenv("REMIT_SOAK_RACES"))
	if err != nil {
		return 2000
	}
	t.Logf("%d rounds", n)
	return n
}

// flip runs change over and over until the test's body is done.
func flip(t *testing.T, change func() error, body func()) {
	t.Helper()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if err := change(); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	body()
	close(stop)
	wg.Wait()
}

func exchange(a, b string) func() error {
	return func() error { return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE) }
}

// TestSwappedFolder flips p between a folder of the workspace and a link to a
// folder outside while everything is tried beneath it.
func TestSwappedFolder(t *testing.T) {
	l := newPlace(t, everything)
	l.put(t, "p/f", "inside")
	l.link(t, "q", "../out")
	n, fooled := rounds(t), 0
	var ok [6]int
	flip(t, exchange(l.ws+"/p", l.ws+"/q"), func() {
		for i := range n {
			if b, err := os.ReadFile(l.ws + "/p/f"); err == nil && string(b) == canary {
				fooled++
			}
			tryAll(t, l, i, &ok)
		}
	})
	t.Logf("an unguarded read was fooled %d times of %d; operations that went through: %v", fooled, n, ok)
	if fooled == 0 || ok[0] == 0 || ok[1] == 0 {
		t.Error("the race did not happen: nothing was tested")
	}
	l.outsideIs(t)
	for _, dir := range []string{l.ws, l.ws + "/p", l.ws + "/q"} {
		noLitter(t, dir)
	}
}

// tryAll does one round of every operation; errors are fine, leaks are not.
func tryAll(t *testing.T, l place, i int, ok *[6]int) {
	count := func(n int, err error) {
		if err == nil {
			ok[n]++
		} else if strings.Contains(err.Error(), canary) {
			t.Fatalf("a message leaks: %v", err)
		}
	}
	if f, err := l.f.Open("p/f"); err == nil {
		b, rerr := io.ReadAll(f)
		count(0, rerr)
		if string(b) == canary {
			t.Fatalf("round %d read the secret", i)
		}
		must(t, f.Close())
	}
	_, err := l.f.Write("p/f", []byte("inside"), files.WriteOptions{Mode: files.Replace})
	count(1, err)
	_, err = l.f.Write("p/g/h", []byte("x"), files.WriteOptions{Mode: files.Replace, Parents: true})
	count(2, err)
	_, err = l.f.Write("p/log", []byte("x"), files.WriteOptions{Mode: files.Append})
	count(3, err)
	_, err = l.f.RemoveAll(t.Context(), "p/g")
	count(4, err)
	count(5, l.f.Rename(context.Background(), "p/log", "p/log2", true, false))
}

// TestSwappedName flips the last name between a file and a link to the secret.
func TestSwappedName(t *testing.T) {
	l := newPlace(t, everything)
	l.put(t, "f", "inside")
	l.link(t, "l", "../out/f")
	n, fooled, read, wrote := rounds(t), 0, 0, 0
	flip(t, exchange(l.ws+"/f", l.ws+"/l"), func() {
		for i := range n {
			if b, err := os.ReadFile(l.ws + "/f"); err == nil && string(b) == canary {
				fooled++
			}
			b, err := l.f.ReadAll("f")
			if string(b) == canary {
				t.Fatalf("round %d read the secret", i)
			}
			if err == nil {
				read++
			}
			if _, err := l.f.Write("f", []byte("x"), files.WriteOptions{Mode: files.Append}); err == nil {
				wrote++
			}
		}
	})
	t.Logf("an unguarded read was fooled %d times of %d; %d reads, %d appends", fooled, n, read, wrote)
	if fooled == 0 || read == 0 || wrote == 0 {
		t.Error("the race did not happen: nothing was tested")
	}
	l.outsideIs(t)
}

// TestMovedFolder moves a folder out of the workspace and back while it is
// walked and read.
func TestMovedFolder(t *testing.T) {
	l := newPlace(t, everything)
	l.put(t, "a/b/c/f", "inside")
	away := filepath.Join(filepath.Dir(l.ws), "away")
	there := false
	move := func() error {
		there = !there
		if there {
			return os.Rename(l.ws+"/a", away)
		}
		return os.Rename(away, l.ws+"/a")
	}
	seen := 0
	flip(t, move, func() {
		for range rounds(t) {
			_, _ = l.f.Walk(t.Context(), ".", func(e files.Entry) error {
				if e.Name == "out" || e.Name == "ws" || !strings.HasPrefix(e.Path, "a") {
					t.Errorf("the walk left the workspace: %q", e.Path)
				}
				seen++
				return nil
			})
			if b, err := l.f.ReadAll("a/b/../b/c/f"); err == nil && string(b) != "inside" {
				t.Errorf("read %q", b)
			}
		}
	})
	if seen == 0 {
		t.Error("nothing was walked")
	}
	l.outsideIs(t)
}
