package repository

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func needGit(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
}

// Settings are read as Git reads them, in whatever form they are written.
func TestSettingsAreReadAsByGit(t *testing.T) {
	needGit(t)
	file := filepath.Join(t.TempDir(), "config")
	piece := rapid.SampledFrom([]string{"[core]", "[Core]", "[include]", "[a.B]", `[a "B.c"]`, `[a "\"\\x"]`, "[a  \"b\"]", "[ a]", "[a ]", "\n", "\r\n", "\t", " ", "hooksPath", "path", "x-1", "=", " = ",
		"value", `"quo ted"`, `"`, `\"`, `\\`, `\n`, `\`, "\\\n", "#", ";", "# c\n", "a b", "../x", "~/y", "ü", "_"})
	line := rapid.SampledFrom([]string{"[core]\n", "[a \"B.c\"]\n", "[Include] path = x\n", "\thooksPath = tools # c\n", "path=\"~/x y\" z  \n", "x-1\n", "x = a\\\n  b\n", "\r\n", "; c\n", "y = \"a\\\"\\t;b\" ;c\n", "[A.b]x=\n"})
	read, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(line, 1, 6).Draw(t, "lines"), "")
		if rapid.IntRange(0, 3).Draw(t, "odd") == 0 {
			text += strings.Join(rapid.SliceOfN(piece, 1, 8).Draw(t, "pieces"), "")
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("git", "config", "--no-includes", "-z", "--list", "-f", file).Output()
		if err != nil {
			refused++ // Git runs nothing with such a file
			return
		}
		var want, got []string
		for _, entry := range strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00") {
			switch key, value, ok := strings.Cut(entry, "\n"); {
			case !strings.Contains(key, "."): // of no section: no program looks for it
			case ok:
				want = append(want, key+"="+value)
			default:
				want = append(want, key+"=true")
			}
		}
		for _, s := range parse(text) {
			key := s.section + "." + s.sub + "." + s.key
			if s.sub == "" {
				key = s.section + "." + s.key
			}
			got = append(got, key+"="+s.value)
		}
		if read += len(want); !slices.Equal(got, want) {
			t.Fatalf("%q gives %q, and Git reads %q", text, got, want)
		}
	})
	if read == 0 || refused == 0 {
		t.Errorf("Git read %d settings and refused %d files", read, refused)
	}
}
