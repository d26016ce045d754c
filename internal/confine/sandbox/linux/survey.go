//go:build linux && (amd64 || arm64)

package linux

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// maxSurveyPath bounds the depth: what is deeper could not be mounted over,
// since a path has at most 4096 bytes.
const maxSurveyPath = 3500

// surveys reports whether a path is looked at with what is below a root. The
// machine's /tmp is only by a root in it: else it is the command's own.
func surveys(root *sandbox.Node, p string) bool {
	return sandbox.Within(p, root.Path) && (!sandbox.Within(p, "/tmp") || sandbox.Within(root.Path, "/tmp"))
}

// maxSkipped bounds how many folders are left out one by one when the survey
// stops at MaxSurvey: each takes a mount.
const maxSkipped = 1000

// survey lists what is below the roots, without following links, what is near
// the roots first. It stops at MaxSurvey names; a folder that was not listed to
// the end is marked so. Folders of the system among them are not listed: they are
// shown as they are.
func survey(roots []string, system []sandbox.Mount, l *layers) []*sandbox.Node {
	return surveyUpTo(sandbox.MaxSurvey, maxSkipped, roots, system, l)
}

func surveyUpTo(names, skipped int, roots []string, system []sandbox.Mount, l *layers) []*sandbox.Node {
	slices.Sort(roots)
	var out []*sandbox.Node
	for _, r := range roots {
		real, err := l.real(r)
		if err != nil || slices.ContainsFunc(out, func(n *sandbox.Node) bool { return surveys(n, real) }) {
			continue // what is not there needs no mount
		}
		st, err := os.Lstat(l.At(real))
		if err != nil {
			continue
		}
		one := node(real, st.Mode().Type())
		out = slices.DeleteFunc(out, func(n *sandbox.Node) bool { return surveys(one, n.Path) })
		out = append(out, one)
	}
	levels := [][]*sandbox.Node{slices.Clone(out)}
	for level := levels[0]; len(level) > 0; levels = append(levels, level) {
		var next []*sandbox.Node
		for _, n := range level {
			if n.System = slices.ContainsFunc(system, func(m sandbox.Mount) bool { return m.Path == n.Path }); n.System || len(levels) > 1 && n.Path == "/tmp" {
				continue
			}
			list(n, &names, l)
			next = append(next, n.Children...)
		}
		level = next
	}
	collapse(levels, skipped)
	return out
}

// collapse leaves out whole folders in place of many skipped ones below them: as
// deep as it can, and no more than most.
func collapse(levels [][]*sandbox.Node, most int) {
	with := make(map[*sandbox.Node]bool) // folders with a skipped one in them
	var above func(n *sandbox.Node) bool
	above = func(n *sandbox.Node) bool {
		has := n.Skipped
		for _, child := range n.Children {
			has = above(child) || has
		}
		if has {
			with[n] = true
		}
		return has
	}
	for _, n := range levels[0] {
		above(n)
	}
	deepest, before := 0, 0
	for depth, level := range levels {
		here, ends := 0, 0
		for _, n := range level {
			if with[n] {
				here++
			}
			if n.Skipped {
				ends++
			}
		}
		if before+here > most {
			break
		}
		deepest, before = depth, before+ends
	}
	for _, n := range levels[deepest] {
		if with[n] {
			n.Children, n.Complete, n.Skipped = nil, false, true
		}
	}
}

func node(path string, mode fs.FileMode) *sandbox.Node {
	n := &sandbox.Node{Path: path, Kind: sandbox.SpecialNode}
	switch {
	case mode.IsRegular():
		n.Kind = sandbox.FileNode
	case mode.IsDir():
		n.Kind = sandbox.FolderNode
	case mode&fs.ModeSymlink != 0:
		n.Kind = sandbox.LinkNode
	}
	return n
}

// list fills in what is in a folder, if the budget has room for all of it.
func list(n *sandbox.Node, budget *int, l *layers) {
	if n.Kind != sandbox.FolderNode || len(n.Path) > maxSurveyPath || n.Path == "/proc" || n.Path == "/sys" || n.Path == "/dev" {
		return
	}
	if !enterable(l.At(n.Path)) { // the command could not enter it, and nothing can be mounted in it
		return
	}
	entries, err := os.ReadDir(l.At(n.Path))
	if err != nil {
		return
	}
	if len(entries) > *budget {
		n.Skipped = true
		return
	}
	*budget -= len(entries)
	n.Complete = true
	for _, e := range entries {
		n.Children = append(n.Children, node(filepath.Join(n.Path, e.Name()), e.Type()))
	}
}

// enterable reports whether a command may list a folder and use what is in it. As
// root, a command is root without the privilege to pass over modes.
func enterable(folder string) bool {
	if os.Geteuid() != 0 {
		return unix.Access(folder, unix.R_OK|unix.X_OK) == nil
	}
	var st unix.Stat_t
	if unix.Stat(folder, &st) != nil {
		return false
	}
	shift := 0 // of the bits that hold for everybody else
	switch {
	case st.Uid == 0:
		shift = 6
	case st.Gid == 0:
		shift = 3
	}
	return st.Mode>>shift&0o5 == 0o5
}

