//go:build linux && (amd64 || arm64)

package linux_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

// A tool's own folder in Remit's is there for its commands, as far as the
// policies open the same in the workspace, and nothing else of Remit's is.
func TestTheToolsOwnFolder(t *testing.T) {
	t.Parallel()
	const commands = "\ncommands: {allow: ['**'], timeout: 300s}\n"
	for name, c := range map[string]struct {
		policy, narrow string
		state          string // below the workspace, or "" for outside
		want           string // of: may the folder be read, written, and Remit's own secret read, the workspace written?
	}{
		"all of the workspace":    {"version: 1\nfiles: {read: {allow: ['**']}, write: {allow: ['**']}}" + commands, "", "", "read write -- write"},
		"it alone may be written": {"version: 1\nfiles: {read: {allow: ['**']}, write: {allow: ['**']}}" + commands, "version: 1\nrest: inherit\nfiles: {write: {allow: ['OWN/**']}}", "", "read write -- --"},
		"only to be read":         {"version: 1\nfiles: {read: {allow: ['**']}}" + commands, "", "", "read -- -- --"},
		"a part of the workspace": {"version: 1\nfiles: {read: {allow: ['**']}, write: {allow: ['out/**']}}" + commands, "", "", "read -- -- --"},
		"nothing":                 {"version: 1\nfiles: {read: {allow: ['src/**']}}" + commands, "version: 1\nrest: inherit\nfiles: {read: {}}", "", "-- -- -- --"},
		"in what is readable":     {"version: 1\nfiles: {read: {allow: ['**']}, write: {allow: ['**']}}" + commands, "", "home", "read write -- write"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, openPolicy)
			state, err := filepath.EvalSymlinks(t.TempDir())
			must(t, err)
			if c.state != "" {
				state = filepath.Join(w.dir, c.state)
			}
			own := filepath.Join(state, "extensions", "x", "work")
			must(t, os.MkdirAll(own, 0o755))
			must(t, os.WriteFile(filepath.Join(own, "kept"), []byte("kept"), 0o644))
			must(t, os.WriteFile(filepath.Join(state, "extensions", "secret"), []byte("secret"), 0o644))
			w.file("src/a", "a")
			must(t, w.box.Close())
			w.box = linux.New(linux.Config{Getenv: os.LookupEnv, State: state})
			t.Cleanup(func() { must(t, w.box.Close()) })
			env := policy.Env{Workspace: w.dir, State: state, Path: []string{"/usr/bin", "/bin"}}
			var chain policy.Chain
			for _, src := range []string{c.policy, c.narrow} {
				if src == "" {
					continue
				}
				p, err := policy.Parse("p.yaml", []byte(strings.ReplaceAll(src, "OWN", own)))
				must(t, err)
				r, err := p.Bind(env)
				must(t, err)
				chain = append(chain, r)
			}
			chain = chain.Owning(own)
			w.p = permit.Mint(permit.Terms{Chain: chain, Limits: chain.Limits(), Env: tool.Env{Workspace: w.dir, Path: env.Path}})
			script := "if [ \"$(cat " + own + "/kept 2>/dev/null)\" = kept ]; then printf 'read '; else printf -- '-- '; fi\n" +
				"if (echo new > " + own + "/made) 2>/dev/null; then printf 'write '; else printf -- '-- '; fi\n" +
				"if cat " + state + "/extensions/secret 2>/dev/null; then printf 'secret '; else printf -- '-- '; fi\n" +
				"if (echo new > " + w.dir + "/made) 2>/dev/null; then printf 'write'; else printf -- '--'; fi\n"
			dir := w.dir
			if name == "nothing" {
				dir = "/"
			}
			out, err := w.run(sandbox.Command{Argv: []string{"/bin/sh", "-c", script}, Shell: true, Dir: dir})
			must(t, err)
			if got := string(out.Stdout.Data); got != c.want {
				t.Errorf("%q, want %q; stderr %s", got, c.want, out.Stderr.Data)
			}
			if _, err := os.Stat(filepath.Join(own, "made")); (err == nil) != strings.Contains(c.want[:10], "write") {
				t.Errorf("made on the host: %v", err)
			}
		})
	}
}
