package files_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/files"
)

// TestOnly narrows a handle that may do everything, and looks that nothing else
// is reached by any of its operations.
func TestOnly(t *testing.T) {
	l := newPlace(t, everything)
	l.put(t, "in/a", "inside")
	l.put(t, "in/sub/b", "inside")
	l.put(t, "other/a", canary)
	l.put(t, "inner/a", canary)
	l.link(t, "in/file", "../other/a")
	l.link(t, "in/folder", "../other")
	l.link(t, "in/near", "sub/b")
	at := func(name string) string { return filepath.Join(l.ws, name) }
	f := l.f.Only([]string{at("in")}, []string{at("in"), at("out")})

	if b, err := f.ReadAll("in/near"); err != nil || string(b) != "inside" {
		t.Errorf("a link that stays inside: %q, %v", b, err)
	}
	for _, name := range []string{"other/a", "inner/a", "in/file", "in/folder/a", "in/../other/a", at("other/a"), "."} {
		_, err := f.ReadAll(name)
		wantCode(t, err, fault.HandleRefused)
		_, err = f.Stat(name)
		wantCode(t, err, fault.HandleRefused)
		_, err = f.ReadDir(t.Context(), name)
		wantCode(t, err, fault.HandleRefused)
		_, err = f.Write(name, []byte("x"), files.WriteOptions{Mode: files.Replace})
		wantCode(t, err, fault.HandleRefused)
	}
	wantCode(t, f.Mkdir("other/new", false), fault.HandleRefused)
	wantCode(t, f.Mkdir("in/folder/new", false), fault.HandleRefused)
	wantCode(t, f.Remove("other/a"), fault.HandleRefused)
	wantCode(t, f.Remove("in/folder/a"), fault.HandleRefused)
	wantCode(t, f.Rename(t.Context(), "in/a", "other/b", false, false), fault.HandleRefused)
	wantCode(t, f.Rename(t.Context(), "other/a", "in/b", false, false), fault.HandleRefused)
	if _, err := f.ReadAll("out/x"); err == nil {
		t.Error("what may only be written was read")
	}
	must(t, f.Mkdir("out/new", true), f.Mkdir("in/new", false))
	_, err := f.Write("out/new/x", []byte("x"), files.WriteOptions{})
	must(t, err)
	wantCode(t, f.Mkdir("in/new", false), fault.Conflict)
	wantCode(t, f.Mkdir("in/no/new", false), fault.NotFound)
	for _, name := range []string{"other/a", "inner/a"} {
		if b, err := os.ReadFile(at(name)); err != nil || string(b) != canary {
			t.Errorf("%s holds %q, %v", name, b, err)
		}
	}
	if list, err := os.ReadDir(at("other")); err != nil || len(list) != 1 {
		t.Errorf("other holds %v, %v", list, err)
	}
	_, err = l.f.Only(nil, nil).ReadAll("in/a")
	wantCode(t, err, fault.HandleRefused)
}

func TestMkdir(t *testing.T) {
	l := newPlace(t, "version: 1\nname: t\nfiles:\n  read: {allow: [\"**\"]}\n  write: {allow: [\"out/**\"], deny: [\"out/no/**\"]}\n")
	must(t, l.f.Mkdir("out/a/b", true))
	wantCode(t, l.f.Mkdir("src", true), fault.HandleRefused)
	wantCode(t, l.f.Mkdir("out/no/x", true), fault.HandleRefused)
	wantCode(t, l.f.Mkdir(".", false), fault.HandleRefused)
	l.link(t, "out/away", l.out)
	wantCode(t, l.f.Mkdir("out/away/x", false), fault.HandleRefused)
	l.outsideIs(t)
	notes, _ := l.p.Happened()
	if len(notes) != 3 || notes[2].On != "out/a/b" {
		t.Errorf("noted %v", notes)
	}
}
