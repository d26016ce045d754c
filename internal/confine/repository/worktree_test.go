package repository_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/confine/repository"
)

// trees is a repository main, its linked worktree tree, and a folder beside.
type trees struct {
	t                *testing.T
	base, main, tree string
	git, gitdir      string // tree's file .git, and the one by which main names it
	common           string
}

func newTrees(t *testing.T) trees {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("NOT TESTED: there is no git")
	}
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := trees{t: t, base: base, main: base + "/main", tree: base + "/tree"}
	w.sh("git init -q main && git -C main -c user.name=a -c user.email=a@b.test commit -q --allow-empty -m 1 && git -C main worktree add -q ../tree && mkdir -p other/.git beside && git init -q --bare bare")
	w.git, w.gitdir, w.common = w.tree+"/.git", w.main+"/.git/worktrees/tree/gitdir", w.main+"/.git"
	return w
}

func (w trees) sh(script string) {
	w.t.Helper()
	c := exec.Command("/bin/sh", "-ec", script)
	c.Dir = w.base
	if out, err := c.CombinedOutput(); err != nil {
		w.t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// A worktree counts only if both sides name each other in the one form in which Git writes it.
func TestOnlyMutualLinksMakeAWorktree(t *testing.T) {
	w := newTrees(t)
	if got, ok := repository.LinkedWorktree(w.tree); !ok || got != (repository.Worktree{Folder: w.tree, Common: w.common, Main: w.main}) {
		t.Fatalf("Git's own worktree is %+v, %v", got, ok)
	}
	own := filepath.Dir(w.gitdir)
	good := map[string][]string{
		w.git:              {"gitdir: " + own + "\n", "gitdir: ../main/.git/worktrees/tree\n"},
		w.gitdir:           {w.git + "\n", "../../../../tree/.git\n"},
		own + "/commondir": {"../..\n", w.common + "\n"},
	}
	files := []string{w.git, w.gitdir, own + "/commondir"}
	w.sh("ln -s main link; ln -s tree treelink; ln -s . main/.git/worktrees/self; ln -s . beside/up")
	pieces := rapid.SampledFrom([]string{"gitdir: ", "gitdir:", "\n", "\r", "\x00", " ", "/", "..", ".", "/.git", "../main/.git/worktrees/tree", own, w.git, w.common, w.base + "/beside", w.base + "/beside/.git",
		w.base + "/link/.git/worktrees/tree", w.base + "/treelink/.git", "worktrees", "tree", "../..", "../../.", strings.Repeat("a/", 3000)})
	edit := func(t *rapid.T, text string) string {
		i := rapid.IntRange(0, len(text)).Draw(t, "at")
		j := min(len(text), i+rapid.IntRange(0, 3).Draw(t, "drop"))
		return text[:i] + pieces.Draw(t, "piece") + text[j:]
	}
	accepted, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		want := true
		for _, f := range files {
			text := rapid.SampledFrom(good[f]).Draw(t, "good")
			switch rapid.IntRange(0, 9).Draw(t, "change") {
			case 0, 1:
				text = edit(t, text)
			case 2:
				text = strings.Join(rapid.SliceOfN(pieces, 0, 5).Draw(t, "pieces"), "")
			}
			if text != good[f][0] && text != good[f][1] {
				want = false
			}
			if err := os.WriteFile(f, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, ok := repository.LinkedWorktree(w.tree)
		if ok && got.Common != w.common || ok && !want {
			t.Fatalf("%+v is accepted", got)
		}
		if !ok && want {
			t.Fatal("the two sides name each other, and the worktree is refused")
		}
		if ok {
			accepted++
		} else {
			refused++
		}
	})
	if accepted == 0 || refused == 0 {
		t.Errorf("%d accepted, %d refused", accepted, refused)
	}
}

// forgeries are ways in which a program that can write to one side, or to other folders, makes a worktree.
var forgeries = map[string]struct{ script, folder string }{
	"the repository names a folder":         {"echo $PWD/beside/.git > main/.git/worktrees/tree/gitdir", "beside"},
	"the repository names one with a .git":  {"echo $PWD/other/.git > main/.git/worktrees/tree/gitdir", "other"},
	"a new name in the repository":          {"cp -r main/.git/worktrees/tree main/.git/worktrees/evil; echo $PWD/beside/.git > main/.git/worktrees/evil/gitdir", "beside"},
	"a copy of a worktree":                  {"cp -r tree copy", "copy"},
	"a worktree that was moved":             {"mv tree moved", "moved"},
	"another worktree's file":               {"git -C main worktree add -q ../two; cp two/.git tree/.git", "tree"},
	"a folder names the repository":         {"echo \"gitdir: $PWD/main/.git/worktrees/beside\" > beside/.git", "beside"},
	"another repository":                    {"cp -r main third; echo $PWD/third/.git > third/.git/worktrees/tree/gitdir; echo \"gitdir: $PWD/third/.git/worktrees/tree\" > tree/.git", "tree"},
	"a repository of the worktree's":        {"echo \"gitdir: $PWD/main/.git\" > tree/.git", "tree"},
	"a link to the file .git":               {"mv tree/.git beside/g; ln -s ../beside/g tree/.git", "tree"},
	"a folder .git":                         {"rm tree/.git; mkdir tree/.git", "tree"},
	"a pipe .git":                           {"rm tree/.git; mkfifo tree/.git", "tree"},
	"a link to the worktree":                {"ln -s tree link; echo $PWD/link/.git > main/.git/worktrees/tree/gitdir", "link"},
	"a link to the repository":              {"mv main m; ln -s m main", "tree"},
	"a link to the repository's own folder": {"mv main/.git g; ln -s ../g main/.git", "tree"},
	"a link to the folder of worktrees":     {"mv main/.git/worktrees w; ln -s ../../w main/.git/worktrees", "tree"},
	"a link to the worktree's own folder":   {"mv main/.git/worktrees/tree main/.git/worktrees/t; ln -s t main/.git/worktrees/tree", "tree"},
	"a link to gitdir":                      {"mv main/.git/worktrees/tree/gitdir g; ln -s ../../../../g main/.git/worktrees/tree/gitdir", "tree"},
	"a link to commondir":                   {"mv main/.git/worktrees/tree/commondir c; ln -s ../../../../c main/.git/worktrees/tree/commondir", "tree"},
	"a commondir elsewhere":                 {"echo ../../../../bare > main/.git/worktrees/tree/commondir", "tree"},
	"without a commondir":                   {"rm main/.git/worktrees/tree/commondir", "tree"},
	"a folder that is no repository":        {"rm main/.git/HEAD", "tree"},
	"a name with a line break":              {"mkdir 'a\n'b; cp tree/.git 'a\n'b/.git; printf '%s/a\\n/.git\\n' $PWD > main/.git/worktrees/tree/gitdir", "a\nb"},
	"a relative path behind a link":         {"ln -s beside/x l; echo 'gitdir: ../l/../main/.git/worktrees/tree' > tree/.git", "tree"},
	"inside of the repository's own folder": {"mkdir main/.git/in; cp tree/.git main/.git/in/.git; echo $PWD/main/.git/in/.git > main/.git/worktrees/tree/gitdir", "main/.git/in"},
	"a file .git of another user":           {"chown 12345 tree/.git", "tree"},
	"a worktree of another user":            {"chown 12345 tree", "tree"},
	"a repository of another user":          {"chown 12345 main/.git", "tree"},
	"an own folder of another user":         {"chown 12345 main/.git/worktrees/tree", "tree"},
	"a gitdir of another user":              {"chown 12345 main/.git/worktrees/tree/gitdir", "tree"},
	"a commondir of another user":           {"chown 12345 main/.git/worktrees/tree/commondir", "tree"},
	"a folder in a worktree":                {"mkdir tree/a", "tree/a"},
	"the main worktree":                     {"true", "main"},
}

func TestNoForgedWorktreeIsAccepted(t *testing.T) {
	for name, f := range forgeries {
		t.Run(name, func(t *testing.T) {
			if strings.Contains(f.script, "chown") && os.Geteuid() != 0 {
				t.Skip("NOT TESTED: needs root")
			}
			w := newTrees(t)
			w.sh(f.script)
			if got, ok := repository.LinkedWorktree(filepath.Join(w.base, f.folder)); ok {
				t.Errorf("%+v is accepted", got)
			}
		})
	}
}

// Worktrees in the main worktree, or in another one of the same repository, are a part of that: commands can make them.
func TestAWorktreeInsideIsAPart(t *testing.T) {
	w := newTrees(t)
	w.sh("git -C main worktree add -q in; git -C tree worktree add -q sub/in2; mkdir -p main/a tree/a tree/b; ln -s /etc tree/c; mkdir main/c; git init -q tree/own")
	for dir, want := range map[string]string{
		w.tree: w.tree, w.tree + "/a/b": w.tree, w.tree + "/sub/in2": w.tree, w.tree + "/own": w.tree, w.main: "", w.main + "/in": "", w.base + "/beside": "", "/": "", "a": "",
	} {
		got := ""
		for _, t := range repository.LinkedWorktrees(dir) {
			got += t.Folder
		}
		if got != want {
			t.Errorf("%s is in %q, want %q", dir, got, want)
		}
	}
	tree, _ := repository.LinkedWorktree(w.tree)
	for folder, want := range map[string]string{
		w.main: w.tree, w.main + "/a": w.tree + "/a", w.main + "/b": w.tree + "/b", w.main + "/none": "", w.main + "/c": "", w.main + "/in": w.tree, w.base + "/other": "", w.base + "/beside": "", w.tree: w.tree,
	} {
		if got, ok := tree.Counterpart(folder); ok != (want != "") || ok && got != want {
			t.Errorf("%s stands for %q, %v; want %q", folder, got, ok, want)
		}
	}
}
