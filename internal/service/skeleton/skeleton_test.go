package skeleton_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/skeleton"
)

func TestWrite(t *testing.T) {
	for _, k := range []skeleton.Kind{skeleton.Extension, skeleton.Wasm, skeleton.Go} {
		dir := filepath.Join(t.TempDir(), "a", "b")
		p, err := skeleton.Write(k, "word_count", dir)
		if err != nil || len(p.Files) < 5 || len(p.Next) < 3 {
			t.Fatalf("%s: %+v, %v", k, p, err)
		}
		for _, name := range p.Files {
			b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
			if err != nil || strings.Contains(string(b)+name, "@name@") || strings.HasSuffix(name, ".tmpl") {
				t.Errorf("%s: %v\n%s", name, err, b)
			}
			st, err := os.Stat(filepath.Join(dir, filepath.FromSlash(name)))
			if err != nil || (st.Mode()&0o100 != 0) != (name == "extension/bin/word_count") {
				t.Errorf("%s: %v, %v", name, st.Mode(), err)
			}
		}
		if left, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(left) != 1 {
			t.Errorf("beside the folder there is %v, %v", left, err)
		}
	}
}

func TestWhatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "Words", "a b", "../x", "-x", "a__b", "a_", "ä", strings.Repeat("a", 31)} {
		if _, err := skeleton.Write(skeleton.Go, name, filepath.Join(dir, "new")); !errors.Is(err, fault.Usage) {
			t.Errorf("the name %q: %v", name, err)
		}
	}
	for _, folder := range []string{dir, file, filepath.Join(file, "x")} {
		if _, err := skeleton.Write(skeleton.Go, "words", folder); !errors.Is(err, fault.Usage) {
			t.Errorf("%s: %v", folder, err)
		}
	}
	var left []string
	found, err := os.ReadDir(dir)
	for _, f := range found {
		left = append(left, f.Name())
	}
	if err != nil || !slices.Equal(left, []string{"file"}) {
		t.Errorf("there is %q, %v", left, err)
	}
}
