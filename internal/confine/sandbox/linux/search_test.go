//go:build linux && (amd64 || arm64)

package linux_test

import (
	"os/exec"
	"strings"
	"testing"
)

// A search through folders finds nothing in files that it may not read, and its status is that of a search without them.
func TestSearchesPassOverProtectedFiles(t *testing.T) {
	programs := map[string]string{"grep": "grep -rn needle", "egrep": "grep -Ern --color=auto needle"}
	for name, of := range map[string]string{"rg": "rg -n --hidden --no-ignore needle", "ag": "ag --hidden needle"} {
		if _, err := exec.LookPath(name); err == nil {
			programs[name] = of
		}
	}
	for _, as := range []string{"grep", "ugrep", "/opt/agent/rg"} { // one program, with searches in it
		programs["an agent's "+as] = "bash -c 'exec -a " + as + " out/agent -rn needle $0'"
	}
	everyTier(t, openPolicy, func(t *testing.T, src string) {
		w := newWorld(t, src)
		w.file("src/a.txt", "a needle")
		w.file(".env", "KEY=needle-secret")
		w.file("src/deep/id_rsa", "needle-secret")
		w.file("plain/b.txt", "hay")
		w.file("plain/.env", "KEY=needle-secret")
		w.sh("cp $(readlink -f $(command -v grep)) out/agent")
		for name, search := range programs {
			out := w.sh(search + " .")
			if got := string(out.Stdout.Data) + string(out.Stderr.Data); out.ExitCode != 0 || !strings.Contains(got, "a needle") || strings.Contains(got, "secret") || strings.Contains(got, "denied") {
				t.Errorf("%s: status %d\n%s", name, out.ExitCode, got)
			}
			if len(out.Refusals) != 3 {
				t.Errorf("%s: the refusals are %+v", name, out.Refusals)
			}
			if out := w.sh(search + " plain"); out.ExitCode != 1 {
				t.Errorf("%s without a match: status %d\n%s%s", name, out.ExitCode, out.Stdout.Data, out.Stderr.Data)
			}
		}
		for _, absent := range []string{"grep -rL needle plain", "grep -rlL needle plain", "grep -rc needle plain", "grep -r --files-without-match needle plain", "grep -r --cou needle plain"} {
			if out := w.sh(absent); strings.Contains(string(out.Stdout.Data), ".env") || out.ExitCode != 2 {
				t.Errorf("%s: status %d, and it tells of the file:\n%s", absent, out.ExitCode, out.Stdout.Data)
			}
		}
		for _, named := range []string{"grep needle .env", "grep -rn needle .env", "cat .env", "cp -r . /tmp/copy", "tar cf /tmp/x.tar .", "head -1 src/deep/id_rsa"} {
			if out := w.sh(named); out.ExitCode == 0 || out.ExitCode == 1 && strings.HasPrefix(named, "grep") || len(out.Refusals) == 0 {
				t.Errorf("%s: status %d, refusals %+v", named, out.ExitCode, out.Refusals)
			}
		}
		// A program of that name gets no more.
		w.file("out/rg", "#!/bin/sh\n")
		if out := w.sh("cp /bin/cat out/rg && chmod +x out/rg && out/rg .env"); string(out.Stdout.Data) != "" || len(out.Refusals) != 1 {
			t.Errorf("got %q, refusals %+v", out.Stdout.Data, out.Refusals)
		}
	})
}
