//go:build linux && (amd64 || arm64)

package linux_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/files"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// lead is a setting of Git that names a file, which then has Git make MARK.
type lead struct {
	config  string // AT: the file, DIR: its folder, REL and RELDIR: the same from the repository's folder
	content string
	name    string // of the file
	more    string // what the person does before
}

const script1 = "#!/bin/sh\ntouch MARK\ncat\n"

// leads are settings by which Git runs, or follows, what a file says.
var leads = map[string]lead{
	"hooks":                    {"[core]\n\thooksPath = RELDIR\n", script1, "pre-commit", ""},
	"hooks, absolute":          {"[core]\n\thooksPath = DIR\n", script1, "post-commit", ""},
	"hooks of Husky":           {"[core]\n\thooksPath = RELDIR/_\n", "#!/bin/sh\ntouch MARK\n", "pre-commit", "mkdir -p DIR/_ && printf '#!/bin/sh\\n. \"$(dirname \"$0\")/../pre-commit\"\\n' > DIR/_/pre-commit && chmod +x DIR/_/pre-commit"},
	"an include":               {"[include]\n\tpath = AT\n", "[core]\n\tfsmonitor = touch MARK\n", "more", ""},
	"an include in one line":   {"[include] path = \"AT\" # more\n", "[core]\n\tfsmonitor = touch MARK\n", "more", ""},
	"a condition":              {"[includeIf \"onbranch:**\"]\n\tpath = AT\n", "[core]\n\tfsmonitor = touch MARK\n", "more", ""},
	"an include of an include": {"[include]\n\tpath = first\n", "[core]\n\tfsmonitor = touch MARK\n", "more", "printf '[include]\\n\\tpath = AT\\n' > \"$(git rev-parse --git-common-dir)/first\""},
	"a monitor":                {"[core]\n\tfsmonitor = REL\n", script1, "monitor.sh", ""},
	"a monitor with words":     {"[core]\n\tfsmonitor = sh REL --x\n", script1, "monitor.sh", ""},
	"a filter":                 {"[filter \"f\"]\n\tclean = sh REL\n", script1, "clean", "echo '* filter=f' > \"$(git rev-parse --git-common-dir)/info/attributes\""},
	"a text conversion":        {"[diff \"d\"]\n\ttextconv = sh REL <\n", script1, "conv", "echo '* diff=d' > \"$(git rev-parse --git-common-dir)/info/attributes\""},
	"a diff program":           {"[diff]\n\texternal = REL\n", script1, "differ", ""},
	"a pager by the top":       {"[core]\n\tfsmonitor = \"$(git -c core.fsmonitor=false rev-parse --show-toplevel)/REL\"\n", script1, "m", ""},
}

// leadPlaces are where the repository is, seen from the workspace, how it is made, and where the file is.
var leadPlaces = map[string]struct{ repository, make, in string }{
	"the workspace":       {".", "", "tools/in"},
	"beside it":           {"app", "git init -q app", "shared/in"},
	"in a subfolder":      {"app", "git init -q app", "app/tools/in"},
	"a linked worktree":   {"tree", "git commit -q --allow-empty -m 1 && git worktree add -q tree", "tree/tools/in"},
	"a separate folder":   {"app", "git init -q --separate-git-dir gd app", "app/tools/in"},
	"through a link":      {".", "mkdir -p real && ln -s real tools", "real/in"},
	"in the .git":         {".", "", ".git/own/in"},
	"a submodule":         {"sub", "git init -q /HOME/o && git -C /HOME/o commit -q --allow-empty -m 1 && git -c protocol.file.allow=always submodule --quiet add /HOME/o sub", "tools/in"},
	"all of the person's": {"app", "git init -q app", "app/tools/in"},
}

// person is the person's Git beside a workspace.
type person struct {
	t    *testing.T
	home string
}

func (p person) sh(dir, script string) string {
	p.t.Helper()
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+p.home, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b.test", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b.test", "GIT_EDITOR=true")
	out, _ := cmd.CombinedOutput() // what counts is what it ran
	return string(out)
}

// works is what a person does after a command.
const works = "git status; echo y >> f; git add -A; git commit -q -m x; echo z >> f; git diff | cat; git commit -q -a --allow-empty -m y; git log -p -1 | cat"

