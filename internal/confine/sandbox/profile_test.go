package sandbox_test

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

func chainOf(t interface{ Fatal(...any) }, files string) policy.Chain {
	pol, err := policy.Parse("test.yaml", []byte("version: 1\nname: test\nfiles:\n"+files))
	if err != nil {
		t.Fatal(err)
	}
	rules, err := pol.Bind(policy.Env{Workspace: "/ws", Home: "/home/u"})
	if err != nil {
		t.Fatal(err)
	}
	return policy.Chain{rules}
}

// tree makes nodes of paths: a final slash makes a folder, @ a link, which may say
// where it leads, = a socket, ? a folder that was not surveyed.
func tree(paths ...string) *sandbox.Node {
	root := &sandbox.Node{Path: "/ws", Kind: sandbox.FolderNode, Complete: true}
	known := map[string]*sandbox.Node{"/ws": root}
	slices.Sort(paths)
	for _, p := range paths {
		p, target, link := strings.Cut(p, "@")
		if link {
			p += "@"
		}
		n := &sandbox.Node{Path: "/ws/" + strings.TrimRight(p, "/@=?"), Target: target}
		switch p[len(p)-1] {
		case '/':
			n.Kind, n.Complete = sandbox.FolderNode, true
		case '?':
			n.Kind = sandbox.FolderNode
		case '@':
			n.Kind = sandbox.LinkNode
		case '=':
			n.Kind = sandbox.SpecialNode
		}
		known[n.Path] = n
		up := known[path.Dir(n.Path)]
		up.Children = append(up.Children, n)
	}
	return root
}

// Where the rules tell more files apart than a sandbox can have mounts, there is one numbered
// error with the count, and no profile that leaves some of them open.
func TestTooManyMountsAreOneError(t *testing.T) {
	names := func(n int) []string {
		out := make([]string, n)
		for i := range out {
			out[i] = fmt.Sprintf("f%05d.bak", i)
		}
		return out
	}
	chain := chainOf(t, "  read: {allow: ['**'], deny: ['**/*.bak']}")
	compile := func(n int) (sandbox.Profile, error) {
		return sandbox.Compile(sandbox.Inputs{Chain: chain, Dir: "/ws", Trees: []*sandbox.Node{tree(names(n)...)}})
	}
	if p, err := compile(3000); err != nil || len(p.Mounts) < 3000 {
		t.Errorf("3000 masked names: %d mounts, %v", len(p.Mounts), err)
	}
	p, err := compile(100_000)
	if !errors.Is(err, fault.SandboxMissing) || !strings.Contains(fault.Message(err), "it needs 10000") || len(p.Mounts) != 0 {
		t.Errorf("100000 masked names: %d mounts, %v", len(p.Mounts), err)
	}
}

