package image_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/confine/image"
	"github.com/remitrun/remit/internal/confine/image/imagetest"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// unpack unpacks layers and lists what is there.
func unpack(t *testing.T, layers ...[]imagetest.Entry) (listing, dir string, err error) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "root")
	_, err = image.Unpack(imagetest.Image{Layers: layers}.Save(t), dir)
	t.Cleanup(func() { must(t, image.Remove(dir)) })
	if err != nil {
		return "", dir, err
	}
	var b strings.Builder
	must(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, p) // p is below dir
		switch {
		case d.IsDir():
			rel += "/"
		case d.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(p)
			must(t, err)
			rel += " -> " + to
		default:
			content, err := os.ReadFile(p)
			must(t, err)
			rel += "=" + string(content)
		}
		fmt.Fprint(&b, rel, " ")
		return nil
	}))
	return strings.TrimSpace(b.String()), dir, nil
}

func special(name string, kind byte, link string) imagetest.Entry {
	return imagetest.Entry{Header: tar.Header{Name: name, Typeflag: kind, Linkname: link, Mode: 0o644}}
}

func TestLayersLieOverEachOther(t *testing.T) {
	type layer = []imagetest.Entry
	file, link, folder := imagetest.File, imagetest.Link, imagetest.Folder
	tests := map[string]struct {
		layers []layer
		want   string
	}{
		"replaced":                  {[]layer{{file("a", "1")}, {file("a", "2")}}, "a=2"},
		"removed":                   {[]layer{{file("d/a", "1"), file("d/b", "1")}, {file("d/.wh.a", "")}}, "d/ d/b=1"},
		"a folder is removed":       {[]layer{{file("d/a", "1")}, {file(".wh.d", "")}}, ""},
		"emptied":                   {[]layer{{file("d/a", "1")}, {file("d/b", "2"), file("d/.wh..wh..opq", "")}}, "d/ d/b=2"},
		"emptied, then filled":      {[]layer{{file("d/a", "1")}, {file("d/.wh..wh..opq", ""), file("d/b", "2")}}, "d/ d/b=2"},
		"a folder takes the place":  {[]layer{{file("a", "1")}, {folder("a"), file("a/b", "2")}}, "a/ a/b=2"},
		"a file takes the place":    {[]layer{{file("a/b", "1")}, {file("a", "2")}}, "a=2"},
		"a link takes the place":    {[]layer{{file("a/b", "1")}, {link("a", "/etc")}}, "a -> /etc"},
		"a hard link":               {[]layer{{file("a", "1"), special("b", tar.TypeLink, "a")}, {file("a", "2")}}, "a=2 b=1"},
		"devices are left out":      {[]layer{{special("dev/sda", tar.TypeBlock, ""), special("p", tar.TypeFifo, ""), file("a", "1")}}, "a=1 dev/"},
		"names end at the root":     {[]layer{{file("../../a", "1"), file("/b", "2")}}, "a=1 b=2"},
		"through a link inside":     {[]layer{{folder("usr/lib"), link("lib", "usr/lib")}, {file("lib/a", "1")}}, "lib -> usr/lib usr/ usr/lib/ usr/lib/a=1"},
		"a whiteout of what is not": {[]layer{{file(".wh.a", "")}}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got, _, err := unpack(t, tc.layers...); err != nil || got != tc.want {
				t.Errorf("got %q, %v; want %q", got, err, tc.want)
			}
		})
	}
}

