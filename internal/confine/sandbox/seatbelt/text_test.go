package seatbelt_test

import (
	"flag"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/seatbelt"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func chainOf(t interface{ Fatal(...any) }, sections string) policy.Chain {
	pol, err := policy.Parse("test.yaml", []byte("version: 1\nname: test\nisolation: landlock\n"+sections))
	if err != nil {
		t.Fatal(err)
	}
	rules, err := pol.Bind(policy.Env{Workspace: "/Users/u/ws", Home: "/Users/u"})
	if err != nil {
		t.Fatal(err)
	}
	return policy.Chain{rules}
}

// node makes a folder of paths below a root: a final slash makes a folder, @ a link.
func node(root string, paths ...string) *sandbox.Node {
	top := &sandbox.Node{Path: root, Kind: sandbox.FolderNode, Complete: true}
	known := map[string]*sandbox.Node{root: top}
	slices.Sort(paths)
	for _, p := range paths {
		n := &sandbox.Node{Path: root + "/" + strings.TrimRight(p, "/@")}
		switch p[len(p)-1] {
		case '/':
			n.Kind, n.Complete = sandbox.FolderNode, true
		case '@':
			n.Kind, n.Target = sandbox.LinkNode, "/elsewhere"
		}
		up := known[path.Dir(n.Path)]
		up.Children = append(up.Children, n)
		known[n.Path] = n
	}
	return top
}

var system = []sandbox.Mount{{Path: "/bin", Access: sandbox.ReadOnly, Folder: true, System: true}, {Path: "/usr/lib", Access: sandbox.ReadOnly, Folder: true, System: true}}

func compile(t interface {
	Fatal(...any)
}, chain policy.Chain, proxy bool, port int, trees ...*sandbox.Node) (sandbox.Profile, seatbelt.Text) {
	prof, err := sandbox.Compile(sandbox.Inputs{Chain: chain, Limits: chain.Limits(), System: system, Trees: trees, Dir: "/Users/u/ws", Exe: "/bin/ls",
		State: "/Users/u/.remit", Proxy: proxy, Isolation: policy.LandlockIsolation, Seatbelt: true})
	if err != nil {
		t.Fatal(err)
	}
	text, err := seatbelt.Compile(prof, seatbelt.Own{Tmp: "/private/var/folders/x/remit-tmp-1", Port: port, MayWrite: func(p string) bool {
		return chain.DecideAction(tool.Action{Kind: tool.FileWrite, Path: p, Real: p}).Effect == policy.Allow
	}})
	if err != nil {
		t.Fatal(err)
	}
	return prof, text
}

const ws = "/Users/u/ws"

