//go:build linux && (amd64 || arm64)

package linux_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/racetest"
)

// barePieces are ways to make the names of a bare repository in the folder b. N is the name, SN a folder that has it.
var barePieces = []string{
	"cp -r SN/N b/", "mv SN/N b/N", "cp -r SN/N b/x && mv b/x b/N", "ln -s ../SN/N b/N", "mkdir n && mv n b/N", "ln SN/N b/N", "mkdir b/N", "printf 'ref: refs/heads/main' > b/N",
}

// No command makes a folder a repository that names programs, in whatever order and way its names come.
func TestCommandsMakeNoBareRepository(t *testing.T) {
	racetest.Skip(t, oneByOne)
	needGit(t)
	w := newLeadWorld(t, lead{}, ".", "", "none", false)
	w.person.sh(w.world.dir, "rm -rf .git")
	config := fmt.Sprintf("[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = ..\n\tfsmonitor = touch %s\n", w.mark)
	var b strings.Builder
	n := 0
	orders := [][]string{{"HEAD", "objects", "refs"}, {"objects", "refs", "HEAD"}, {"refs", "HEAD", "objects"}, {"HEAD", "commondir"}, {"commondir", "HEAD"}}
	for _, order := range orders {
		for i := range barePieces {
			if n++; os.Getenv("REMIT_SOAK") == "" && n%5 != 0 {
				continue
			}
			fmt.Fprintf(&b, "mkdir -p %[1]d/Sobjects/objects %[1]d/Srefs/refs %[1]d/SHEAD %[1]d/Scommondir %[1]d/b %[1]d/d; cd %[1]d; printf 'ref: refs/heads/main\n' > SHEAD/HEAD; printf '%[2]s' > b/config; echo ../../evil > Scommondir/commondir\n", n, config)
			for k, name := range order {
				for try := range barePieces { // one after the other, until it is there
					piece := barePieces[(i+k+try)%len(barePieces)]
					fmt.Fprintf(&b, "[ -e b/%[1]s ] || { %[2]s; }\n", name, strings.ReplaceAll(piece, "N", name))
				}
			}
			b.WriteString("cp -r b c; mv b/* d/; cd ..\n")
		}
	}
	fmt.Fprintf(&b, "mkdir -p evil/objects evil/refs; printf '%s' > evil/config; true", config)
	out := w.sh(b.String())
	for i := range n {
		if _, err := os.Stat(filepath.Join(w.world.dir, fmt.Sprint(i+1))); err != nil {
			continue
		}
		for _, dir := range []string{"b", "c", "d", "."} {
			w.person.sh(filepath.Join(w.world.dir, fmt.Sprint(i+1), dir), "git status; git log")
			if w.ran() {
				t.Fatalf("order %d, folder %s: a program of the command was run\n%s", i, dir, out.Stderr.Data)
			}
		}
	}
	said := w.person.sh(w.world.dir, "printf 'ref: refs/heads/main' > evil/HEAD; mkdir -p evil/objects evil/refs; cd evil; git status")
	if !w.ran() {
		t.Errorf("the person's Git would not have run the program: %s", said)
	}
}

// Two processes that make the last two names at the same time do not make one either.
func TestABareRepositoryAtOnce(t *testing.T) {
	racetest.Skip(t, oneByOne)
	needGit(t)
	w := newLeadWorld(t, lead{}, ".", "", "none", false)
	w.person.sh(w.world.dir, "rm -rf .git")
	w.sh("for i in $(seq 60); do mkdir -p r$i/refs; done; for i in $(seq 60); do echo x > r$i/HEAD & mkdir r$i/objects & done; wait; true")
	for i := range 60 {
		dir := filepath.Join(w.world.dir, fmt.Sprintf("r%d", i+1))
		if out := w.person.sh(dir, "[ -e HEAD ] && [ -e objects ] && echo both"); out != "" {
			t.Fatalf("round %d has both names", i)
		}
	}
}
