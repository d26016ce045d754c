// Package imagetest makes container images for tests.
package imagetest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// Entry is one entry of a layer. Its type is that of a file unless the header says another.
type Entry struct {
	tar.Header
	Content string
}

// File is a plain file.
func File(name, content string) Entry {
	return Entry{tar.Header{Name: name, Mode: 0o644, Typeflag: tar.TypeReg}, content}
}

// Link is a symbolic link.
func Link(name, target string) Entry {
	return Entry{tar.Header{Name: name, Linkname: target, Typeflag: tar.TypeSymlink}, ""}
}

// Folder is a folder.
func Folder(name string) Entry {
	return Entry{tar.Header{Name: name, Mode: 0o755, Typeflag: tar.TypeDir}, ""}
}

// Image is an image, the lowest layer first.
type Image struct {
	Env    []string
	Layers [][]Entry
}

// Save writes an image as `docker save` does, and gives the file.
func (i Image) Save(t testing.TB) string {
	t.Helper()
	layers, config := i.build(t)
	entries := []Entry{File("config.json", string(config))}
	var names []string
	for n, l := range layers {
		names = append(names, fmt.Sprintf("layer%d.tar", n))
		entries = append(entries, File(names[n], string(l)))
	}
	entries = append(entries, File("manifest.json", string(encode(t, []any{map[string]any{"Config": "config.json", "Layers": names}}))))
	file := filepath.Join(t.TempDir(), "image.tar")
	must(t, os.WriteFile(file, archive(t, entries), 0o600))
	return file
}

// Layout writes an image as an OCI layout, with compressed layers, and gives the folder and
// the digests of its manifest, its configuration and its layers.
func (i Image) Layout(t testing.TB) (dir string, digests []string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "layout")
	must(t, os.MkdirAll(filepath.Join(dir, "blobs", "sha256"), 0o700))
	put := func(b []byte) map[string]any {
		d := Digest(b)
		must(t, os.WriteFile(filepath.Join(dir, "blobs", "sha256", strings.TrimPrefix(d, "sha256:")), b, 0o600))
		digests = append(digests, d)
		return map[string]any{"digest": d, "size": len(b)}
	}
	layers, config := i.build(t)
	var list []any
	for n, l := range layers {
		list = append(list, put(compress(t, n, l)))
	}
	manifest := put(encode(t, map[string]any{"schemaVersion": 2, "config": put(config), "layers": list}))
	must(t, os.WriteFile(filepath.Join(dir, "index.json"), encode(t, map[string]any{"manifests": []any{manifest}}), 0o600))
	slices.Reverse(digests)
	return dir, digests
}

// compress compresses each layer in another way.
func compress(t testing.TB, n int, b []byte) []byte {
	var out bytes.Buffer
	var w io.WriteCloser = gzip.NewWriter(&out)
	if n%2 == 1 {
		z, err := zstd.NewWriter(&out)
		must(t, err)
		w = z
	}
	_, err := w.Write(b)
	must(t, err)
	must(t, w.Close())
	return out.Bytes()
}

// build gives the layers as archives, and the configuration.
func (i Image) build(t testing.TB) (layers [][]byte, config []byte) {
	var diffs []string
	for _, l := range i.Layers {
		b := archive(t, l)
		layers, diffs = append(layers, b), append(diffs, Digest(b))
	}
	return layers, encode(t, map[string]any{"os": "linux", "architecture": runtime.GOARCH, "config": map[string]any{"Env": i.Env},
		"rootfs": map[string]any{"type": "layers", "diff_ids": diffs}})
}

// Digest is the digest of some bytes as images write it.
func Digest(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }

func encode(t testing.TB, v any) []byte {
	b, err := json.Marshal(v)
	must(t, err)
	return b
}

func archive(t testing.TB, entries []Entry) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := e.Header
		h.Size = int64(len(e.Content))
		must(t, w.WriteHeader(&h))
		_, err := io.WriteString(w, e.Content)
		must(t, err)
	}
	must(t, w.Close())
	return b.Bytes()
}

// Programs are entries with programs of this machine, under /usr/bin, and the libraries that
// they need.
func Programs(t testing.TB, names ...string) []Entry {
	t.Helper()
	out := []Entry{Folder("usr"), Folder("usr/bin"), Link("bin", "usr/bin")}
	seen := map[string]bool{}
	var add func(at, from string)
	add = func(at, from string) {
		if seen[at] {
			return
		}
		seen[at] = true
		content, err := os.ReadFile(from)
		must(t, err)
		e := File(at, string(content))
		e.Mode = 0o755
		out = append(out, e)
		libraries, loader := needs(t, content)
		if loader != "" {
			add(loader[1:], loader)
		}
		for _, l := range libraries {
			at := find(t, l, "/lib/*-linux-gnu*", "/usr/lib/*-linux-gnu*", "/lib64", "/usr/lib64", "/lib", "/usr/lib")
			add(at[1:], at)
		}
	}
	for _, n := range names {
		add("usr/bin/"+n, find(t, n, "/usr/bin", "/bin"))
	}
	return out
}

// needs gives the libraries of a program or library, and the loader of a program.
func needs(t testing.TB, content []byte) (libraries []string, loader string) {
	f, err := elf.NewFile(bytes.NewReader(content))
	must(t, err)
	libraries, err = f.ImportedLibraries()
	must(t, err)
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			b, err := io.ReadAll(p.Open())
			must(t, err)
			loader = strings.TrimRight(string(b), "\x00")
		}
	}
	return libraries, loader
}

func find(t testing.TB, name string, folders ...string) string {
	t.Helper()
	for _, f := range folders {
		if found, err := filepath.Glob(filepath.Join(f, name)); err == nil && len(found) > 0 {
			return found[0]
		}
	}
	t.Fatalf("%s is in none of %v", name, folders)
	return ""
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