func TestProfilesFollowTheFileRules(t *testing.T) {
	tests := map[string]struct {
		files string
		paths []string
		want  []string
	}{
		"a whole workspace is one mount": {"  read: {allow: ['**']}", []string{"a", "d/", "d/b", "l@"},
			[]string{"read /ws"}},
		"nothing allowed shows nothing": {"  write: {allow: [none]}", []string{"a", "d/"}, nil},
		"denied names are masked": {"  read: {allow: ['**'], deny: ['**/*.bak', 'private/**']}",
			[]string{"a", "a.bak", "d/", "d/b.bak", "private/", "private/x", "private/y/", "private/y/z"},
			[]string{"read /ws", "masked /ws/a.bak", "masked /ws/d/b.bak", "masked /ws/private"}},
		"sensitive names are masked": {"  read: {allow: ['**']}", []string{".env", ".ssh/", ".ssh/id_rsa", "x"},
			[]string{"read /ws", "masked /ws/.env", "masked /ws/.ssh"}},
		"a sensitive name that is spelled shows in an emptied folder": {"  read: {allow: ['**', '.ssh/known_hosts']}",
			[]string{".ssh/", ".ssh/id_rsa", ".ssh/known_hosts"},
			[]string{"read /ws", "emptied /ws/.ssh", "read /ws/.ssh/known_hosts"}},
		"denied and sensitive names that are links are masked": {"  read: {allow: ['**'], deny: ['no']}\n  write: {allow: ['out/**']}",
			[]string{"x", "no@", ".env@", "l@", "out/", "out/.env@", "out/l@"},
			[]string{"read /ws", "masked /ws/.env", "masked /ws/no", "read+write /ws/out", "masked /ws/out/.env"}},
		"a link that may not be written is kept if what it leads to may not": {"  read: {allow: ['**']}\n  write: {allow: ['**'], deny: [keep, d/to-keep, to-gone, to-new]}",
			[]string{"keep", "new", "d/", "d/to-keep@/ws/keep", "to-gone@", "to-new@/ws/new", "to-outside@/opt/x"},
			[]string{"read+write /ws", "read+write /ws/d", "link read /ws/d/to-keep", "read /ws/keep", "masked /ws/to-gone", "masked /ws/to-new"}},
		"a link is no name in a folder that is not shown": {"  read: {allow: ['a']}", []string{"a", ".env@", "l@/ws/a"}, []string{"read /ws/a"}},
		"single files are mounts of their own": {"  read: {allow: ['*.go', 'd/x']}", []string{"a.go", "b.txt", "d/", "d/x", "d/y"},
			[]string{"read /ws/a.go", "read /ws/d/x"}},
		"a writable folder lies over a readable one": {"  read: {allow: ['**']}\n  write: {allow: ['out/**'], deny: ['out/keep']}",
			[]string{"a", "out/", "out/keep", "out/new"},
			[]string{"read /ws", "read+write /ws/out", "read /ws/out/keep"}},
		"what runs by itself stays read-only": {"  read: {allow: ['**']}\n  write: {allow: ['**']}",
			[]string{".git/", ".git/hooks/", ".git/hooks/x", ".git/config", ".git/index"},
			[]string{"read+write /ws", "read+write /ws/.git", "read /ws/.git/config", "read /ws/.git/hooks"}},
		"a repository stays in its place, and can be committed to": {"  read: {allow: ['**']}\n  write: {allow: ['**']}",
			[]string{".git/", ".git/HEAD", ".git/index", "sub/", "sub/.git/", "bare/", "bare/HEAD", "bare/config"},
			[]string{"read+write /ws", "read+write /ws/.git", "read+write /ws/sub", "read+write /ws/sub/.git"}},
		"what leads to a repository stays": {"  read: {allow: ['**']}\n  write: {allow: ['**']}",
			[]string{"sub/", "sub/.git"}, []string{"read+write /ws", "read+write /ws/sub", "read /ws/sub/.git"}},
		"folders around what is kept cannot be renamed": {"  read: {allow: ['**'], deny: [a/b/secret, c/d]}\n  write: {allow: ['**']}",
			[]string{"a/", "a/b/", "a/b/secret", "a/x", "c/", "c/d/", "c/d/y", "e/"},
			[]string{"read+write /ws", "read+write /ws/a", "read+write /ws/a/b", "masked /ws/a/b/secret", "read+write /ws/c", "masked /ws/c/d"}},
		"only writable": {"  write: {allow: ['out/**']}", []string{"a", "out/", "out/x"}, []string{"write /ws/out"}},
		"writable in a readable folder is out of sight": {"  read: {allow: ['**'], deny: ['out/**']}\n  write: {allow: ['out/**']}",
			[]string{"a", "out/", "out/x"}, []string{"read /ws", "masked /ws/out"}},
		"what asks is denied":         {"  read: {allow: ['**'], ask: ['q/**']}", []string{"q/", "q/x"}, []string{"read /ws", "masked /ws/q"}},
		"sockets are masked":          {"  read: {allow: ['**']}", []string{"docker.sock="}, []string{"read /ws", "masked /ws/docker.sock"}},
		"what was not surveyed hides": {"  read: {allow: ['**']}", []string{"a", "big?"}, []string{"read /ws", "masked /ws/big"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			prof, err := sandbox.Compile(sandbox.Inputs{Chain: chainOf(t, tc.files), Trees: []*sandbox.Node{tree(tc.paths...)}, Dir: "/ws"})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, m := range prof.Mounts {
				what := [...]string{m.Access.String(), "masked", "emptied"}[m.Kind]
				if m.Link {
					what = "link " + what
				}
				got = append(got, what+" "+m.Path)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("got  %q\nwant %q\n%s", got, tc.want, prof)
			}
		})
	}
}

// effective is what the mounts let a command do with a path.
func effective(mounts []sandbox.Mount, p string) sandbox.Access {
	a, around := sandbox.NoAccess, sandbox.NoAccess
	for _, m := range mounts {
		if p == m.Path || strings.HasPrefix(p, m.Path+"/") {
			a = m.Access
			around |= m.Access
			if m.Kind != sandbox.Bind {
				a = sandbox.NoAccess
			}
		}
	}
	if a&sandbox.WriteOnly != 0 {
		a |= around & sandbox.ReadOnly // Landlock's rules add up
	}
	return a
}

