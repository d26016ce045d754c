package seatbelt

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// systemPaths are what programs of macOS need to run at all. /System/Volumes leads to
// every file of the machine, so only its folder of shared libraries is shown.
var systemPaths = []string{"/bin", "/sbin", "/usr/bin", "/usr/lib", "/usr/libexec", "/usr/sbin", "/usr/share",
	"/System/Library", "/System/Cryptexes", "/System/Volumes/Preboot/Cryptexes", "/Library/Apple", "/Library/Developer/CommandLineTools",
	"/nix/store", "/private/etc/localtime", "/private/etc/ssl", "/private/var/db/dyld", "/private/var/db/timezone",
	"/private/var/db/xcode_select_link", "/private/var/select"}

// standardPaths are what programs like to find beside that.
var standardPaths = []string{"/Applications/Xcode.app/Contents/Developer", "/Library/Frameworks", "/Library/Java/JavaVirtualMachines",
	"/private/etc/services", "/private/etc/protocols", "/private/etc/shells", "/private/etc/profile", "/private/etc/zshenv", "/private/etc/zprofile", "/private/etc/bashrc",
	"/private/etc/paths", "/private/etc/paths.d", "/private/etc/gitconfig", "/private/etc/hosts"}

// system finds the existing paths of the system, and the folders of the trusted PATH.
func system(path []string, standard bool) (mounts []sandbox.Mount) {
	all := slices.Concat(systemPaths, path)
	if standard {
		all = append(all, standardPaths...)
	}
	for _, p := range all {
		if !filepath.IsAbs(p) || filepath.Clean(p) == "/" {
			continue
		}
		p = filepath.Clean(p)
		real, err := canonical(p)
		if err != nil {
			continue // it is not there
		}
		for _, at := range []string{p, real} { // the link, and where it leads
			st, err := os.Lstat(at)
			if _, m := sandbox.Cover(mounts, at); m != nil || err != nil || !st.IsDir() && !st.Mode().IsRegular() && st.Mode()&fs.ModeSymlink == 0 {
				continue
			}
			mounts = append(mounts, sandbox.Mount{Path: at, Access: sandbox.ReadOnly, Folder: st.IsDir(), System: true})
		}
	}
	return mounts
}

// unwritable are the system's folders in which the policy lets nothing be written.
func unwritable(chain policy.Chain, system []sandbox.Mount) (out []string) {
	writes := sandbox.RootsOf(chain, tool.FileWrite)
	for _, m := range system {
		if m.Folder && !slices.ContainsFunc(writes, func(w string) bool { return sandbox.Within(w, m.Path) || sandbox.Within(m.Path, w) }) {
			out = append(out, m.Path)
		}
	}
	return out
}