// systemPaths are the folders and files that programs need to run at all. None
// holds a person's data or a machine's secrets (of /etc/ssl, not private).
var systemPaths = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store",
	"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/ssl/certs",
	"/etc/ssl/openssl.cnf", "/etc/ssl/cert.pem", "/etc/pki/tls/certs", "/etc/pki/ca-trust/extracted", "/etc/ca-certificates",
	"/etc/localtime"}

// standardPaths are what programs like to find beside that: names of services,
// types and places, start-up files and settings that hold for everybody.
var standardPaths = []string{"/etc/services", "/etc/protocols", "/etc/mime.types", "/etc/timezone", "/etc/gitconfig", "/etc/inputrc",
	"/etc/profile", "/etc/profile.d", "/etc/bash.bashrc", "/etc/bash_completion.d", "/etc/environment", "/etc/locale.conf",
	"/etc/default/locale", "/etc/locale.alias", "/etc/terminfo", "/etc/os-release", "/etc/debian_version", "/etc/lsb-release",
	"/etc/magic", "/etc/pip.conf", "/etc/npmrc", "/etc/python3", "/etc/python3.11", "/etc/python3.12", "/etc/python3.13",
	"/etc/perl", "/etc/fonts", "/etc/vim", "/etc/nanorc", "/etc/wgetrc", "/etc/java-17-openjdk", "/etc/java-21-openjdk",
	"/etc/rpc", "/etc/shells", "/etc/mailcap", "/etc/papersize"}

// link is a symbolic link of the system that is made again inside.
type link struct{ path, target string }

// system finds what of the minimal system is there, and the folders of the
// trusted PATH outside it.
func system(path []string, standard bool) (mounts []sandbox.Mount, links []link) {
	all := append(slices.Clone(systemPaths), path...)
	if standard {
		all = append(all, standardPaths...)
	}
	for _, p := range all {
		if _, m := sandbox.Cover(mounts, p); m != nil || !filepath.IsAbs(p) || p == "/" ||
			slices.ContainsFunc(links, func(l link) bool { return sandbox.Within(p, l.path) }) {
			continue
		}
		st, err := os.Lstat(p)
		switch {
		case err != nil:
		case st.Mode()&fs.ModeSymlink != 0:
			if target, err := os.Readlink(p); err == nil {
				links = append(links, link{p, target})
			}
		case st.IsDir() || st.Mode().IsRegular():
			mounts = append(mounts, sandbox.Mount{Path: filepath.Clean(p), Access: sandbox.ReadOnly, Folder: st.IsDir(), System: true})
		}
	}
	return mounts, links
}

// restrictedLinks calls do for each link whose name the policy closes in part.
func restrictedLinks(chain policy.Chain, nodes []*sandbox.Node, do func(*sandbox.Node)) {
	for _, n := range nodes {
		if n.Kind == sandbox.LinkNode && slices.ContainsFunc([]tool.ActionKind{tool.FileRead, tool.FileWrite}, func(kind tool.ActionKind) bool {
			return chain.DecideAction(tool.Action{Kind: kind, Path: n.Path, Real: n.Path}).Effect != policy.Allow
		}) {
			do(n)
		}
		restrictedLinks(chain, n.Children, do)
	}
}

// own surveys the folder that is the tool's own, if there is one.
func own(chain policy.Chain, l *layers) *sandbox.Node {
	if chain.Own() == "" {
		return nil
	}
	for _, n := range survey([]string{chain.Own()}, nil, l) {
		if n.Path == chain.Own() && n.Kind == sandbox.FolderNode {
			restrictedLinks(chain, n.Children, func(n *sandbox.Node) { n.Target = l.target(n.Path) })
			return n
		}
	}
	return nil
}

// roots are where the policy could allow anything. The machine's /tmp is shown by
// a root in it only, so where the policy speaks of all files, the part that the
// working folder is in is one.
func roots(chain policy.Chain, dir string) []string {
	out := append(rootsOf(chain, tool.FileRead), rootsOf(chain, tool.FileWrite)...)
	if in, ok := strings.CutPrefix(dir, "/tmp/"); ok && slices.Contains(out, "/") {
		first, _, _ := strings.Cut(in, "/")
		out = append(out, "/tmp/"+first)
	}
	return out
}

// rootsOf are the literal beginnings of the allow patterns of one link, since
// every link must allow a path.
func rootsOf(chain policy.Chain, kind tool.ActionKind) (out []string) {
	for _, l := range chain.Files(kind) {
		if l.Inherits {
			continue
		}
		for _, a := range l.Allow {
			out = append(out, a.Base)
		}
		break
	}
	return out
}

// unwritable are the system's folders in which the policy lets nothing be
// written. To read what is in them is always allowed.
func unwritable(chain policy.Chain, system []sandbox.Mount) (out []sandbox.Mount) {
	writes := rootsOf(chain, tool.FileWrite)
	for _, m := range system {
		if m.Folder && !slices.ContainsFunc(writes, func(w string) bool { return sandbox.Within(w, m.Path) || sandbox.Within(m.Path, w) }) {
			out = append(out, m)
		}
	}
	return out
}
