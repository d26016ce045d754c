package command

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/remitrun/remit/internal/base/tool"
)

// oldPath stands for $PATH in results of pathValue.
const oldPath = "\x00PATH"

// pathValue reads $PATH:DIR:…, with or without quotes.
func pathValue(w *syntax.Word) string {
	parts := w.Parts
	if q, ok := parts[0].(*syntax.DblQuoted); ok && len(parts) == 1 {
		parts = q.Parts
	}
	var b strings.Builder
	for i, part := range parts {
		switch part := part.(type) {
		case *syntax.ParamExp:
			if !simple(part) || part.Param.Value != "PATH" || i > 0 {
				return NonLiteral
			}
			b.WriteString(oldPath)
		default:
			text, there := readWord(&syntax.Word{Parts: []syntax.WordPart{part}}, nil)
			if nonLiteral(text) || !there {
				return NonLiteral
			}
			b.WriteString(text)
		}
	}
	return b.String()
}

// path gives why PATH must not be set to a value, or "". Folders may be added at
// the end. Programs found before are still found first, and programs in the added
// folders are judged by their path.
func (d *deriver) path(value string) string {
	dirs, ok := strings.CutPrefix(value, oldPath+":")
	list := strings.Split(dirs, ":")
	switch {
	case value == "", !ok, nonLiteral(dirs), slices.ContainsFunc(list, func(dir string) bool { return dir == "" || dir[0] == '~' }):
		return "the variable PATH can change which commands are found; only literal folders may be added behind it: PATH=$PATH:DIR"
	case d.search != nil && !slices.Equal(d.search, list):
		return "PATH is changed twice; add all folders at once: PATH=$PATH:DIR:DIR"
	}
	d.search = list
	return ""
}

// searched notes in a command the folders that were added to PATH. It returns why the command
// cannot be determined, or "".
func (d *deriver) searched(a *tool.Action) string {
	a.Search = nil
	open := ""
	for _, dir := range d.search {
		full := join(a.Dir, dir)
		if full == "" {
			return "PATH holds a relative folder, and the folder that it starts from is not certain; add an absolute one"
		}
		if a.Search = append(a.Search, full); !slices.ContainsFunc(systemFolders, func(s string) bool { return strings.HasPrefix(full+"/", s) }) {
			open = full
		}
	}
	name := base(a.Argv[0])
	if p := lookup(name); open != "" && p != nil && p.finds(name) {
		return name + " looks for programs in PATH, to which " + open + " was added; call the program there by its path"
	}
	if strings.Contains(a.Argv[0], "/") {
		a.Search = nil
	}
	return ""
}

// systemFolders hold programs that no call can write.
var systemFolders = []string{"/usr/", "/bin/", "/sbin/", "/opt/", "/snap/", "/nix/"}

// alone are the known programs that look in PATH for no other program, but for those that
// their arguments name.
var alone = lazy(`env nice ionice nohup setsid timeout time stdbuf chrt taskset unshare strace ltrace sudo doas command busybox toybox flock watch xargs
	find sh bash dash ash ksh mksh rbash
	cp mv ln install ginstall rm mkdir rmdir unlink shred touch truncate chmod chown chgrp tee gzip gunzip bzip2 bunzip2 xz unxz cpio unzip zip dd fd fdfind
	cat tac rev more wc comm md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum shasum nl fold fmt expand unexpand column head tail
	less od hexdump hd xxd strings base64 base32 basenc sort uniq cut paste join cmp diff colordiff diff3 sdiff split grep egrep fgrep rgrep rg ag ack
	csplit date du file iconv jq look lz4 lz4cat mkfifo mknod mktemp pr ptx shuf sponge tree tsort unlz4 unzstd zstd zstdmt
	sed gsed awk gawk mawk nawk original-awk curl wget ssh-keygen ssh-add nc ncat netcat tcpdump ip nm objdump readelf strip size objcopy go sysctl`)

// finds reports whether a known program looks for others in PATH that its arguments do not name.
func (p *program) finds(name string) bool { return p.never == "" && !alone()[name] }

// searchAgain judges the commands that may run again by the PATH that a script has at its end.
func (d *deriver) searchAgain() {
	for _, i := range d.repeated {
		if a := &d.actions[i]; len(d.search) > 0 && a.Kind == tool.Command && a.Unknown == "" && len(a.Argv) > 0 {
			a.Unknown = d.searched(a)
		}
	}
}