// added is what Landlock's rules allow with a path: all of them that lie around it.
func added(rules []sandbox.Mount, p string) (a sandbox.Access) {
	for _, m := range rules {
		if p == m.Path || strings.HasPrefix(p, m.Path+"/") {
			a |= m.Access
		}
	}
	return a
}

// What is out of sight is named, in one line.
func TestProfilesSayWhatWasNotSurveyed(t *testing.T) {
	root := tree("a", "closed1?", "closed2?", "usr?")
	for _, n := range root.Children {
		n.System = strings.Contains(n.Path, "usr")
	}
	for name, iso := range map[string]policy.Isolation{"full": policy.FullIsolation, "landlock": policy.LandlockIsolation} {
		prof, err := sandbox.Compile(sandbox.Inputs{Chain: chainOf(t, "  read: {allow: ['**']}"), Trees: []*sandbox.Node{root}, Dir: "/ws", Isolation: iso})
		if err != nil {
			t.Fatal(err)
		}
		if want := `"/ws/closed1" and 1 other folders are out of sight: not listable`; !slices.Contains(prof.Notes, want) {
			t.Errorf("%s: no note %q in %q", name, want, prof.Notes)
		}
		if got := effective(prof.Mounts, "/ws/closed1/x"); iso == policy.FullIsolation && got != sandbox.NoAccess {
			t.Errorf("what was not surveyed is open: %v", got)
		}
	}
}

// No surveyed path, whatever the rules, is open to more than the policy allows.
func TestProfilesAreNeverLooser(t *testing.T) {
	patterns := []string{"**", "*", "a/**", "a/*", "b/**", "**/x", "*/x", "a/b/x", "a/b/**", "**/*.k", "a", ".env", ".ssh/**", "x"}
	names := []string{"a", "b", "x", "y.k", ".env", ".ssh"}
	list := func(t *rapid.T, label string) string {
		return "['" + strings.Join(rapid.SliceOfN(rapid.SampledFrom(patterns), 1, 3).Draw(t, label), "', '") + "']"
	}
	rapid.Check(t, func(t *rapid.T) {
		files := "  read: {allow: " + list(t, "read") + ", deny: " + list(t, "noread") + "}\n" +
			"  write: {allow: " + list(t, "write") + ", deny: " + list(t, "nowrite") + "}\n"
		var paths []string
		for _, a := range names {
			kind := rapid.SampledFrom([]string{"", "/"}).Draw(t, a)
			paths = append(paths, a+kind)
			for _, b := range names {
				if kind != "/" {
					continue
				}
				sub := rapid.SampledFrom([]string{"", "/", "@", "@/ws/x"}).Draw(t, a+b)
				paths = append(paths, a+"/"+b+sub)
				if sub == "/" {
					paths = append(paths, a+"/"+b+"/x", a+"/"+b+"/y.k")
				}
			}
		}
		chain := chainOf(t, files)
		prof, err := sandbox.Compile(sandbox.Inputs{Chain: chain, Trees: []*sandbox.Node{tree(paths...)}, Dir: "/ws"})
		if err != nil {
			t.Fatal(err)
		}
		weak, err := sandbox.Compile(sandbox.Inputs{Chain: chain, Trees: []*sandbox.Node{tree(paths...)}, Dir: "/ws", Isolation: policy.LandlockIsolation})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range paths {
			if strings.HasSuffix(p, "/") {
				continue // a folder shows only names
			}
			name, _, _ := strings.Cut(p, "@")
			full := "/ws/" + name
			got := effective(prof.Mounts, full)
			for kind, bit := range map[tool.ActionKind]sandbox.Access{tool.FileRead: sandbox.ReadOnly, tool.FileWrite: sandbox.WriteOnly} {
				d := chain.DecideAction(tool.Action{Kind: kind, Path: full, Real: full})
				if got&bit != 0 && d.Effect != policy.Allow {
					t.Fatalf("%s %q is open and the policy says %v\n%s%s", kind, full, d.Effect, files, prof)
				}
				if added(weak.Mounts, full)&bit != 0 && d.Effect != policy.Allow {
					t.Fatalf("%s %q is open under Landlock alone and the policy says %v\n%s%s", kind, full, d.Effect, files, weak)
				}
			}
		}
	})
}