// Nothing that an image holds leads out of its folder.
func TestNoLayerReachesTheMachine(t *testing.T) {
	outside := t.TempDir()
	must(t, os.WriteFile(filepath.Join(outside, "file"), []byte("host"), 0o644))
	up := strings.Repeat("../", 30) + outside[1:]
	tests := map[string][]imagetest.Entry{
		"an absolute link":       {imagetest.Link("d", outside), imagetest.File("d/new", "1")},
		"a relative link":        {imagetest.Link("d", up), imagetest.File("d/new", "1")},
		"a file through a link":  {imagetest.Link("d", outside), imagetest.File("d/file", "1")},
		"removed through a link": {imagetest.Link("d", outside), imagetest.File("d/.wh.file", "")},
		"emptied through a link": {imagetest.Link("d", outside), imagetest.File("d/.wh..wh..opq", "")},
		"a hard link out":        {special("h", tar.TypeLink, up+"/file")},
		"a hard link, absolute":  {special("h", tar.TypeLink, outside+"/file")},
		"the folder itself":      {imagetest.File(".wh..", ""), imagetest.File(".wh.", "")},
	}
	for name, entries := range tests {
		t.Run(name, func(t *testing.T) {
			_, _, _ = unpack(t, entries) // an error is as good
			got, err := os.ReadDir(outside)
			must(t, err)
			content, err := os.ReadFile(filepath.Join(outside, "file"))
			if err != nil || len(got) != 1 || string(content) != "host" {
				t.Errorf("outside are %v, and the file holds %q, %v", got, content, err)
			}
		})
	}
}

func TestModesAreHarmless(t *testing.T) {
	suid := imagetest.File("usr/bin/su", "1")
	suid.Mode = 0o6755
	closed := imagetest.Folder("closed")
	closed.Mode = 0
	_, dir, err := unpack(t, []imagetest.Entry{suid, closed, imagetest.File("closed/a", "1")})
	must(t, err)
	for name, want := range map[string]fs.FileMode{"usr/bin/su": 0o755, "closed": fs.ModeDir | 0o500} {
		if st, err := os.Stat(filepath.Join(dir, name)); err != nil || st.Mode() != want {
			t.Errorf("%s: %v, %v; want %v", name, st.Mode(), err, want)
		}
	}
}

func TestAChangedImageIsRefused(t *testing.T) {
	img := imagetest.Image{Env: []string{"A=1"}, Layers: [][]imagetest.Entry{{imagetest.File("a", "the content")}, {imagetest.File("b", "more")}}}
	dir, digests := img.Layout(t)
	got, err := image.Unpack(dir, filepath.Join(t.TempDir(), "root"))
	want := image.Image{ID: digests[1], Manifest: digests[0], OS: "linux", Arch: runtime.GOARCH, Env: []string{"A=1"}, Size: 15, Files: 2}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, %v; want %+v", got, err, want)
	}
	for _, digest := range digests {
		copied := filepath.Join(t.TempDir(), "layout")
		must(t, os.CopyFS(copied, os.DirFS(dir)))
		file := filepath.Join(copied, "blobs", "sha256", strings.TrimPrefix(digest, "sha256:"))
		whole, err := os.ReadFile(file)
		must(t, err)
		for at := range whole {
			b := slices.Clone(whole)
			b[at] ^= 1
			must(t, os.WriteFile(file, b, 0o600))
			got, err := image.Unpack(copied, filepath.Join(t.TempDir(), "root"))
			if err == nil && (got.ID != want.ID || got.Manifest != want.Manifest) {
				t.Errorf("byte %d of %s: it was unpacked as %+v", at, digest, got)
			}
			if content, readErr := os.ReadFile(file); err == nil && (readErr != nil || digest == digests[0] || digest == digests[1]) {
				t.Errorf("byte %d of %s: %q passed", at, digest, content)
			}
		}
	}
	saved := img.Save(t)
	b, err := os.ReadFile(saved)
	must(t, err)
	at := bytes.Index(b, []byte("the content"))
	b[at] ^= 1
	must(t, os.WriteFile(saved, b, 0o600))
	if got, err := image.Unpack(saved, filepath.Join(t.TempDir(), "root")); err == nil {
		t.Errorf("a changed layer of an archive was unpacked as %+v", got)
	}
}

func TestWhatIsNoImage(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	must(t, os.WriteFile(text, []byte("no image"), 0o600))
	for _, from := range []string{dir, text, filepath.Join(dir, "missing")} {
		if _, err := image.Unpack(from, filepath.Join(t.TempDir(), "root")); err == nil || !strings.Contains(err.Error(), "is no image") {
			t.Errorf("%s: %v", from, err)
		}
	}
}
