package extensions_test

import (
	"archive/zip"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/app/apptest"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/service/extensions"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/runs"
)

const extManifest = `{"id": "%s", "name": "Test", "version": "%s", "description": "Tests.", "author": "Ann", "license": "MIT", "permissions_required": ["exec", "filesystem.write"]%s}`

const extCommands = `slash_commands:
  - name: /%s
    summary: Tests
    maps_to: {actions: [{id: echo, description: Says it., runner: exec.echo, arguments: [{name: text, description: What.}]}]}
`

// extDir makes an extension's folder; files are more of them, by name and content.
func extDir(t *testing.T, id, version string, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	all := append([]string{"manifest.json", fmt.Sprintf(extManifest, id, version, ""), "commands/commands.yaml", fmt.Sprintf(extCommands, id)}, files...)
	for i := 0; i < len(all); i += 2 {
		name := filepath.Join(dir, all[i])
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(all[i+1]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func yes(extensions.Offer) (bool, error) { return true, nil }

func install(t *testing.T, a *app.App, dir string, update bool) extensions.Installed {
	t.Helper()
	got, err := a.Extensions.Install(t.Context(), extensions.Installation{Path: dir, Update: update, Confirm: yes})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// nothing checks that an installation that failed left nothing.
func nothing(t *testing.T, homeDir, id string) {
	t.Helper()
	for _, name := range []string{filepath.Join(homeDir, "extensions", id), filepath.Join(homeDir, "extensions", ".old-"+id)} {
		if _, err := os.Lstat(name); err == nil {
			t.Errorf("%s is there", name)
		}
	}
	if left, err := os.ReadDir(homeDir + "-ext"); err == nil && len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

func TestNothingIsWrittenWithoutAYes(t *testing.T) {
	homeDir := filepath.Join(t.TempDir(), "home")
	a := apptest.New(t, homeDir)
	asked := 0
	_, err := a.Extensions.Install(t.Context(), extensions.Installation{Path: extDir(t, "one", "1.0.0"), Confirm: func(o extensions.Offer) (bool, error) {
		if asked++; o.ID != "one" || len(o.Wants) != 2 || len(o.Actions) != 1 || !strings.Contains(o.Bounds, "inherit") || o.Actions[0].Risk != "high" {
			t.Errorf("%+v", o)
		}
		nothing(t, homeDir, "one")
		return false, nil
	}})
	if !errors.Is(err, fault.Usage) || asked != 1 {
		t.Fatalf("%v, asked %d times", err, asked)
	}
	nothing(t, homeDir, "one")
}

func TestAnotherProcessIsSeen(t *testing.T) {
	homeDir := filepath.Join(t.TempDir(), "home")
	a, b := apptest.New(t, homeDir), apptest.New(t, homeDir)
	route := func(line string) error {
		t.Helper()
		r, err := a.Extensions.Router()
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Route(line)
		return err
	}
	tools := func() int {
		t.Helper()
		if err := a.Extensions.Sync(); err != nil {
			t.Fatal(err)
		}
		return len(a.Catalog().List(t.Context(), catalog.Filter{Source: "extension"}).Tools)
	}
	if err := route("/one echo x"); !errors.Is(err, fault.CommandUnknown) {
		t.Fatal(err)
	}
	install(t, b, extDir(t, "one", "1.0.0"), false)
	if err := route("/one echo x"); err != nil || tools() != 1 {
		t.Fatal(err, tools())
	}
	was, err := a.Extensions.Router()
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := a.Extensions.Router(); again != was {
		t.Error("the router is made anew though nothing changed")
	}
	if _, err := b.Extensions.Enable("one", false); err != nil {
		t.Fatal(err)
	}
	if err := route("/one echo x"); err == nil || !strings.Contains(err.Error(), "is disabled") || tools() != 0 {
		t.Error(err, tools())
	}
	if _, err := b.Extensions.Enable("one", true); err != nil {
		t.Fatal(err)
	}
	if tools() != 1 {
		t.Error("its tools do not come back")
	}
	if err := b.Extensions.Remove("one"); err != nil {
		t.Fatal(err)
	}
	if err := route("/one echo x"); err == nil || tools() != 0 {
		t.Error(err, tools())
	}
}

func TestWhatIsInTheWayOfAnInstallation(t *testing.T) {
	homeDir := filepath.Join(t.TempDir(), "home")
	a := apptest.New(t, homeDir)
	install(t, a, extDir(t, "one", "1.0.0"), false)
	put := func(dir, name string, make func(path string) error) string {
		if err := make(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	for name, c := range map[string]struct {
		dir, want string
	}{
		"a command of another": {extDir(t, "nes", "1.0.0", "commands/commands.yaml", fmt.Sprintf(extCommands, "one")), "/one is a command of the extension one already"},
		"a link":               {put(extDir(t, "two", "1.0.0", "docs/x", ""), "docs/l", func(p string) error { return os.Symlink("/etc/passwd", p) }), `"docs/l": it is a link`},
		"a folder that is one": {put(extDir(t, "two", "1.0.0"), "docs", func(p string) error { return os.Symlink("/etc", p) }), `"docs": it is a link`},
		"a FIFO":               {put(extDir(t, "two", "1.0.0", "docs/x", ""), "docs/f", func(p string) error { return syscall.Mkfifo(p, 0o644) }), `"docs/f": it is neither a file nor a folder`},
		"setuid":               {put(extDir(t, "two", "1.0.0", "bin/x", ""), "bin/x", func(p string) error { return os.Chmod(p, 0o755|os.ModeSetuid) }), `"bin/x": its mode`},
		"a folder of its own":  {extDir(t, "two", "1.0.0", ".git/config", "x"), `".git": not part of an extension`},
		"another platform":     {extDir(t, "two", "1.0.0", "manifest.json", fmt.Sprintf(extManifest, "two", "1.0.0", `, "platforms": ["windows"]`)), "two works on windows"},
		"nothing":              {t.TempDir(), "it has no manifest.json"},
		"no such path":         {filepath.Join(t.TempDir(), "x"), "cannot be read"},
		"no archive":           {filepath.Join(extDir(t, "two", "1.0.0"), "manifest.json"), "not a valid zip archive"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := a.Extensions.Install(t.Context(), extensions.Installation{Path: c.dir, Confirm: yes})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
			nothing(t, homeDir, "two")
		})
	}
	list, err := a.Extensions.List()
	if err != nil || len(list) != 1 {
		t.Error(list, err)
	}
}

func TestArchivesAndTheirChecksums(t *testing.T) {
	homeDir := filepath.Join(t.TempDir(), "home")
	a := apptest.New(t, homeDir)
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	if err := w.AddFS(os.DirFS(extDir(t, "one", "1.0.0", "bin/tool", "#!/bin/sh\n"))); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "one.zip")
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Extensions.Install(t.Context(), extensions.Installation{Path: file, SHA256: strings.Repeat("0", 64), Confirm: yes}); !errors.Is(err, fault.ExtensionChecksum) {
		t.Error(err)
	}
	sum := sha256.Sum256(b.Bytes())
	if _, err := a.Extensions.Install(t.Context(), extensions.Installation{Path: file, SHA256: hex.EncodeToString(sum[:]), Confirm: yes}); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(filepath.Join(homeDir, "extensions", "one", "bin", "tool"))
	if err != nil || st.Mode().Perm() != 0o755 {
		t.Error(st, err)
	}
}

func TestWhoSignedIt(t *testing.T) {
	a := apptest.New(t, filepath.Join(t.TempDir(), "home"))
	signed := func(version string, priv ed25519.PrivateKey) string {
		cmds := fmt.Sprintf(extCommands, "one")
		sum := sha256.Sum256([]byte(cmds))
		pub, _ := priv.Public().(ed25519.PublicKey)
		m := fmt.Sprintf(extManifest, "one", version, fmt.Sprintf(`, "checksums": {"commands/commands.yaml": %q}, "signer": "ed25519:%s"`, hex.EncodeToString(sum[:]), base64.StdEncoding.EncodeToString(pub)))
		return extDir(t, "one", version, "manifest.json", m, "manifest.json.sig", base64.StdEncoding.EncodeToString(ed25519.Sign(priv, []byte(m))))
	}
	key := func(b byte) ed25519.PrivateKey { return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{b}, 32)) }
	got := install(t, a, signed("1.0.0", key(1)), false)
	if !strings.HasPrefix(got.Signer, "ed25519:") {
		t.Fatal(got.Signer)
	}
	for name, dir := range map[string]string{"nobody": extDir(t, "one", "1.1.0"), "somebody else": signed("1.1.0", key(2))} {
		if _, err := a.Extensions.Install(t.Context(), extensions.Installation{Path: dir, Update: true, Confirm: yes}); !errors.Is(err, fault.ExtensionChecksum) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := a.Extensions.Install(t.Context(), extensions.Installation{Path: signed("1.1.0", key(1)), Update: true, Signer: "ed25519:" + strings.Repeat("A", 43) + "=", Confirm: yes}); !errors.Is(err, fault.ExtensionChecksum) {
		t.Error(err)
	}
	if got := install(t, a, signed("1.1.0", key(1)), true); got.Version != "1.1.0" {
		t.Error(got.Version)
	}
}

const installPolicy = "version: 1\nfiles: {read: {allow: ['**']}, write: {allow: ['**', '/**']}}\nnetwork: {allow: ['localhost']}\n"

func TestThePlanOfAnInstallation(t *testing.T) {
	homeDir := filepath.Join(t.TempDir(), "home")
	a := apptest.New(t, homeDir)
	plan := func(path string) string {
		return fmt.Sprintf("version: \"1\"\nsteps:\n  - tool: fs.write\n    args: {path: %q, content: made}\n", path)
	}
	outside := filepath.Join(t.TempDir(), "x")
	// What its bounds, or the policy beside it, do not allow ends it, and nothing is installed.
	for name, c := range map[string][2]string{"out of its folder": {plan(outside), installPolicy}, "what its policy denies": {plan("made.txt"), "version: 1\n"}} {
		_, err := a.Extensions.Install(t.Context(), extensions.Installation{Path: extDir(t, "one", "1.0.0", "install/plan.yaml", c[0], "install/policy.yaml", c[1]), Confirm: yes})
		if !errors.Is(err, fault.Denied) {
			t.Errorf("%s: %v", name, err)
		}
		nothing(t, homeDir, "one")
		if _, err := os.Stat(outside); err == nil {
			t.Fatal("it wrote out of its folder")
		}
	}
	for name, c := range map[string][2]string{"a policy that inherits": {plan("x"), "version: 1\nrest: inherit\n"}, "no plan": {"steps: []", installPolicy}, "no policy": {plan("x"), "version: 2"}} {
		if _, err := a.Extensions.Install(t.Context(), extensions.Installation{Path: extDir(t, "one", "1.0.0", "install/plan.yaml", c[0], "install/policy.yaml", c[1]),
			Confirm: func(extensions.Offer) (bool, error) { t.Errorf("%s: it is offered", name); return false, nil }}); err == nil {
			t.Errorf("%s: it is installed", name)
		}
	}
	got, err := a.Extensions.Install(t.Context(), extensions.Installation{Path: extDir(t, "one", "1.0.0", "install/plan.yaml", plan("made.txt"), "install/policy.yaml", installPolicy), Confirm: func(o extensions.Offer) (bool, error) {
		if !strings.Contains(o.InstallPlan, "made.txt") || !strings.Contains(o.InstallPolicy, "localhost") {
			t.Errorf("%+v", o)
		}
		return true, nil
	}})
	if err != nil || got.Run == "" {
		t.Fatal(got.Run, err)
	}
	work := filepath.Join(homeDir, "extensions", "one", "work")
	if b, err := os.ReadFile(filepath.Join(work, "made.txt")); err != nil || string(b) != "made" {
		t.Error(string(b), err)
	}
	if err := os.WriteFile(filepath.Join(work, "own.txt"), []byte("own"), 0o644); err != nil {
		t.Fatal(err)
	}
	install(t, a, extDir(t, "one", "1.1.0"), true)
	for _, name := range []string{"made.txt", "own.txt"} {
		if _, err := os.Stat(filepath.Join(work, name)); err != nil {
			t.Errorf("after an update: %v", err)
		}
	}
}

// A process that ended in the middle of an installation leaves what the next one
// puts right.
func TestInterruptedInstallations(t *testing.T) {
	homeDir := filepath.Join(t.TempDir(), "home")
	a := apptest.New(t, homeDir)
	install(t, a, extDir(t, "one", "1.0.0"), false)
	root := filepath.Join(homeDir, "extensions", "one")
	old := filepath.Join(homeDir, "extensions", ".old-one")
	if err := os.WriteFile(filepath.Join(root, "work", "own"), []byte("own"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]func() error{
		"the old one is aside": func() error { return os.Rename(root, old) },
		"the new one is not listed": func() error {
			if err := os.Rename(root, old); err != nil {
				return err
			}
			if err := os.MkdirAll(filepath.Join(root, "work"), 0o755); err != nil {
				return err
			}
			if err := os.Rename(filepath.Join(old, "work", "own"), filepath.Join(root, "work", "own")); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(root, "manifest.json"), []byte("{}"), 0o644)
		},
		"the old one is left": func() error { return os.MkdirAll(old, 0o755) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := c(); err != nil {
				t.Fatal(err)
			}
			if _, err := a.Extensions.Enable("one", true); err != nil {
				t.Fatal(err)
			}
			if _, err := a.Extensions.Show(t.Context(), "one"); err != nil {
				t.Error(err)
			}
			if b, err := os.ReadFile(filepath.Join(root, "work", "own")); err != nil || string(b) != "own" {
				t.Error(string(b), err)
			}
			if _, err := os.Stat(old); err == nil {
				t.Errorf("%s is there", old)
			}
		})
	}
}

// What lies in an extension's place and is none is replaced as a whole.
func TestAFolderThatIsNoExtension(t *testing.T) {
	homeDir := filepath.Join(t.TempDir(), "home")
	a := apptest.New(t, homeDir)
	for _, dir := range []string{"bin", "work"} {
		if err := os.MkdirAll(filepath.Join(homeDir, "extensions", "one", dir, "planted"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := a.Extensions.List(); err != nil || len(list) != 0 {
		t.Error(list, err)
	}
	install(t, a, extDir(t, "one", "1.0.0"), false)
	for _, dir := range []string{"bin", "work"} {
		if _, err := os.Stat(filepath.Join(homeDir, "extensions", "one", dir, "planted")); err == nil {
			t.Errorf("%s/planted is there", dir)
		}
	}
	if _, err := a.Extensions.Show(t.Context(), "one"); err != nil {
		t.Error(err)
	}
}

// What another process does to an extension holds for the next call of a session
// that lives long.
func TestACallGoesByTheExtensionsAsTheyAreNow(t *testing.T) {
	homeDir := filepath.Join(t.TempDir(), "home")
	a, b := apptest.New(t, homeDir), apptest.New(t, homeDir)
	ws, err := home.Workspace(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := filepath.Join(ws, "p.yaml")
	if err := os.WriteFile(p, []byte("version: 1\ncommands: {ask: ['echo **']}\ntools: {allow: ['ext:*']}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := a.Runs.Begin(t.Context(), runs.Request{Policy: p, Workspace: ws, Name: "long"})
	if err != nil {
		t.Fatal(err)
	}
	code := func() fault.Code {
		t.Helper()
		o, err := s.Call(t.Context(), runner.Call{Tool: "ext:one:echo", Args: map[string]any{"text": "x"}})
		if err != nil {
			t.Fatal(err)
		}
		return fault.CodeOf(o.Err)
	}
	for i, step := range []struct {
		do   func()
		want fault.Code
	}{
		{func() {}, fault.ToolUnknown},
		{func() { install(t, b, extDir(t, "one", "1.0.0"), false) }, fault.NeedsApproval},
		{func() { _, err = b.Extensions.Enable("one", false) }, fault.ToolUnknown},
		{func() { _, err = b.Extensions.Enable("one", true) }, fault.NeedsApproval},
		{func() { err = os.WriteFile(filepath.Join(homeDir, "extensions.json"), []byte("{"), 0o600) }, fault.StoreCorrupt},
	} {
		if step.do(); err != nil {
			t.Fatal(err)
		}
		if got := code(); got != step.want {
			t.Errorf("step %d: %s, want %s", i, got, step.want)
		}
	}
	if err := s.End(t.Context()); err != nil {
		t.Error(err)
	}
}
