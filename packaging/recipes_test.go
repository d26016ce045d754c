package main

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// The formula and the flake name both archives with their checksums. Neither brew nor nix is here to read them.
func TestRecipes(t *testing.T) {
	dir := t.TempDir()
	programs := []Program{{Arch: "amd64"}, {Arch: "arm64"}}
	for _, p := range programs {
		must(t, os.WriteFile(filepath.Join(dir, archiveName(testRelease(), p.Arch)), []byte(p.Arch), 0o644))
	}
	r := testRelease()
	r.NPM = "1.2.3"
	must(t, writeRecipes(dir, "https://releases.example.org/v1.2.3", r, programs))
	for _, name := range []string{"remit.rb", "flake.nix"} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		must(t, err)
		golden := filepath.Join("testdata", name)
		if *update {
			must(t, os.WriteFile(golden, got, 0o644))
		}
		want, err := os.ReadFile(golden)
		must(t, err)
		if string(got) != string(want) {
			t.Errorf("%s: got\n%s\nwant\n%s\nrewrite it with -update", name, got, want)
		}
	}
}
