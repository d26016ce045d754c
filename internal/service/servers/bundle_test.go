package servers

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/tools/packages"
)

// entry is a file of a bundle.
type entry struct {
	name, text string
	mode       fs.FileMode
}

// zipped writes a bundle.
func zipped(t *testing.T, entries ...entry) *bundle {
	t.Helper()
	file := filepath.Join(t.TempDir(), "x.mcpb")
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	w := zip.NewWriter(out)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		h.SetMode(e.mode)
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(e.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(src)
	return &bundle{file: file, digest: hex.EncodeToString(sum[:]), manifest: &packages.Manifest{Program: "server/main"}}
}

// unpacked lists what a folder holds, with permissions.
func unpacked(t *testing.T, dir string) string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || p == filepath.Join(dir, "file") {
			return err
		}
		st, err := d.Info()
		rel, rerr := filepath.Rel(dir, p)
		if err == nil && rerr == nil {
			out = append(out, rel+" "+st.Mode().String())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, "\n")
}

// A bundle's files are unpacked below one folder, whatever the archive says of names, links and sizes.
func TestUnpack(t *testing.T) {
	program := entry{"server/main", "#!/bin/sh\n", 0o644}
	for name, tt := range map[string]struct {
		entries []entry
		refused string // "": it is unpacked
		want    string
	}{
		"files": {[]entry{program, {"lib/", "", fs.ModeDir | 0o755}, {"lib/a", "x", 0o666}, {"tool", "x", fs.ModeSetuid | 0o755}}, "",
			"bundle/lib/a -rw-------\nbundle/server/main -rwx------\nbundle/tool -rwx------"},
		"above":              {[]entry{program, {"../out", "x", 0o644}}, "not a name below", ""},
		"above, later":       {[]entry{program, {"a/../../out", "x", 0o644}}, "not a name below", ""},
		"absolute":           {[]entry{program, {"/tmp/out", "x", 0o644}}, "not a name below", ""},
		"backslashes":        {[]entry{program, {`..\out`, "x", 0o644}}, "not a name below", ""},
		"a NUL byte":         {[]entry{program, {"a\x00b", "x", 0o644}}, "not a name below", ""},
		"odd spelling":       {[]entry{program, {"a//b", "x", 0o644}}, "not a name below", ""},
		"a link":             {[]entry{program, {"link", "/etc", fs.ModeSymlink | 0o777}}, "is a link", ""},
		"a file in a link":   {[]entry{program, {"link", "/tmp", fs.ModeSymlink | 0o777}, {"link/out", "x", 0o644}}, "is a link", ""},
		"a device":           {[]entry{program, {"dev", "", fs.ModeDevice | 0o600}}, "special file", ""},
		"twice":              {[]entry{program, program}, "is there twice", ""},
		"a folder as a file": {[]entry{program, {"server", "x", 0o644}}, "", "error"},
		"too large":          {[]entry{program, {"zeros", strings.Repeat("\x00", 2000), 0o644}}, "too large", ""},
		"too large together": {[]entry{program, {"a", strings.Repeat("\x00", 600), 0o644}, {"b", strings.Repeat("\x00", 600), 0o644}}, "too large", ""},
		"no program":         {[]entry{{"other", "x", 0o644}}, "", "error"},
		"a folder to start":  {[]entry{{"server/main/x", "x", 0o644}}, "not a file", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b, dir := zipped(t, tt.entries...), t.TempDir()
			at := filepath.Join(dir, "in")
			if err := os.Mkdir(at, 0o700); err != nil {
				t.Fatal(err)
			}
			err := unpack(b, at, 1000)
			switch {
			case tt.want == "error" || tt.refused != "":
				if err == nil || !strings.Contains(err.Error(), tt.refused) {
					t.Errorf("%v, want %q", err, tt.refused)
				}
			case err != nil:
				t.Error(err)
			default:
				if got := unpacked(t, at); got != tt.want {
					t.Errorf("got\n%s\nwant\n%s", got, tt.want)
				}
			}
			list, err := os.ReadDir(dir)
			if err != nil || len(list) != 1 {
				t.Errorf("beside the folder: %v, %v", list, err)
			}
		})
	}
}

// The bundle whose manifest was read is the one that is unpacked.
func TestChangedBundle(t *testing.T) {
	b := zipped(t, entry{"server/main", "x", 0o644})
	other := zipped(t, entry{"server/main", "y", 0o644})
	b.file = other.file
	if err := unpack(b, t.TempDir(), 1000); err == nil || !strings.Contains(err.Error(), "changed while it was added") {
		t.Error(err)
	}
}
