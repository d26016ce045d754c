// Package walktest fills folders as a hostile command could, and checks the walks that
// Remit takes through them. Start at [Hostile] and [Check].
package walktest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/walk"
)

// Tree is one kind of hostile content.
type Tree struct {
	Name   string
	Fill   func(t testing.TB, dir string)
	Names  int  // that a whole walk visits; 0: not counted
	Deep   bool // some names are deeper than a path can name
	Closed bool // an ordinary user cannot read some folders
}

// Trees are all kinds. REMIT_SOAK makes the wide ones as large as the limits of Remit.
func Trees() []Tree {
	const levels = 10_000
	many := 20_000
	if os.Getenv("REMIT_SOAK") != "" {
		many = 1_000_000
	}
	long := strings.Repeat("n", 255)
	return []Tree{
		{Name: "empty", Fill: func(testing.TB, string) {}},
		{Name: "as deep as a path", Fill: func(t testing.TB, dir string) { Nest(t, dir, "d", 1800) }, Names: 1801},
		{Name: "short and deep", Fill: func(t testing.TB, dir string) { Nest(t, dir, "d", levels) }, Deep: true},
		{Name: "long and deep", Fill: func(t testing.TB, dir string) { Nest(t, dir, long, levels/10) }, Deep: true},
		{Name: "many names", Fill: func(t testing.TB, dir string) { Crowd(t, dir, many, 255, false) }, Names: many},
		{Name: "many folders", Fill: func(t testing.TB, dir string) { Crowd(t, dir, many/8, 12, true) }, Names: many / 8},
		{Name: "several deep folders", Fill: several, Names: 3 * (1 + 201)},
		{Name: "links in a circle", Fill: circle, Names: 5},
		{Name: "special files", Fill: special},
		{Name: "closed folders", Fill: closed, Closed: true},
	}
}

// Hostile makes a folder with a folder for each kind but some.
func Hostile(t testing.TB, without ...string) string {
	t.Helper()
	dir := Folder(t)
	for _, tree := range Trees() {
		if slices.Contains(without, tree.Name) {
			continue
		}
		at := filepath.Join(dir, tree.Name)
		must(t, os.Mkdir(at, 0o755))
		tree.Fill(t, at)
	}
	return dir
}

// Folder makes a folder that package walk removes, in memory where the machine has a place for
// that: a disk takes twenty times as long for so many names.
func Folder(t testing.TB) string {
	t.Helper()
	const memory = "/dev/shm"
	in := ""
	if os.Getenv("REMIT_SOAK") == "" && unix.Access(memory, unix.W_OK) == nil {
		in = memory
	}
	dir, err := os.MkdirTemp(in, "remit-walk-")
	must(t, err)
	real, err := filepath.EvalSymlinks(dir)
	must(t, err)
	t.Cleanup(func() {
		if err := walk.Remove(real); err != nil {
			t.Error(err)
		}
	})
	return real
}

// Nest makes folders in each other, and a file in the last, without a path that names it.
func Nest(t testing.TB, dir, name string, levels int) {
	t.Helper()
	at := below(t, dir, name, levels)
	fd, err := unix.Openat(at, "last", unix.O_WRONLY|unix.O_CREAT, 0o644)
	must(t, errors.Join(err, unix.Close(fd), unix.Close(at)))
}

// below makes folders in each other, and opens the last.
func below(t testing.TB, dir, name string, levels int) int {
	t.Helper()
	at, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must(t, err)
	for range levels {
		must(t, unix.Mkdirat(at, name, 0o755))
		next, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		must(t, errors.Join(err, unix.Close(at)))
		at = next
	}
	return at
}

// Crowd makes many names of a length in one folder.
func Crowd(t testing.TB, dir string, names, bytes int, folders bool) {
	t.Helper()
	at, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must(t, err)
	crowd(t, at, names, bytes, folders)
	must(t, unix.Close(at))
}

// CrowdBelow makes many files with names of 255 bytes, below so many folders with such names.
func CrowdBelow(t testing.TB, dir string, levels, names int) {
	t.Helper()
	at := below(t, dir, strings.Repeat("n", 255), levels)
	crowd(t, at, names, 255, false)
	must(t, unix.Close(at))
}

func crowd(t testing.TB, at, names, bytes int, folders bool) {
	t.Helper()
	for i := range names {
		name := fmt.Sprintf("%0*d", bytes, i)
		if folders {
			must(t, unix.Mkdirat(at, name, 0o755))
			continue
		}
		fd, err := unix.Openat(at, name, unix.O_WRONLY|unix.O_CREAT, 0o644)
		must(t, errors.Join(err, unix.Close(fd)))
	}
}

func several(t testing.TB, dir string) {
	for _, name := range []string{"x", "y", "z"} {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o755))
		Nest(t, filepath.Join(dir, name), "d", 200)
	}
}

func circle(t testing.TB, dir string) {
	must(t, errors.Join(os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755),
		os.Symlink("..", filepath.Join(dir, "a", "b", "up")),
		os.Symlink("self", filepath.Join(dir, "self")),
		os.Symlink("/", filepath.Join(dir, "a", "all"))))
}

// special makes a FIFO, which nobody writes to, and a device if the user may.
func special(t testing.TB, dir string) {
	must(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o644))
	_ = unix.Mknod(filepath.Join(dir, "device"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))) // only root may; /dev/zero has no end
}

func closed(t testing.TB, dir string) {
	for _, mode := range []fs.FileMode{0, 0o100, 0o200, 0o400, 0o500} {
		at := filepath.Join(dir, fmt.Sprint("m", uint32(mode)), "in")
		must(t, os.MkdirAll(at, 0o755))
		must(t, errors.Join(os.WriteFile(filepath.Join(at, "f"), nil, 0), os.Chmod(at, mode), os.Chmod(filepath.Dir(at), mode)))
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
