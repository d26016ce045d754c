package seatbelt

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// Text is a compiled Seatbelt profile.
type Text struct {
	// Profile is the program. It holds no path: its rules name parameters.
	Profile string
	// Params are the values of the parameters, as NAME=VALUE.
	Params []string
}

// Own are a command's resources besides those of its policies.
type Own struct {
	Tmp  string // its private folder, canonical; "": it has none
	Port int    // of the proxy on the loopback addresses; 0: there is no proxy
	// MayWrite tells whether the policies let a path be written that is not there yet.
	MayWrite func(path string) bool
}

// maxBytes bounds the profile with its parameters: both are arguments of one program.
const maxBytes = 600 << 10

// The operations of reading and writing. A readable file can be executed, as on Linux.
const (
	reading = "file-read* file-map-executable process-exec*"
	writing = "file-write*"
)

// base has the rules that every program needs. It names nothing of a person's, and no service that
// acts for its callers: no pasteboard, keychain, Launch Services, preferences, DNS or
// certificate service, and no Apple events.
const base = `(version 1)
(deny default)
(allow process-fork)
(allow process-info* (target same-sandbox))
(allow signal (target same-sandbox))
(allow sysctl-read
  (sysctl-name "kern.argmax")
  (sysctl-name "kern.maxfilesperproc")
  (sysctl-name "kern.ngroups")
  (sysctl-name "kern.osproductversion")
  (sysctl-name "kern.osrelease")
  (sysctl-name "kern.ostype")
  (sysctl-name "kern.osvariant_status")
  (sysctl-name "kern.osversion")
  (sysctl-name "kern.secure_kernel")
  (sysctl-name "kern.usrstack64")
  (sysctl-name "kern.version")
  (sysctl-name "security.mac.lockdown_mode_state")
  (sysctl-name "sysctl.proc_cputype")
  (sysctl-name "vm.loadavg")
  (sysctl-name-prefix "hw.")
  (sysctl-name-prefix "machdep.cpu."))
(allow mach-lookup
  (global-name "com.apple.bsd.dirhelper")
  (global-name "com.apple.system.notification_center")
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.system.opendirectoryd.membership"))
(allow ipc-posix-shm-read* (ipc-posix-name "apple.shm.notification_center"))
(allow file-read* (literal "/"))
(allow file-read-metadata (literal "/etc") (literal "/tmp") (literal "/var"))
(allow file-read* (literal "/dev/null") (literal "/dev/zero") (literal "/dev/random") (literal "/dev/urandom"))
(allow file-read* (subpath "/dev/fd"))
(allow file-write-data (literal "/dev/null") (literal "/dev/zero"))
(allow file-read-data file-write-data file-ioctl (literal "/dev/dtracehelper"))
`

// last denies operations even if an earlier rule allows them.
const last = "(deny file-write-setugid)\n"

// anyCase is a pattern of a plain name in any case.
func anyCase(name string) string {
	var b strings.Builder
	for _, r := range name {
		lower, upper := strings.ToLower(string(r)), strings.ToUpper(string(r))
		switch {
		case r == '.':
			b.WriteString("[.]")
		case lower == upper:
			b.WriteString(lower)
		default:
			b.WriteString("[" + lower + upper + "]")
		}
	}
	return b.String()
}

// Compile writes a profile as Seatbelt's text. In both, what comes later wins: a mount
// over a folder becomes rules about a path below it. It is pure.
func Compile(p sandbox.Profile, own Own) (Text, error) {
	w := &writer{names: map[string]string{}}
	w.text.WriteString(base)
	w.ancestors(p, own)
	for i := range p.Mounts {
		w.mount(p, i, own)
	}
	if own.Tmp != "" {
		w.rule("allow", reading, w.filter("subpath", own.Tmp))
		w.rule("allow", writing, w.filter("subpath", own.Tmp))
	}
	w.pins(p, own)
	if own.Port != 0 {
		w.rule("allow", "network-outbound", `(remote tcp "localhost:`+strconv.Itoa(own.Port)+`")`)
	}
	w.text.WriteString(last)
	size := w.text.Len()
	for _, kv := range w.params {
		size += len(kv) + len("-D") + 2 + 16 // with the pointers to them
	}
	switch {
	case w.err != nil:
		return Text{}, w.err
	case size > maxBytes:
		return Text{}, fault.New(fault.SandboxMissing, "no sandbox can be made: the policy's file rules tell so many of the files that are there apart that the Seatbelt profile has %d bytes, more than %d", size, maxBytes).
			WithHint("deny or allow whole folders instead of names in them, or move files such as keys into one folder")
	}
	return Text{Profile: w.text.String(), Params: w.params}, nil
}

