//go:build linux && (amd64 || arm64)

package linux_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/racetest"
)

const linkPolicy = `
version: 1
name: test
files:
  read:  {allow: ["**"], deny: [closed]}
  write: {allow: ["**"], deny: [closed, fixed, fixed-link, dir/fixed-link, dangling, shared-link]}
commands:
  allow: ["**", "EXE **"]
  timeout: 300s
`

// A name that the policy closes is closed too where it is a symbolic link: the
// link is not replaced. What it leads to is decided by its own name.
func TestEscapesByDeniedNamesThatAreLinks(t *testing.T) {
	racetest.Skip(t, oneByOne)
	everyTier(t, linkPolicy, testDeniedLinks)
}

func testDeniedLinks(t *testing.T, src string) {
	w := newWorld(t, src)
	outside := t.TempDir()
	must(t, os.Mkdir(filepath.Join(w.dir, "dir"), 0o755))
	w.file("open/secret", "secret") // may be read by its own name
	w.file("hooks/run", "true")
	w.file("fixed", "fixed")
	w.file("shared", "shared")
	w.file("empty/.keep", "")
	w.file(".git/index", "")
	links := map[string]string{
		"closed": "open/secret", ".env": "open/secret", ".ssh": "open", ".git/hooks": "../hooks", "dir/.env": filepath.Join(outside, "x"),
		"fixed-link": "fixed", "dir/fixed-link": "../fixed", "dangling": "nothing", "shared-link": "shared", "plain": "shared",
	}
	for name, to := range links {
		must(t, os.Symlink(to, filepath.Join(w.dir, name)))
	}
	for _, name := range []string{"dir/.env", "dangling"} {
		if out := w.sh("cat " + name); out.ExitCode == 0 || len(out.Stdout.Data) > 0 {
			t.Errorf("%s shows %q", name, out.Stdout.Data)
		}
	}
	for name, want := range map[string]string{"closed": "secret", ".env": "secret", "shared-link": "shared"} {
		if out := w.sh("cat " + name); string(out.Stdout.Data) != want {
			t.Errorf("%s shows %q", name, out.Stdout.Data)
		}
	}
	for _, name := range []string{"fixed-link", "dir/fixed-link", "plain"} {
		out := w.sh("cat " + name + "; readlink " + name)
		if want := strings.TrimPrefix(filepath.Base(links[name]), "../") + links[name] + "\n"; string(out.Stdout.Data) != want {
			t.Errorf("%s shows %q, want %q: %s", name, out.Stdout.Data, want, out.Stderr.Data)
		}
	}
	before := listing(t, w.dir)
	for name := range links {
		if name == "plain" {
			continue
		}
		scripts := []string{"rm -f L", "mv L moved; rm -f moved", "ln -sfn empty L", "cp empty/.keep new && mv -fT new L; rm -f new", "mv -T empty L", "touch -h -d @1 L", "mkdir -p nd/$(dirname L) && mv $(dirname L)/.. nd; rm -rf nd",
			"exec perl -e 'syscall(316, -100, $ARGV[0], -100, $ARGV[1], 2)' L fresh", // renameat2 with RENAME_EXCHANGE
		}
		if strings.HasSuffix(name, "fixed-link") || name == "dir/.env" {
			scripts = append(scripts, "echo owned > L", "echo owned >> L", "truncate -s 0 L", "ln -L L second; rm -f second")
		}
		for _, script := range scripts {
			_ = w.sh(strings.ReplaceAll(script, "L", name))
			if after := listing(t, w.dir); after != before {
				t.Fatalf("%q changed the host's files from\n%sto\n%s", strings.ReplaceAll(script, "L", name), before, after)
			}
		}
	}
	if out := w.sh("echo new > plain && rm plain && cat shared"); string(out.Stdout.Data) != "new\n" || out.ExitCode != 0 {
		t.Errorf("a link that may be written is not: %q, %s", out.Stdout.Data, out.Stderr.Data)
	}
}
