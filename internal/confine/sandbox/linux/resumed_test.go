//go:build linux && (amd64 || arm64)

package linux_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/racetest"
)

// personsGit runs Git outside, as the person does.
func personsGit(w *world, args ...string) string {
	w.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = w.dir
	cmd.Env = append(os.Environ(), "HOME="+w.dir+"/none", "GIT_CONFIG_NOSYSTEM=1", "GIT_EDITOR=true", "GIT_SEQUENCE_EDITOR=true",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@a.test", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@a.test")
	out, _ := cmd.CombinedOutput() // conflicts are errors, and wanted
	return string(out)
}

// Ways to write a file; NEW is a file with the text, FILE the one to write.
var waysToWrite = map[string]string{
	"anew":                "cat NEW > FILE",
	"after its removal":   "rm -f FILE; cat NEW > FILE",
	"appended":            "cat NEW >> FILE",
	"in place":            "cat NEW 1<> FILE",
	"by dd":               "dd if=NEW of=FILE conv=notrunc",
	"truncated first":     "truncate -s 0 FILE; cat NEW >> FILE",
	"renamed":             "mv -f NEW FILE",
	"exchanged":           "perl -e 'syscall(316, -100, $ARGV[0], -100, $ARGV[1], 2)' NEW FILE", // renameat2 with RENAME_EXCHANGE
	"linked":              "ln -f NEW FILE",
	"a link":              "ln -sf $PWD/NEW FILE",
	"by another name":     "ln FILE other; cat NEW > other",
	"by a descriptor":     "exec 3<FILE; cat NEW > /proc/self/fd/3",
	"open before":         "exec 3>>FILE; rm FILE; cat NEW >&3",
	"in another folder":   "mkdir d; cp NEW d/NAME; mv FOLDER old; mv d FOLDER",
	"in its folder moved": "mv FOLDER .git/x; cat NEW > .git/x/NAME; mv .git/x FOLDER",
	"behind a link":       "mkdir d; cp NEW d/NAME; mv FOLDER .git/x; ln -s ../d FOLDER",
	"an empty folder":     "rm -rf FOLDER; mkdir -p FOLDER; cat NEW > FILE",
}

// TestAPersonResumesNoProgram: a person is in the middle of a rebase, a cherry-pick or patches. Nothing that a command writes
// makes Git run a program, or write outside of the workspace, when the person goes on.
func TestAPersonResumesNoProgram(t *testing.T) {
	racetest.Skip(t, oneByOne)
	needGit(t)
	tests := map[string]struct {
		begin []string // Git's arguments; it stops at a conflict
		file  string
		text  string
		goOn  []string
	}{
		"steps of a rebase":          {[]string{"rebase", "theirs"}, ".git/rebase-merge/git-rebase-todo", "exec ./evil\n", []string{"rebase", "--skip"}},
		"its strategy":               {[]string{"rebase", "theirs"}, ".git/rebase-merge/strategy", "x/evil", []string{"rebase", "--skip"}},
		"options of patches":         {[]string{"rebase", "--apply", "theirs"}, ".git/rebase-apply/apply-opt", " '--build-fake-ancestor=OUTSIDE'", []string{"rebase", "--skip"}},
		"options of a cherry-pick":   {[]string{"cherry-pick", "theirs~1", "theirs"}, ".git/sequencer/opts", "[options]\n\tstrategy = x/evil\n", []string{"cherry-pick", "--skip"}},
		"options on one line":        {[]string{"cherry-pick", "theirs~1", "theirs"}, ".git/sequencer/opts", "[options] strategy = x/evil\n", []string{"cherry-pick", "--skip"}},
		"options in capital letters": {[]string{"cherry-pick", "theirs~1", "theirs"}, ".git/sequencer/opts", "[OPTIONS]\n\tStrategy = x/evil\n", []string{"cherry-pick", "--skip"}},
		"options on two lines":       {[]string{"cherry-pick", "theirs~1", "theirs"}, ".git/sequencer/opts", "[options]\n\tstrategy = x/\\\nevil\n", []string{"cherry-pick", "--skip"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outside := filepath.Join(t.TempDir(), "outside")
			text := strings.ReplaceAll(tc.text, "OUTSIDE", outside)
			w := newWorld(t, standardPolicy)
			beginConflict(w)
			personsGit(w, tc.begin...)
			w.file("new", text)
			stopped := os.DirFS(w.dir)
			for how, script := range waysToWrite {
				w.dir = filepath.Join(t.TempDir(), "ws")
				must(t, os.CopyFS(w.dir, stopped))
				w.allow(standardPolicy)
				out := w.sh("exec 2>&1; " + strings.NewReplacer("NEW", "new", "FILE", tc.file, "FOLDER", filepath.Dir(tc.file), "NAME", filepath.Base(tc.file)).Replace(script) + "; cat new >/dev/null")
				said := personsGit(w, tc.goOn...)
				for _, mark := range []string{filepath.Join(w.dir, "MARK"), outside} {
					if _, err := os.Lstat(mark); err == nil {
						t.Errorf("%s: a program ran, or a file outside was written\n%s\n%s", how, out.Stdout.Data, said)
						_ = os.Remove(mark) // for the next way
					}
				}
			}
		})
	}
}