func TestProfiles(t *testing.T) {
	hostile := []string{"a\" (allow default) \"/", "b')) (allow network*)", "c\n(allow file-write*)", `d\`, "e=f", "-D x", "#|", "P0"}
	for name, c := range map[string]struct {
		policy string
		port   int
		tree   *sandbox.Node
	}{
		"readonly":   {"files: {read: {allow: ['**']}}\n", 0, node(ws, "a", "sub/")},
		"writes":     {"files: {read: {allow: ['**']}, write: {allow: ['out/**', notes.txt]}}\n", 0, node(ws, "a", "notes.txt", "out/", "out/x")},
		"withheld":   {"files: {read: {allow: ['**'], deny: ['hidden/**', '**/*.key']}, write: {allow: ['**'], deny: ['hidden/**', '**/*.key']}}\n", 0, node(ws, "a", "hidden/", "deep/", "deep/in/", "deep/in/id.key")},
		"network":    {"files: {read: {allow: ['**']}}\nnetwork: {allow: ['https://example.com']}\n", 50123, node(ws, "a")},
		"no_network": {"network: {allow: []}\n", 50123, node(ws)},
		"sensitive":  {"files: {read: {allow: ['**'], deny: ['**/.env', '**/.ssh/**']}, write: {allow: ['**'], deny: ['**/.env', '.git/hooks/**', '**/.git/**']}}\n", 0, node(ws, ".env", ".git/", ".git/HEAD", ".git/config", ".git/hooks/", ".ssh/", ".ssh/id")},
		"keeps":      {"files: {read: {allow: ['**']}, write: {allow: ['**']}, delete: {allow: ['tmp/**']}}\n", 0, node(ws, "a", "tmp/")},
		"hostile":    {"files: {read: {allow: ['**'], deny: ['**/*allow*', 'd?', 'e=*', '-D*', '#*', 'P0']}, write: {allow: ['**'], deny: ['P0']}}\n", 0, node(ws, hostile...)},
	} {
		t.Run(name, func(t *testing.T) {
			_, text := compile(t, chainOf(t, c.policy), c.port != 0, c.port, c.tree)
			got := text.Profile + "\n"
			for _, kv := range text.Params {
				got += "-D " + strconv.Quote(kv) + "\n"
			}
			golden := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil || got != string(want) {
				t.Errorf("got:\n%s\nwant %s (%v); -update rewrites it", got, golden, err)
			}
		})
	}
}

// What a profile never allows, whatever the policy says.
func TestNoProfileAllows(t *testing.T) {
	_, text := compile(t, chainOf(t, "files: {read: {allow: ['/**']}, write: {allow: ['/**']}}\nnetwork: {allow: ['https://*.example.com']}\n"), true, 50123, node(ws, "a"))
	r := read(t, text)
	for _, op := range []string{"appleevent-send", "lsopen", "file-write-setugid", "file-link", "file-clone", "file-mknod", "network-bind", "network-inbound", "system-socket",
		"mach-register", "mach-priv-task-port", "job-creation", "iokit-open", "user-preference-read", "ipc-posix-sem", "forbidden-exec-sugid", "nvram-set", "system-kext-load"} {
		if r.decide(op, ws+"/a") {
			t.Errorf("%s is allowed", op)
		}
	}
	for _, never := range []string{"pasteboard", "securityd", "SecurityServer", "lsd", "launchservices", "coreservices", "tccd", "trustd", "dnssd", "cfprefsd", "mDNSResponder", "kern.proc", "(allow default)", "(allow mach-lookup)", "unix-socket"} {
		if strings.Contains(text.Profile, never) {
			t.Errorf("the profile speaks of %s", never)
		}
	}
	if n := strings.Count(text.Profile, "network"); n != 1 || !strings.Contains(text.Profile, `(allow network-outbound (remote tcp "localhost:50123"))`) {
		t.Errorf("%d rules of the network:\n%s", n, text.Profile)
	}
	for _, own := range []string{"/Users/u/.remit/ledger.db", "/dev/disk0", "/dev/tty"} {
		if a := r.access(own); a != sandbox.NoAccess {
			t.Errorf("%s: %v", own, a)
		}
	}
}

// A folder that is renamed would take what is denied in it to a path that is not.
func TestWhatRulesSpeakOfStaysInPlace(t *testing.T) {
	_, text := compile(t, chainOf(t, "files: {read: {allow: ['**'], deny: ['**/*.key']}, write: {allow: ['**'], deny: ['**/*.key']}}\n"), false, 0,
		node(ws, "deep/", "deep/in/", "deep/in/id.key", "deep/in/free"))
	r := read(t, text)
	for _, at := range []string{ws, ws + "/deep", ws + "/deep/in", ws + "/deep/in/id.key", "/private/var/folders/x/remit-tmp-1"} {
		if r.decide("file-write-unlink", at) {
			t.Errorf("%s can be renamed", at)
		}
	}
	for _, at := range []string{ws + "/deep/in/free", ws + "/new", "/private/var/folders/x/remit-tmp-1/x"} {
		if !r.decide("file-write-unlink", at) {
			t.Errorf("%s cannot be renamed", at)
		}
	}
}

// Names that decide what Git runs cannot be made where the policy denies them.
func TestSteeringNamesOfNewRepositories(t *testing.T) {
	_, text := compile(t, chainOf(t, "files: {read: {allow: ['**']}, write: {allow: ['**'], deny: ['**/.git/hooks/**', '**/.git/config']}}\n"), false, 0, node(ws, "a"))
	r := read(t, text)
	for at, want := range map[string]bool{"new/.git/hooks": false, "new/.git/hooks/post-commit": false, "x/.GIT/Hooks/pre-push": false, ".git/config": false, "y/.git/CONFIG": false,
		"new/.git/objects/ab": true, "new/.git/HEAD": true, "new/.git/configs": true, "new/git/hooks/x": true} {
		if got := r.decide("file-write-create", ws+"/"+at); got != want {
			t.Errorf("%s can be made: %v", at, got)
		}
	}
}

// No path that a rule is about can break out of its place in the text, and the rules
// decide as the mounts do on Linux.
func TestRulesAgreeWithMounts(t *testing.T) {
	policies := []policy.Chain{
		chainOf(t, "files: {read: {allow: ['**']}}\n"),
		chainOf(t, "files: {read: {allow: ['**'], deny: ['**/*a*']}, write: {allow: ['b*/**', c]}}\n"),
		chainOf(t, "files: {read: {allow: ['a*/**']}, write: {allow: ['**'], deny: ['**/*\"*']}}\n"),
		chainOf(t, "files: {read: {allow: ['**'], deny: ['*/b/**']}, write: {allow: ['**'], deny: ['a/**']}, delete: {allow: ['b/**']}}\n"),
	}
	name := rapid.OneOf(rapid.SampledFrom([]string{"a", "b", "c", "ab"}), rapid.StringMatching("[abc\"'()\\\\\n;#= P0-9é-]{1,6}"))
	rapid.Check(t, func(t *rapid.T) {
		chain := rapid.SampledFrom(policies).Draw(t, "policy")
		var paths []string
		folders := []string{""}
		for range rapid.IntRange(1, 12).Draw(t, "names") {
			n := name.Draw(t, "name")
			p := path.Join(rapid.SampledFrom(folders).Draw(t, "in"), n)
			if n == "." || n == ".." || slices.ContainsFunc(paths, func(q string) bool { return strings.TrimRight(q, "/@") == p }) || strings.TrimRight(p, "/@") != p {
				continue
			}
			kind := rapid.SampledFrom([]string{"", "/", "/"}).Draw(t, "kind")
			if kind == "/" {
				folders = append(folders, p)
			}
			paths = append(paths, p+kind)
		}
		prof, text := compile(t, chain, false, 0, node(ws, paths...))
		agree(t, chain, prof, text, append(paths, name.Draw(t, "other")))
	})
}

func agree(t *rapid.T, chain policy.Chain, prof sandbox.Profile, text seatbelt.Text, paths []string) {
	r := read(t, text)
	if n := strings.Count(text.Profile, "\n(") + 1; n != len(r.all)+2 {
		t.Fatalf("%d rules were read of %d lines", len(r.all), n)
	}
	for _, p := range paths {
		at := ws + "/" + strings.TrimRight(p, "/")
		if got, want := r.access(at), meant(prof.Mounts, at); got != want {
			t.Fatalf("%q: the rules allow %v, the mounts %v\n%s", at, got, want, text.Profile)
		}
		for kind, bit := range map[tool.ActionKind]sandbox.Access{tool.FileRead: sandbox.ReadOnly, tool.FileWrite: sandbox.WriteOnly} {
			allowed := chain.DecideAction(tool.Action{Kind: kind, Path: at, Real: at}).Effect == policy.Allow
			if !allowed && r.access(at)&bit != 0 && !strings.HasSuffix(p, "/") && slices.Contains(paths[:len(paths)-1], p) {
				t.Fatalf("%q: %v is allowed by the rules and not by the policy", at, kind)
			}
		}
	}
}

// FuzzPaths has any path denied in a profile, and reads it back.
func FuzzPaths(f *testing.F) {
	for _, s := range []string{"/a", "/a\" (allow default) \"", "/a)\n(allow file*", `/\`, "/a\x00b", "/a\xff", "/../a", "//", "/é", "rel", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, at string) {
		prof := sandbox.Profile{Mounts: []sandbox.Mount{{Path: "/", Access: sandbox.ReadWrite, Folder: true}, {Path: at, Kind: sandbox.Mask, Folder: true}}}
		text, err := seatbelt.Compile(prof, seatbelt.Own{})
		if err != nil {
			return
		}
		r := read(t, text)
		if at != "/" && (r.access(at) != sandbox.NoAccess || r.access("/remit-other") != sandbox.ReadWrite) {
			t.Errorf("%q: %v, another path %v", at, r.access(at), r.access("/remit-other"))
		}
		plain, err := seatbelt.Compile(sandbox.Profile{Mounts: []sandbox.Mount{prof.Mounts[0], {Path: "/plain", Kind: sandbox.Mask, Folder: true}}}, seatbelt.Own{})
		if err != nil || strings.Count(at, "/") == 1 && at != "/" && plain.Profile != text.Profile {
			t.Errorf("the text depends on the path %q: %v", at, err)
		}
	})
}

func TestPathsThatNoRuleCanBeAbout(t *testing.T) {
	for _, at := range []string{"/a\x00b", "/a\xff", "/a/../b", "a", "/a/"} {
		if _, err := seatbelt.Compile(sandbox.Profile{Mounts: []sandbox.Mount{{Path: at, Kind: sandbox.Mask}}}, seatbelt.Own{}); err == nil {
			t.Errorf("%q: no error", at)
		}
	}
	var many []sandbox.Mount
	for i := range 4000 {
		many = append(many, sandbox.Mount{Path: "/" + strings.Repeat("x", 200) + strconv.Itoa(i), Kind: sandbox.Mask})
	}
	if _, err := seatbelt.Compile(sandbox.Profile{Mounts: many}, seatbelt.Own{}); err == nil {
		t.Error("a profile of a megabyte has no error")
	}
}