// Whatever settings of Git lead to, a command does not write.
func TestCommandsWriteNothingThatSettingsLeadTo(t *testing.T) {
	racetest.Skip(t, oneByOne)
	needGit(t)
	soak := os.Getenv("REMIT_SOAK") != ""
	for i, setting := range slices.Sorted(maps.Keys(leads)) {
		for k, place := range slices.Sorted(maps.Keys(leadPlaces)) {
			if !soak && (i+k)%len(leadPlaces) != 0 {
				continue
			}
			l, at := leads[setting], leadPlaces[place]
			t.Run(setting+" of "+place, func(t *testing.T) {
				control := newLeadWorld(t, l, at.repository, at.make, at.in, place == "all of the person's")
				must(t, os.MkdirAll(filepath.Dir(control.at), 0o755))
				must(t, os.WriteFile(control.at, []byte(control.content), 0o755))
				if out := control.works(); !control.ran() {
					t.Skipf("without Remit Git runs nothing here: %s", out)
				}
				w := newLeadWorld(t, l, at.repository, at.make, at.in, place == "all of the person's")
				out := w.sh(w.attack())
				_, _ = files.New(w.p).Write(strings.TrimPrefix(w.at, w.world.dir+"/"), []byte(w.content), files.WriteOptions{Mode: files.Replace, Parents: true}) // refused
				said := w.works()
				if w.ran() {
					t.Errorf("a program of the command was run\n%s\n%s\n%s", out.Stderr.Data, out.Notes, said)
				}
				if out := w.sh("echo x > honest && mkdir -p tools2/in && echo y > tools2/in/pre-commit"); out.ExitCode != 0 {
					t.Errorf("what no setting names: %s", out.Stderr.Data)
				}
			})
		}
	}
}

type leadWorld struct {
	*world
	person
	at, content, mark, repository string
}

func newLeadWorld(t *testing.T, l lead, repository, made, in string, global bool) leadWorld {
	t.Helper()
	w := newWorld(t, allWritable)
	home, mark := t.TempDir(), filepath.Join(t.TempDir(), "ran")
	w.p = permit.Mint(permit.Terms{Chain: w.p.Chain(), Limits: w.p.Limits(), Env: tool.Env{Workspace: w.dir, Path: w.p.Env().Path, Home: home}})
	p := person{t, home}
	x := leadWorld{w, p, filepath.Join(w.dir, in, l.name), strings.ReplaceAll(l.content, "MARK", mark), mark, filepath.Join(w.dir, repository)}
	p.sh(w.dir, "git init -q . && echo x > f && git add f && git commit -q -m f; "+strings.ReplaceAll(made, "/HOME", home))
	rel, err := filepath.Rel(x.repository, x.at)
	must(t, err)
	if strings.HasPrefix(made, "mkdir -p real") {
		rel = "tools/in/" + l.name
	}
	fill := strings.NewReplacer("RELDIR", filepath.Dir(rel), "REL", ifNoSlash(rel), "AT", x.at, "DIR", filepath.Dir(x.at))
	p.sh(x.repository, fill.Replace(l.more))
	config := strings.TrimSpace(p.sh(x.repository, "git rev-parse --path-format=absolute --git-common-dir")) + "/config"
	if strings.Contains(repository, "sub") {
		config = strings.TrimSpace(p.sh(x.repository, "git rev-parse --absolute-git-dir")) + "/config"
	}
	if global {
		config = home + "/.gitconfig"
	}
	old, _ := os.ReadFile(config) // the person may have none
	must(t, os.WriteFile(config, []byte(string(old)+fill.Replace(l.config)), 0o644))
	return x
}

func ifNoSlash(rel string) string {
	if strings.HasPrefix(rel, "../") {
		return rel
	}
	return "./" + rel
}

func (w leadWorld) works() string { return w.person.sh(w.repository, works) }

func (w leadWorld) ran() bool {
	_, err := os.Stat(w.mark)
	return err == nil
}

func (w leadWorld) sh(script string) sandbox.Outcome {
	w.world.t.Helper()
	return w.world.sh(script)
}

// attack tries all ways to have the content at the path.
func (w leadWorld) attack() string {
	dir, name := filepath.Dir(w.at), filepath.Base(w.at)
	quoted := strings.ReplaceAll(w.content, "'", `'\''`)
	return fmt.Sprintf(`D='%[1]s'; P=$(dirname "$D"); N='%[2]s'; T="$D/$N"
mkdir -p stage/in stage/in/in stage/tools/in stage/own/in
for s in stage/in stage/in/in stage/tools/in stage/own/in stage/; do printf '%%s' '%[3]s' > $s/$N; chmod +x $s/$N; done
W=$(pwd)
mkdir -p "$D"
cat stage/in/$N > "$T"; chmod +x "$T"
cp stage/in/$N "$D/x"; mv "$D/x" "$T"
cp stage/in/$N x; mv x "$T"
ln stage/in/$N "$T"; ln -s "$W/stage/in/$N" "$T"; ln -sf "$W/stage/in/$N" "$T"
rmdir "$D"; ln -s "$W/stage/in" "$D"; mv -T stage/in "$D"; mv -T stage/in2 "$D"
rmdir "$P"; ln -s "$W/stage" "$P"; mv -T stage "$P"
mv "$D" "$D.old"; cp -r stage/in "$D"
mv "$P" "$P.old"; cp -r stage "$P"
ln -sfn stage tools; ln -sfn stage real
true`, dir, name, quoted)
}