// beginConflict makes a repository with two branches that conflict, and programs that leave MARK.
func beginConflict(w *world) {
	personsGit(w, "init", "-q", "-b", "ours")
	commit := func(file, text string) {
		w.file(file, text)
		personsGit(w, "add", file)
		personsGit(w, "commit", "-qm", file+text)
	}
	const evil = "#!/bin/sh\ntouch $(git rev-parse --show-toplevel)/MARK\nexit 1\n"
	for _, p := range []string{"evil", "git-merge-x/evil"} {
		must(w.t, os.Chmod(w.file(p, evil), 0o755))
	}
	commit("f", "0")
	personsGit(w, "checkout", "-q", "-b", "theirs")
	commit("f", "1")
	commit("g", "theirs")
	personsGit(w, "checkout", "-q", "ours")
	commit("f", "2")
	commit("h", "ours")
	for _, kv := range [][]string{{"user.name", "a"}, {"user.email", "a@a.test"}, {"core.editor", "true"}} {
		personsGit(w, append([]string{"config"}, kv...)...)
	}
}

// TestACommandResumes: Git goes on inside with what it has written itself.
func TestACommandResumes(t *testing.T) {
	racetest.Skip(t, oneByOne)
	needGit(t)
	for name, script := range map[string]string{
		"a rebase":      "git rebase -s recursive -X patience theirs; test -e .git/rebase-merge/strategy && echo f > f && git add f && git rebase --continue && git merge-base --is-ancestor theirs ours",
		"an edited one": "git rebase theirs; GIT_SEQUENCE_EDITOR='sed -i s/pick/edit/' git rebase --edit-todo && git rebase --skip && git rebase --continue && git merge-base --is-ancestor theirs ours",
		"patches":       "git rebase --apply -C1 --whitespace=nowarn theirs; grep -q C1 .git/rebase-apply/apply-opt && echo f > f && git add f && git rebase --continue && git merge-base --is-ancestor theirs ours",
		"am":            "git format-patch -q -2 theirs -o p; git am -3 --directory=sub --exclude=x p/*; git am --skip && test -e sub/g",
		"a cherry-pick": "git cherry-pick --strategy=recursive -X patience theirs~1 theirs; grep -q strategy .git/sequencer/opts && echo f > f && git add f && git cherry-pick --continue && test -e g",
		"a revert":      "echo 3 > f; git commit -qam 3; git revert --no-edit --strategy=ort HEAD~2 HEAD; echo f > f; git add f; git revert --skip",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, standardPolicy)
			beginConflict(w)
			out := w.sh("exec 2>&1; " + script)
			if out.ExitCode != 0 || len(out.Refusals) > 0 {
				t.Errorf("%s\n%v", out.Stdout.Data, out.Refusals)
			}
		})
	}
}
