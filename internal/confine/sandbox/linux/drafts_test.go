//go:build linux && (amd64 || arm64)

package linux_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/racetest"
)

// evil makes a repository whose settings start a program.
const evil = "mkdir -p evil/objects evil/refs && printf '[core]\\n\\tfsmonitor = touch MARK\\n' > evil/config; "

// A command may write some files of Git's if their content starts no program. The file then gets all of the content, in
// each way of writing.
func TestTheContentOfGitsFilesDecides(t *testing.T) {
	racetest.Skip(t, oneByOne)
	needGit(t)
	const gone = "" // the file must not be there
	tests := map[string]struct{ script, file, want string }{
		"harmless attributes":      {"echo '*.a text' > .gitattributes; echo '*.b binary' >> .gitattributes", ".gitattributes", "*.a text\n"},
		"in pieces":                {"(echo '*.a text'; cat f >/dev/null; echo '*.b text') > .gitattributes", ".gitattributes", "*.a text\n*.b text\n"},
		"a driver":                 {"echo '* filter=x' > .gitattributes", ".gitattributes", gone},
		"a driver later":           {"exec 3> .gitattributes; echo '*.a text' >&3; cat f >/dev/null; echo '* diff=x' >&3; exec 3>&-; cat f", ".gitattributes", gone},
		"a driver by a child":      {"(sleep 0.2; echo '* diff=x') > .gitattributes & echo '*.a text' > /dev/null; cat f; wait", ".gitattributes", gone},
		"a driver appended":        {"echo '*.a text' > .gitattributes; cat f; echo '* diff=x' >> .gitattributes", ".gitattributes", "*.a text\n"},
		"a driver in its place":    {"echo '*.a text' > .gitattributes; cat f; echo '* diff=x' 1<> .gitattributes", ".gitattributes", "*.a text\n"},
		"written anew":             {"echo '*.a text' > .gitattributes; cat f; echo '*.b text' > .gitattributes", ".gitattributes", "*.b text\n"},
		"read and written":         {"echo '*.a text' > .gitattributes; cat f; perl -e 'open(F, \"+>\", \".gitattributes\"); print F \"*.b text\\n\"'", ".gitattributes", "*.b text\n"},
		"with times and a mode":    {"mkdir d && echo '*.a text' > d/.gitattributes && touch -d @1 d/.gitattributes && cp -p d/.gitattributes . && touch e && test $(stat -c %a%Y .gitattributes) = 6441 && chmod 600 .gitattributes && touch .gitattributes || echo '*.x text' > .gitattributes", ".gitattributes", "*.a text\n"},
		"a driver anew":            {"echo '*.a text' > .gitattributes; cat f; echo '* diff=x' > .gitattributes", ".gitattributes", "*.a text\n"},
		"no descriptor left":       {"echo '*.a text' > .gitattributes; cat f; (ulimit -n 4; exec 3<f; : > .gitattributes)", ".gitattributes", "*.a text\n"},
		"renamed":                  {"echo '* diff=x' > a; mv a .gitattributes", ".gitattributes", gone},
		"renamed and written":      {"echo '*.a text' > a; exec 3>> a; mv a .gitattributes; echo '* diff=x' >&3", ".gitattributes", "*.a text\n"},
		"linked":                   {"echo '*.a text' > a; ln a .gitattributes", ".gitattributes", gone},
		"a link":                   {"echo '*.a text' > a; ln -s a .gitattributes", ".gitattributes", gone},
		"a macro":                  {"echo '[attr]binary diff=x' > .gitattributes", ".gitattributes", gone},
		"a quoted pattern":         {"echo '\"a b\" diff=x' > .gitattributes", ".gitattributes", gone},
		"held open at the end":     {"echo '*.a text' > .gitattributes; exec 3> .gitattributes; echo '*.b text' >&3; exit 0", ".gitattributes", "*.b text\n"},
		"larger than is looked at": {"for i in $(seq 9000); do echo '*.a text'; done > .gitattributes", ".gitattributes", gone},
		"modules":                  {"printf '[submodule \"s\"]\\n\\tpath = s\\n\\turl = ../o.git\\n' > .gitmodules", ".gitmodules", "[submodule \"s\"]\n\tpath = s\n\turl = ../o.git\n"},
		"modules with a program":   {"printf '[submodule \"s\"]\\n\\tpath = s\\n\\turl = ../o\\n\\tupdate = !touch MARK\\n' > .gitmodules", ".gitmodules", gone},
		"modules by a helper":      {"printf '[submodule \"s\"]\\n\\tpath = s\\n\\turl = ext::sh -c touch%%20MARK\\n' > .gitmodules", ".gitmodules", gone},
		"modules with an option":   {"printf '[submodule \"s\"]\\n\\tpath = s\\n\\turl = -u./x\\n' > .gitmodules", ".gitmodules", gone},
		"an evil repository":       {evil + "mkdir s; echo 'gitdir: ../evil' > s/.git", "s/.git", gone},
		"through ..":               {evil + "mkdir -p s .git/worktrees/x; echo \"gitdir: $PWD/.git/worktrees/x/../../../evil\" > s/.git", "s/.git", gone},
		"through a link":           {evil + "mkdir -p s .git/worktrees; ln -s ../../evil .git/worktrees/x; echo 'gitdir: ../.git/worktrees/x' > s/.git", ".git/worktrees/x/config", gone},
		"a link that comes later":  {evil + "mkdir -p s .git/worktrees/x; echo 'gitdir: ../.git/worktrees/x' > s/.git; cat f; rmdir .git/worktrees/x; ln -s ../../evil .git/worktrees/x; mv -T evil .git/worktrees/x", ".git/worktrees/x/config", gone},
		"an evil parent":           {evil + "mkdir -p w/.git/worktrees s; mv evil w/.git/worktrees/x; echo 'gitdir: ../w/.git/worktrees/x' > s/.git", "w/.git/worktrees/x/config", gone},
		"out of the workspace":     {"mkdir -p s /tmp/.git/worktrees/x; echo 'gitdir: /tmp/.git/worktrees/x' > s/.git", "s/.git", gone},
		"two lines":                {"mkdir -p s .git/worktrees/x; printf 'gitdir: ../.git/worktrees/x\\n/../../../evil\\n' > s/.git", "s/.git", gone},
		"a worktree's":             {"mkdir -p s .git/worktrees/x; echo 'gitdir: ../.git/worktrees/x' > s/.git", "s/.git", "gitdir: ../.git/worktrees/x\n"},
		"commondir":                {"mkdir -p .git/worktrees/x; echo '../..' > .git/worktrees/x/commondir", ".git/worktrees/x/commondir", "../..\n"},
		"commondir elsewhere":      {evil + "mkdir -p .git/worktrees/x; echo '../../../evil' > .git/worktrees/x/commondir", ".git/worktrees/x/commondir", gone},
		"commondir of a module":    {"mkdir -p .git/modules/x; echo '../..' > .git/modules/x/commondir", ".git/modules/x/commondir", gone},
		"files elsewhere":          {"git init -q --separate-git-dir .git/modules/z z 2>/dev/null; mkdir -p .git/modules; git init -q --separate-git-dir .git/modules/z z; git -C z config core.worktree ../../../../../elsewhere; grep elsewhere .git/modules/z/config", "s/.git", gone},
		"in a worktree's folder":   {"mkdir -p .git/worktrees/w/a/worktrees/x/refs .git/worktrees/w/a/worktrees/x/hooks; printf '[core]\\n\\tfsmonitor = touch MARK\\n' > .git/worktrees/w/a/config", ".git/worktrees/w/a/config", gone},
		"behind a link":            {"mkdir -p s .git/worktrees/x a/worktrees/x b/.git/c/d; ln -s ../b/.git/c/d l; echo 'gitdir: ../l/../../worktrees/x' > s/.git; echo 'gitdir: ../l/../.git/worktrees/x' > s/.git", "s/.git", gone},
		"behind a link of Git's":   {"mkdir -p s a/b a/worktrees .git/worktrees/x; ln -s ../a/b .git/l; echo 'gitdir: ../.git/l/../worktrees/x' > s/.git", "s/.git", gone},
		"a module worktrees":       {"mkdir -p .git/modules/worktrees/x .git/modules/hooks .git/modules/objects .git/modules/refs; printf '#!/bin/sh\\ntouch MARK\\n' > .git/modules/hooks/post-checkout; echo '../..' > .git/modules/worktrees/x/commondir", ".git/modules/worktrees/x/commondir", gone},
		"a module's worktree":      {"mkdir -p .git/modules/a/b/worktrees/x; echo '../..' > .git/modules/a/b/worktrees/x/commondir", ".git/modules/a/b/worktrees/x/commondir", "../..\n"},
		"a module with a slash":    {"mkdir -p s; echo 'gitdir: ../.git/modules/a/b' > s/.git", "s/.git", "gitdir: ../.git/modules/a/b\n"},
		"attributes and a space":   {"printf '\\302\\240 filter=x\\n' > .gitattributes", ".gitattributes", gone},
		"attributes and a feed":    {"printf '\\f filter=x\\n' > .gitattributes", ".gitattributes", gone},
		"an option behind a space": {"printf '[submodule \"s\"]\\n\\tpath = s\\n\\turl =  -u./x\\n' > .gitmodules", ".gitmodules", gone},
		"files behind a comment":   {"git init -q --separate-git-dir .git/modules/z z 2>/dev/null; mkdir -p .git/modules; git init -q --separate-git-dir .git/modules/z z; cp .git/modules/z/config c; printf '[core]\\n\\tworktree = ../..;/../../../zz\\n' >> c; cp c d; mv c .git/modules/z/config; grep zz .git/modules/z/config && touch bad", "bad", gone},
		"a module moved":           {"mkdir -p .git/modules/a/b && git init -q --separate-git-dir .git/modules/a/b/z z && mv .git/modules/a/b/z .git/modules/a/y", ".git/modules/a/y/config", gone},
		"settings":                 {"git init -q n; cp n/.git/config c; cat c > n/.git/config; cat f; cmp c n/.git/config && rm -rf n/.git/config && printf '[user]\\n\\tname = x\\n' > n/.git/config; cat f; echo '[core]' >> n/.git/config", "n/.git/config", "[user]\n\tname = x\n"},
		"a program in settings":    {"git init -q n; rm n/.git/config; printf '[core]\\n\\tfsmonitor = touch MARK\\n' > n/.git/config; cat f; printf '[core]\\n\\tfsmonitor = touch MARK\\n' > .git/config", "n/.git/config", gone},
		"a rebase":                 {"mkdir .git/rebase-merge; printf '# a comment\npick 1 one\n\nf -C 2 two\nbreak\n' > .git/rebase-merge/git-rebase-todo; cat f; sed -i s/pick/drop/ .git/rebase-merge/git-rebase-todo", ".git/rebase-merge/git-rebase-todo", "# a comment\ndrop 1 one\n\nf -C 2 two\nbreak\n"},
		"a rebase that executes":   {"mkdir .git/rebase-merge; printf 'pick 1\n exec touch MARK\n' > .git/rebase-merge/git-rebase-todo; printf 'x touch MARK\n' > a; mv a .git/rebase-merge/git-rebase-todo; cat f; printf 'pick 1\r\nx\ttouch MARK\r\n' > .git/rebase-merge/git-rebase-todo; mkdir d; printf 'x touch MARK\n' > d/git-rebase-todo; rmdir .git/rebase-merge; mv d .git/rebase-merge", ".git/rebase-merge/git-rebase-todo", gone},
		"a worktree's rebase":      {"mkdir -p .git/worktrees/x/rebase-merge; echo pick 1 > .git/worktrees/x/rebase-merge/git-rebase-todo; cat f; echo 'exec touch MARK' > .git/worktrees/x/rebase-merge/git-rebase-todo", ".git/worktrees/x/rebase-merge/git-rebase-todo", "pick 1\n"},
		"many at once":             {"for i in $(seq 18); do mkdir d$i; (sleep 0.3; echo '* diff=x') > d$i/.gitattributes & done; wait", "d1/.gitattributes", gone},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newLeadWorld(t, lead{}, ".", "", "none", false)
			out := w.sh("PATH=/usr/bin:/bin; exec 2>&1; " + tc.script)
			b, err := os.ReadFile(filepath.Join(w.world.dir, tc.file))
			if string(b) != tc.want || err == nil == (tc.want == gone) {
				t.Errorf("%s has %q, %v; want %q\n%s\n%s", tc.file, b, err, tc.want, out.Stdout.Data, out.Refusals)
			}
			if tc.want == gone && len(out.Refusals) == 0 {
				t.Error("nothing was refused")
			}
			must(t, filepath.WalkDir(w.world.dir, func(p string, _ os.DirEntry, err error) error {
				if strings.HasPrefix(filepath.Base(p), ".remit-") {
					t.Errorf("%s is left", p)
				}
				return err
			}))
			if w.works(); w.ran() {
				t.Error("a program of the command was run")
			}
		})
	}
}
