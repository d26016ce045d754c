package sandbox

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// maxSurvey bounds how many names are looked at for one profile.
const maxSurvey = 50000

// maxSurveyPath bounds the depth: what is deeper could not be mounted over,
// since a path has at most 4096 bytes.
const maxSurveyPath = 3500

// survey lists what is below the roots, without following links, what is near
// the roots first. It stops at maxSurvey names; a folder that was not listed to
// the end is marked so.
func survey(roots []string, l *layers) []*Node {
	slices.Sort(roots)
	var out []*Node
	for _, r := range roots {
		real, err := l.real(r)
		if err != nil || slices.ContainsFunc(out, func(n *Node) bool { return within(real, n.Path) }) {
			continue // what is not there needs no mount
		}
		st, err := os.Lstat(l.at(real))
		if err != nil {
			continue
		}
		out = slices.DeleteFunc(out, func(n *Node) bool { return within(n.Path, real) })
		out = append(out, node(real, st.Mode().Type()))
	}
	budget := maxSurvey
	for level := slices.Clone(out); len(level) > 0; {
		var next []*Node
		for _, n := range level {
			list(n, &budget, l)
			next = append(next, n.Children...)
		}
		level = next
	}
	return out
}

func node(path string, mode fs.FileMode) *Node {
	n := &Node{Path: path, Kind: SpecialNode}
	switch {
	case mode.IsRegular():
		n.Kind = FileNode
	case mode.IsDir():
		n.Kind = FolderNode
	case mode&fs.ModeSymlink != 0:
		n.Kind = LinkNode
	}
	return n
}

// list fills in what is in a folder, if the budget has room for all of it.
func list(n *Node, budget *int, l *layers) {
	if n.Kind != FolderNode || len(n.Path) > maxSurveyPath || n.Path == "/proc" || n.Path == "/sys" || n.Path == "/dev" {
		return
	}
	entries, err := os.ReadDir(l.at(n.Path))
	if err != nil || len(entries) > *budget {
		return
	}
	*budget -= len(entries)
	n.Complete = true
	for _, e := range entries {
		n.Children = append(n.Children, node(filepath.Join(n.Path, e.Name()), e.Type()))
	}
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
func system(path []string, standard bool) (mounts []Mount, links []link) {
	all := append(slices.Clone(systemPaths), path...)
	if standard {
		all = append(all, standardPaths...)
	}
	for _, p := range all {
		if _, m := cover(mounts, p); m != nil || !filepath.IsAbs(p) || p == "/" ||
			slices.ContainsFunc(links, func(l link) bool { return within(p, l.path) }) {
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
			mounts = append(mounts, Mount{Path: filepath.Clean(p), Access: ReadOnly, Folder: st.IsDir(), System: true})
		}
	}
	return mounts, links
}