// A command does not lead settings elsewhere, by moving a repository or what holds it, or by making one.
func TestSettingsThatLeadElsewhereLater(t *testing.T) {
	racetest.Skip(t, oneByOne)
	needGit(t)
	const plant = "mkdir -p stage; mkdir -p deep/shared/in; printf '#!/bin/sh\\ntouch MARK\\n' > stage/pre-commit && chmod +x stage/pre-commit && cp stage/pre-commit deep/shared/in/; "
	tests := map[string]struct{ person, command, work string }{
		"a repository that moves":                     {"git init -q app && git -C app config core.hooksPath ../shared/in", plant + "mv app deep/app", "deep/app"},
		"a folder of it that moves":                   {"git init -q app && git -C app config core.hooksPath ../shared/in && mkdir -p x && mv app x/", plant + "mv x/app deep/", "deep/app"},
		"another repository in a file .git":           {"git init -q --separate-git-dir gd app && git -C app config core.hooksPath ../shared/in", plant + "mv app deep/app; cp -r gd deep/gd", "deep/app"},
		"a new repository under the person's setting": {"git config --global core.hooksPath in", "mkdir -p n/in && printf '#!/bin/sh\\ntouch MARK\\n' > n/in/pre-commit; chmod +x n/in/pre-commit; git init -q n", "n"},
		"a worktree that is said to be elsewhere": {"git commit -q --allow-empty -m 1; mkdir d; git worktree add -q d/old; git config core.hooksPath ../shared/in", strings.ReplaceAll(plant, "deep/", "d/") +
			"echo /nowhere/.git > .git/worktrees/old/gitdir; rm -f .git/worktrees/old/gitdir; echo /nowhere/.git > g; mv g .git/worktrees/old/gitdir; mv .git/worktrees .git/w; mkdir -p d/shared/in; cp stage/pre-commit d/shared/in/", "d/old"},
		"a setting that comes during a session": {"true", plant + "git config core.hooksPath stage; cp .git/config c; echo '[core]' >> c; echo 'hooksPath = stage' >> c; mv c .git/config", "."},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := newLeadWorld(t, lead{more: tc.person}, ".", "", "none", false)
			out := w.sh(strings.ReplaceAll(tc.command, "MARK", w.mark))
			if said := w.person.sh(filepath.Join(w.world.dir, tc.work), works); w.ran() {
				t.Errorf("a program of the command was run\n%s\n%q\n%s", out.Stderr.Data, out.Notes, said)
			}
		})
	}
}

// Settings count from when the person changes them, in a command that runs and in a session.
func TestSettingsThatChangeMeanwhile(t *testing.T) {
	racetest.Skip(t, oneByOne)
	needGit(t)
	everyTier(t, allWritable, func(t *testing.T, src string) {
		w := newLeadWorld(t, lead{}, ".", "", "none", false)
		w.allow(src)
		for i := range 3 {
			at := fmt.Sprintf("h%d/pre-commit", i)
			script := fmt.Sprintf("mkdir -p h%d; echo x > %s && echo wrote; touch go; while [ ! -e on ]; do sleep 0.01; done; rm on; echo y > %s && echo again", i, at, at)
			go func() {
				for {
					if _, err := os.Stat(filepath.Join(w.world.dir, "go")); err == nil {
						break
					}
				}
				w.person.sh(w.world.dir, fmt.Sprintf("rm go; git config core.hooksPath h%d; touch on", i))
			}()
			if out := w.sh(script); string(out.Stdout.Data) != "wrote\n" {
				t.Errorf("setting %d: %q %s", i, out.Stdout.Data, out.Stderr.Data)
			}
		}
		if out := w.sh("echo x > h1/pre-commit && git config user.name me && git config user.name"); string(out.Stdout.Data) != "me\n" {
			t.Errorf("what no setting names any more: %q %s", out.Stdout.Data, out.Stderr.Data)
		}
	})
}
