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

// Settings by which Git runs a program, or reads what another one says. No command adds one of them to any file of
// settings, as Git does it or by moving a file there.
func TestCommandsAddNoSettingThatNamesAProgram(t *testing.T) {
	racetest.Skip(t, oneByOne)
	needGit(t)
	keys := strings.Fields(`alias.x core.fsmonitor core.hooksPath core.editor core.pager core.sshCommand core.askPass core.gitProxy core.worktree
		core.attributesFile core.alternateRefsCommand credential.helper diff.external diff.d.command diff.d.textconv difftool.t.cmd mergetool.t.cmd merge.m.driver
		filter.f.clean filter.f.smudge filter.f.process gpg.program gpg.ssh.program gpg.ssh.defaultKeyCommand pager.log sequence.editor interactive.diffFilter
		include.path includeIf.onbranch:**.path init.templateDir protocol.ext.allow protocol.allow remote.o.uploadpack remote.o.receivepack remote.o.vcs
		remote.o.proxy http.proxy url.ext::x.insteadOf submodule.s.update trailer.t.cmd uploadpack.packObjectsHook web.browser man.viewer sendemail.sendmailCmd
		tar.x.command safe.directory extensions.partialClone hook.h.command lfs.customtransfer.x.path push.default help.autocorrect submodule.recurse diff.submodule remote.o.mirror rerere.enabled status.showUntrackedFiles`)
	w := newLeadWorld(t, lead{}, ".", "", "none", false)
	w.person.sh(w.world.dir, "git worktree add -q old; mkdir -p .git/modules/s && git init -q --bare .git/modules/s")
	files := []string{".git/config", ".git/config.worktree", ".git/worktrees/old/config.worktree", ".git/modules/s/config", "new/.git/config"}
	var b strings.Builder
	b.WriteString("git init -q new\n")
	tried := 0
	for f, file := range files {
		for k, key := range keys {
			if os.Getenv("REMIT_SOAK") == "" && k%16 != f {
				continue
			}
			tried++
			fmt.Fprintf(&b, "git config -f %[1]s '%[2]s' touch; rm -f c; cp %[1]s c; git config -f c '%[2]s' touch && mv c %[1]s\n", file, key)
		}
		for _, url := range []string{"remote.o.url", "remote.o.pushurl", "branch.b.remote", "submodule.s.url"} {
			fmt.Fprintf(&b, "git config -f %s %s 'ext::touch x'\n", file, url)
		}
		fmt.Fprintf(&b, "git config -f %[1]s user.name honest; git config -f %[1]s pull.rebase true\n", file)
	}
	out := w.sh(b.String() + "true")
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(w.world.dir, file))
		if err != nil || !strings.Contains(string(text), "name = honest") || !strings.Contains(string(text), "rebase = true") {
			t.Errorf("%s: an honest setting is missing: %v\n%s", file, err, out.Stderr.Data)
		}
		if strings.Contains(string(text), "touch") {
			t.Errorf("%s has a setting that names a program:\n%s", file, text)
		}
	}
	if n := strings.Count(string(out.Stderr.Data), "Permission denied"); n < tried {
		t.Errorf("%d settings were refused, want at least %d", n, tried)
	}
}
