//go:build linux && (amd64 || arm64)

package linux

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

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

// machinePaths are facts of the kernel about the processors and the memory, also with an image.
var machinePaths = []string{"/sys/devices/system/cpu", "/sys/devices/system/node"}

// link is a symbolic link of the system that is made again inside.
type link struct{ path, target string }

// byEntry are the folders of an image whose entries are shown one by one, since the sandbox
// makes some of its own there; madeUp are those.
var (
	byEntry = []string{"/etc", "/var"}
	madeUp  = []string{"/etc/passwd", "/etc/group", "/etc/hosts", "/etc/nsswitch.conf", "/etc/resolv.conf", "/etc/hostname", "/etc/mtab", sandbox.TrustFile, "/var/tmp", "/var/run"}
)

// imagePaths are all that an image brings.
func imagePaths(img *sandbox.Image) []string {
	var out []string
	for _, name := range img.Tops {
		p := "/" + name
		if !slices.Contains(byEntry, p) {
			out = append(out, p)
			continue
		}
		entries, err := sandbox.Entries(img.At(p))
		if err != nil {
			continue // it is a file or a link there: nothing of it is shown
		}
		for _, e := range entries {
			if at := filepath.Join(p, e.Name()); !slices.Contains(madeUp, at) {
				out = append(out, at)
			}
		}
	}
	return out
}

// system finds the folders of the minimal system, and those of the trusted PATH
// outside it. With an image, that is the system.
func system(img *sandbox.Image, path []string, standard bool) (mounts []sandbox.Mount, links []link) {
	all := slices.Concat(systemPaths, path)
	if standard {
		all = append(all, standardPaths...)
	}
	if img != nil {
		all = append(imagePaths(img), path...)
	}
	for _, p := range machinePaths {
		if st, err := os.Lstat(p); err == nil && st.IsDir() {
			mounts = append(mounts, sandbox.Mount{Path: p, Access: sandbox.ReadOnly, Folder: true, System: true})
		}
	}
	for _, p := range all {
		if _, m := sandbox.Cover(mounts, p); m != nil || !filepath.IsAbs(p) || p == "/" ||
			slices.ContainsFunc(links, func(l link) bool { return sandbox.Within(p, l.path) }) {
			continue
		}
		st, err := os.Lstat(img.At(p))
		switch {
		case err != nil:
		case st.Mode()&fs.ModeSymlink != 0:
			if target, err := os.Readlink(img.At(p)); err == nil {
				links = append(links, link{p, target})
			}
		case st.IsDir() || st.Mode().IsRegular():
			p = filepath.Clean(p)
			mounts = append(mounts, sandbox.Mount{Path: p, Access: sandbox.ReadOnly, Folder: st.IsDir(), System: true, From: img.From(p)})
		}
	}
	return mounts, links
}

// unwritable are the system's folders in which the policy lets nothing be
// written. Reading in them is always allowed.
func unwritable(img *sandbox.Image, chain policy.Chain, system []sandbox.Mount) (out []sandbox.Mount) {
	if img != nil {
		for _, name := range img.Tops { // also where the policy opens the machine's
			out = append(out, sandbox.Mount{Path: "/" + name, Folder: true})
		}
		return out
	}
	writes := sandbox.RootsOf(chain, tool.FileWrite)
	for _, m := range system {
		if m.Folder && !slices.ContainsFunc(writes, func(w string) bool { return sandbox.Within(w, m.Path) || sandbox.Within(m.Path, w) }) {
			out = append(out, m)
		}
	}
	return out
}