// writer collects the rules.
type writer struct {
	text   strings.Builder
	names  map[string]string // of parameters, by path
	params []string
	err    error
}

func (w *writer) rule(verb, operations, filter string) {
	fmt.Fprintf(&w.text, "(%s %s %s)\n", verb, operations, filter)
}

// filter is a condition on a path. The path becomes a parameter, so that nothing in it is
// read as a part of the program. One that no rule could be about fails the profile: it
// may be a path that has to be denied.
func (w *writer) filter(kind, at string) string {
	if w.err == nil && (!path.IsAbs(at) || path.Clean(at) != at || !utf8.ValidString(at) || strings.ContainsRune(at, 0)) {
		w.err = fault.New(fault.SandboxMissing, "no sandbox can be made: Seatbelt cannot express the path %q", at).
			WithHint("rename it: a name must be UTF-8")
	}
	name, ok := w.names[at]
	if !ok {
		name = "P" + strconv.Itoa(len(w.params))
		w.names[at] = name
		w.params = append(w.params, name+"="+at)
	}
	return "(" + kind + ` (param "` + name + `"))`
}

// of is the condition for the paths of a mount.
func (w *writer) of(m sandbox.Mount) string {
	if m.Folder {
		return w.filter("subpath", m.Path)
	}
	return w.filter("literal", m.Path)
}

// ancestors lets programs look up the folders above each visible path. They cannot list them.
func (w *writer) ancestors(p sandbox.Profile, own Own) {
	seen := map[string]bool{"/": true}
	add := func(at string) {
		for at = path.Dir(at); !seen[at]; at = path.Dir(at) {
			seen[at] = true
			w.rule("allow", "file-read-metadata", w.filter("literal", at))
		}
	}
	for _, m := range p.Mounts {
		if m.Kind == sandbox.Bind {
			add(m.Path)
		}
	}
	if own.Tmp != "" {
		add(own.Tmp)
	}
}

// mount writes the rules of one mount.
func (w *writer) mount(p sandbox.Profile, i int, own Own) {
	m := p.Mounts[i]
	at := w.of(m)
	if m.Kind != sandbox.Bind {
		w.rule("deny", reading+" "+writing, at)
		return
	}
	verb := map[bool]string{true: "allow", false: "deny"}
	w.rule(verb[m.Access&sandbox.ReadOnly != 0], reading, at)
	if m.System {
		return // nothing writable is around it
	}
	w.rule(verb[m.Access&sandbox.WriteOnly != 0], writing, at)
	if !m.Folder || m.Access&sandbox.WriteOnly == 0 {
		return
	}
	if m.Keeps {
		w.rule("deny", "file-write-unlink", at)
	}
	for _, dir := range p.Removable {
		if j, _ := sandbox.Cover(p.Mounts, dir); j == i {
			w.rule("allow", "file-write-unlink", w.filter("subpath", dir))
		}
	}
	w.steering(m, own)
}

// steering denies the names of a Git repository that are not there yet and that decide
// which programs Git runs, where the policies do not let them be written: in any case of
// their letters, see [sandbox.Steering].
func (w *writer) steering(m sandbox.Mount, own Own) {
	if own.MayWrite == nil {
		return
	}
	folders := []string{m.Path}
	if !strings.EqualFold(path.Base(m.Path), ".git") {
		folders = []string{path.Join(m.Path, ".git"), path.Join(m.Path, sandbox.AnyName, ".git")}
	}
	var denied []string
	for _, name := range sandbox.Steering {
		if slices.ContainsFunc(folders, func(git string) bool {
			return !own.MayWrite(path.Join(git, name)) || !own.MayWrite(path.Join(git, name, sandbox.AnyName))
		}) {
			denied = append(denied, anyCase(name))
		}
	}
	if denied != nil {
		w.rule("deny", writing, "(require-all "+w.of(m)+` (regex #"/`+anyCase(".git")+"/("+strings.Join(denied, "|")+`)(/|$)"))`)
	}
}

// pins keep the paths of the rules in their place: a renamed folder would take its
// contents out of the rules about its path.
func (w *writer) pins(p sandbox.Profile, own Own) {
	seen := map[string]bool{}
	writable := func(at string) bool {
		return slices.ContainsFunc(p.Mounts, func(m sandbox.Mount) bool {
			return m.Kind == sandbox.Bind && m.Access&sandbox.WriteOnly != 0 && sandbox.Within(at, m.Path)
		})
	}
	for _, m := range p.Mounts {
		for at := m.Path; at != "/" && !seen[at] && writable(at); at = path.Dir(at) {
			seen[at] = true
			w.rule("deny", "file-write-unlink", w.filter("literal", at))
		}
	}
	if own.Tmp != "" {
		w.rule("deny", "file-write-unlink", w.filter("literal", own.Tmp))
	}
}
