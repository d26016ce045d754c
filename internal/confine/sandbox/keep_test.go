package sandbox_test

import (
	"slices"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// TestFoldersThatAreKept: a writable folder in which not certainly everything may be deleted
// is kept as a whole, under both kinds of isolation.
func TestFoldersThatAreKept(t *testing.T) {
	const write = "  read: {allow: ['**']}\n  write: {allow: ['out/**']}\n"
	for name, tc := range map[string]struct {
		files     string
		held      string
		kept      bool
		removable []string
	}{
		"no section":                 {files: write},
		"nothing":                    {files: write + "  delete: {allow: []}", kept: true},
		"everything":                 {files: write + "  delete: {allow: ['**']}"},
		"the folder":                 {files: write + "  delete: {allow: ['out/**']}"},
		"a folder in it":             {files: write + "  delete: {allow: ['out/tmp/**']}", kept: true, removable: []string{"/ws/out/tmp"}},
		"some names in it":           {files: write + "  delete: {allow: ['out/*.tmp']}", kept: true},
		"but a part":                 {files: write + "  delete: {allow: ['**'], deny: ['out/keep/**']}", kept: true},
		"but a part in capitals":     {files: write + "  delete: {allow: ['**'], deny: ['OUT/keep/**']}", kept: true},
		"but a name anywhere":        {files: write + "  delete: {allow: ['**'], deny: ['**/*.md']}", kept: true},
		"asked about":                {files: write + "  delete: {allow: ['**'], ask: ['out/a']}", kept: true},
		"a part of the folder in it": {files: write + "  delete: {allow: ['out/tmp/**'], deny: ['out/tmp/x']}", kept: true},
		"not elsewhere":              {files: write + "  delete: {allow: ['**'], deny: ['src/**']}"},
		"held":                       {files: write + "  delete: {allow: []}", held: "/ws"},
	} {
		for _, iso := range []policy.Isolation{policy.FullIsolation, policy.LandlockIsolation} {
			if iso != policy.FullIsolation && tc.held != "" {
				continue
			}
			p, err := sandbox.Compile(sandbox.Inputs{Chain: chainOf(t, tc.files), Dir: "/ws", Trees: []*sandbox.Node{tree("out/", "src/")}, Held: tc.held, Isolation: iso})
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(p.Mounts, func(m sandbox.Mount) bool { return m.Path == "/ws/out" && m.Access&sandbox.WriteOnly != 0 })
			if i < 0 || p.Mounts[i].Keeps != tc.kept || !slices.Equal(p.Removable, tc.removable) {
				t.Errorf("%s, %s: removable %q, profile\n%s", name, iso, p.Removable, p)
			}
		}
	}
}
