//go:build linux && (amd64 || arm64)

package linux_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// motionPolicy protects names in a workspace that the command can otherwise write everywhere.
const motionPolicy = `
version: 1
name: test
files:
  read:  {allow: ["**"], deny: ["**/.env", "private/**"]}
  write: {allow: ["**"], deny: ["**/.env", "locked/**", "b/*/held"]}
commands:
  allow: ["**", "EXE **"]
  env: [REMIT_SOAK]
  timeout: 300s
`

const motionSecret = "the secret of the file"

// motionWorld is a workspace with the files that the policy protects.
func motionWorld(t *testing.T, src string) *world {
	t.Helper()
	w := newWorld(t, src)
	for name, content := range map[string]string{".env": motionSecret, "sub/.env": motionSecret, "private/key": motionSecret, "locked/f": "locked", "repo/.git/HEAD": "ref: refs/heads/x\n"} {
		w.file(name, content)
	}
	_ = unix.Setxattr(filepath.Join(w.dir, "locked/f"), "user.mark", []byte("1"), 0) // not all file systems have them
	_ = unix.Setxattr(filepath.Join(w.dir, ".env"), "user.mark", []byte(motionSecret), 0)
	return w
}

// kept is what the host sees of the protected files, and the names that must not be there.
func (w *world) kept() map[string]string {
	w.t.Helper()
	out := map[string]string{}
	for _, name := range []string{".env", "sub/.env", "private/key", "locked", "locked/f"} {
		var st unix.Stat_t
		p := filepath.Join(w.dir, name)
		if err := unix.Lstat(p, &st); err != nil {
			out[name] = err.Error()
			continue
		}
		content, _ := os.ReadFile(p) // of a folder: nothing
		list := make([]byte, 100)
		n, _ := unix.Listxattr(p, list)
		out[name] = fmt.Sprintf("mode %o, %d links, owner %d:%d, changed %d, status %d, attributes %q, %q", st.Mode, st.Nlink, st.Uid, st.Gid, st.Mtim.Nano(), st.Ctim.Nano(), list[:max(n, 0)], content)
	}
	for _, pattern := range []string{"locked/.*", "locked/HEAD", "locked/*/*", "b/*/held", "*/sub/made"} {
		list, err := filepath.Glob(filepath.Join(w.dir, pattern))
		must(w.t, err)
		for _, p := range list {
			out[p] = "is there"
		}
	}
	return out
}

func init() {
	for name, probe := range motionProbes {
		probes[name] = probe
	}
}

// rounds is how often something is tried that races with something else.
func rounds(n int) int {
	if os.Getenv("REMIT_SOAK") != "" {
		return 50 * n
	}
	return n
}

// readAt brings out what a name below a descriptor holds.
func readAt(at int, name string) error {
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	var buf [100]byte
	n, err := unix.Read(fd, buf[:])
	return tell(buf[:max(n, 0)], errors.Join(err, unix.Close(fd)))
}

// byDescriptor opens a file for reading and does something with it.
func byDescriptor(do func(fd int) error) func(p string) error {
	return func(p string) error {
		fd, err := unix.Open(p, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		return errors.Join(do(fd), unix.Close(fd))
	}
}

// await waits for a file that the host makes.
func await(name string) {
	for {
		if _, err := os.Lstat(name); err == nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

var motionProbes = map[string]func(arg string) error{
	"setxattrat": func(p string) error {
		value := []byte("x")
		args := struct {
			value       uint64
			size, flags uint32
		}{uint64(uintptr(unsafe.Pointer(&value[0]))), 1, 0}
		at := unix.AT_FDCWD
		return call(463, uintptr(at), cstring(p), 0, cstring("user.canary"), uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args))
	},
	"removexattrat": func(p string) error {
		at := unix.AT_FDCWD
		return call(466, uintptr(at), cstring(p), 0, cstring("user.mark"))
	},
	"fchmod":       byDescriptor(func(fd int) error { return unix.Fchmod(fd, 0o600) }),
	"fchown":       byDescriptor(func(fd int) error { return unix.Fchown(fd, -1, os.Getgid()) }),
	"fsetxattr":    byDescriptor(func(fd int) error { return unix.Fsetxattr(fd, "user.canary", []byte("x"), 0) }),
	"fremovexattr": byDescriptor(func(fd int) error { return unix.Fremovexattr(fd, "user.mark") }),
	"futimens":     byDescriptor(func(fd int) error { return call(unix.SYS_UTIMENSAT, uintptr(fd), 0, 0, 0) }),
	"setflags":     byDescriptor(func(fd int) error { return unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, 0x40) }), // no dump
	"setproject": byDescriptor(func(fd int) error {
		return call(unix.SYS_IOCTL, uintptr(fd), 0x401c5820, uintptr(unsafe.Pointer(&[7]uint32{})))
	}),
	"setversion": byDescriptor(func(fd int) error { return unix.IoctlSetPointerInt(fd, 0x40087602, 1) }),
	"away": func(string) error {
		fd, err := unix.Open("sub", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		if err := os.WriteFile("out/ready", nil, 0o644); err != nil {
			return err
		}
		await("out/moved")
		err = readAt(fd, ".env")
		if w, werr := unix.Openat(fd, ".env", unix.O_WRONLY|unix.O_TRUNC, 0); werr == nil {
			_, _ = unix.Write(w, []byte("bad"))
			err = nil
		}
		if werr := unix.Mkdirat(fd, "made", 0o755); werr == nil {
			err = nil
		}
		return err
	},
	"noreplace": func(string) error {
		f, err := os.Create("repo/.git/lock")
		if err == nil {
			_, err = f.WriteString("[core]\n\tbare = false\n")
		}
		if err != nil {
			return err
		}
		if err := unix.Renameat2(unix.AT_FDCWD, "repo/.git/lock", unix.AT_FDCWD, "repo/.git/config", unix.RENAME_NOREPLACE); err != nil {
			return err
		}
		_, err = f.WriteString("\tfsmonitor = evil\n")
		return err
	},
	// walked makes a protected name in a folder that is looked through, since it is renamed at that moment.
	"walked": func(string) error {
		const folders, files = 16, 100
		for i := range folders {
			if err := os.MkdirAll(fmt.Sprintf("a/%02d", i), 0o755); err != nil {
				return err
			}
			for j := range files {
				if err := os.WriteFile(fmt.Sprintf("a/%02d/%d", i, j), nil, 0o644); err != nil {
					return err
				}
			}
		}
		held := func(i int) string { return fmt.Sprintf("a/%02d/held", i) }
		for round := range rounds(12) {
			renamed := make(chan error)
			go func() { renamed <- os.Rename("a", "b") }()
			time.Sleep(time.Duration(round%12) * 2 * time.Millisecond)
			for i := range folders {
				_ = os.WriteFile(held(i), nil, 0o644)
			}
			if err := <-renamed; err == nil {
				if list, _ := filepath.Glob("b/*/held"); len(list) > 0 {
					return nil
				}
				if err := os.Rename("b", "a"); err != nil {
					return err
				}
			}
			for i := range folders {
				_ = os.Remove(held(i))
			}
		}
		return errors.New("never")
	},
	// copied changes the settings of a repository as Git does, again and again.
	"copied": func(string) error {
		for range rounds(100) {
			if err := os.WriteFile("repo/.git/lock", []byte("[core]\n\tbare = false\n"), 0o644); err != nil {
				return err
			}
			if err := os.Rename("repo/.git/lock", "repo/.git/config"); err != nil {
				return err
			}
		}
		return os.WriteFile("out/over", nil, 0o644)
	},
	// copying writes to each new file beside them.
	"copying": func(string) error {
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
		if err != nil {
			return err
		}
		if _, err := unix.InotifyAddWatch(fd, "repo/.git", unix.IN_CREATE); err != nil {
			return err
		}
		at, err := unix.Open("repo/.git", unix.O_PATH, 0)
		if err != nil {
			return err
		}
		var buf [4096]byte
		for i := 0; ; i++ {
			n, _ := unix.Read(fd, buf[:])
			for b := buf[:max(n, 0)]; len(b) >= 16; {
				size := int(b[12]) | int(b[13])<<8
				name := strings.TrimRight(string(b[16:16+size]), "\x00")
				b = b[16+size:]
				if name == "lock" {
					continue
				}
				if w, err := unix.Openat(at, name, unix.O_WRONLY|unix.O_APPEND, 0); err == nil {
					_, _ = unix.Write(w, []byte("\tfsmonitor = evil\n"))
					_ = unix.Close(w)
				}
			}
			if i%1000 == 0 {
				if _, err := os.Lstat("out/over"); err == nil {
					return errors.New("over")
				}
			}
		}
	},
	// attributes reads those of a file in each way, and of another one, of which they must be there.
	"attributes": func(arg string) error {
		p, other := two(arg)
		var all []byte
		for _, name := range []string{p, "/proc/self/cwd/" + p} {
			for _, get := range []func(buf []byte) (int, error){
				func(buf []byte) (int, error) { return unix.Getxattr(name, "user.mark", buf) },
				func(buf []byte) (int, error) { return unix.Lgetxattr(name, "user.mark", buf) },
				func(buf []byte) (int, error) { return unix.Listxattr(name, buf) },
				func(buf []byte) (int, error) { return unix.Llistxattr(name, buf) },
			} {
				buf := make([]byte, 100)
				if n, err := get(buf); err == nil {
					all = append(all, buf[:n]...)
				}
			}
		}
		buf := make([]byte, 100)
		list, err := unix.Listxattr(other, buf)
		size, err2 := unix.Getxattr(other, "user.mark", nil)
		n, err3 := unix.Lgetxattr(other, "user.mark", buf[list:])
		if err := errors.Join(err, err2, err3); !errors.Is(err, unix.ENOTSUP) && (err != nil || size != 1 || string(buf[:list+n]) != "user.mark\x001") {
			fmt.Printf("%q %d %v\n", buf[:list+n], size, err)
			return nil
		}
		if len(all) > 0 {
			return tell(all, nil)
		}
		return errors.New("all")
	},
	"enlarge": func(p string) error {
		if err := os.WriteFile(p, []byte("x"), 0o644); err != nil {
			return err
		}
		return unix.Truncate(p, 1<<42)
	},
	"late": func(string) error {
		l, err := net.Listen("unix", "late.sock")
		if err != nil {
			return err
		}
		_ = l.Close()
		if err := os.WriteFile("out/ready", nil, 0o644); err != nil {
			return err
		}
		await("out/moved")
		c, err := net.Dial("unix", "late.sock")
		if err == nil {
			_, err = c.Write([]byte("hello"))
		}
		return err
	},
}

// motion is one attempt of a command on what is protected.
type motion struct {
	probe []string       // a probe, or sh and a script
	host  func(w *world) // what other programs do meanwhile; nil: nothing
	blind bool           // the probe cannot know whether it succeeded

	verdict string              // what the probe must say; "": that it was refused
	check   func(w *world) bool // reports that the attempt has failed; nil: nothing more to look at
}

func (m motion) try(t *testing.T, src string) { m.tryIn(t, motionWorld(t, src)) }

func (m motion) tryIn(t *testing.T, w *world) {
	before := w.kept()
	exe, err := os.Executable()
	must(t, err)
	argv := append([]string{exe, "probe"}, m.probe...)
	if m.probe[0] == "sh" {
		argv = []string{"/bin/sh", "-c", m.probe[1]}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if m.host != nil {
			m.host(w)
		}
	}()
	out, err := w.run(sandbox.Command{Argv: argv, Timeout: time.Minute})
	must(t, err)
	<-done
	if all := string(out.Stdout.Data) + string(out.Stderr.Data); strings.Contains(all, motionSecret) {
		t.Errorf("the secret got out: %q", all)
	}
	if v := verdictOf(string(out.Stdout.Data)); (!strings.HasPrefix(v, "REFUSED") || m.verdict != "" && v != m.verdict) && !m.blind {
		t.Errorf("in the sandbox: %q, exit %d, %s", v, out.ExitCode, out.Stderr.Data)
	}
	if m.check != nil && !m.check(w) {
		t.Errorf("it has succeeded: %s %s", out.Stdout.Data, out.Stderr.Data)
	}
	if d := difference(before, w.kept()); len(d) > 0 {
		t.Errorf("on the host: %s", strings.Join(d, "\n"))
	}
}

func TestEscapesInMotion(t *testing.T) {
	racetest.Skip(t, oneByOne)
	everyTier(t, motionPolicy, func(t *testing.T, src string) {
		for name, m := range motions {
			t.Run(name, func(t *testing.T) { m.try(t, src) })
		}
	})
}

// settings reports whether a repository's settings have only what was decided on.
func settings(w *world) bool {
	b, err := os.ReadFile(filepath.Join(w.dir, "repo/.git/config"))
	must(w.t, err)
	return len(b) > 0 && !strings.Contains(string(b), "evil")
}

var motions = map[string]motion{
	// by calls newer than most
	"attribute set":     {probe: []string{"setxattrat", "locked/f"}},
	"attribute removed": {probe: []string{"removexattrat", "locked/f"}},
	// by a descriptor that only reads
	"mode":                            {probe: []string{"fchmod", "locked/f"}},
	"attributes read":                 {probe: []string{"attributes", ".env", "locked/f"}, verdict: "REFUSED all"},
	"owner":                           {probe: []string{"fchown", "locked/f"}},
	"attribute set by descriptor":     {probe: []string{"fsetxattr", "locked/f"}},
	"attribute removed by descriptor": {probe: []string{"fremovexattr", "locked/f"}},
	"time":                            {probe: []string{"futimens", "locked/f"}},
	"flags":                           {probe: []string{"setflags", "locked/f"}},
	"project":                         {probe: []string{"setproject", "locked/f"}},
	"version":                         {probe: []string{"setversion", "locked/f"}},
	// by a folder that another program moves out of the workspace
	"folder moved away": {probe: []string{"away", ""}, host: func(w *world) {
		await(filepath.Join(w.dir, "out/ready"))
		must(w.t, os.Rename(filepath.Join(w.dir, "sub"), w.dir+"-away"))
		must(w.t, os.WriteFile(filepath.Join(w.dir, "out/moved"), nil, 0o644))
	}, check: func(w *world) bool {
		made, err := os.ReadDir(w.dir + "-away")
		must(w.t, errors.Join(err, os.Rename(w.dir+"-away", filepath.Join(w.dir, "sub"))))
		return len(made) == 1
	}},
	// by the file that becomes a repository's settings
	"kept open":           {probe: []string{"noreplace", ""}, blind: true, check: settings},
	"written to the copy": {probe: []string{"copied", ""}, blind: true, host: watchCopies, check: settings},
	// by a folder that is looked through at that moment
	"folder filled while it is moved": {probe: []string{"walked", ""}},
	// by settings of the command's own processes, which a runtime outside of their namespace opens
	"own settings":       {probe: []string{"openw", "/proc/self/oom_score_adj"}},
	"own login":          {probe: []string{"openw", "/proc/self/loginuid"}},
	"own memory":         {probe: []string{"openw", "/proc/thread-self/mem"}},
	"own user namespace": {probe: []string{"openw", "/proc/self/uid_map"}},
	// by a call that writes nothing
	"file larger than the limit": {probe: []string{"enlarge", "out/large"}},
	// by what Git may do in its repositories
	"repository in a denied folder": {probe: []string{"sh", "mkdir locked/HEAD; mkdir -p locked/.git/hooks; echo x >locked/.git/hooks/a.sample; printf '[core]\\n\\tbare = false\\n' >c; mv c locked/.git/config"}, blind: true},
	// by the name of a socket of its own
	"socket made later by another program": {probe: []string{"late", ""}, host: func(w *world) {
		await(filepath.Join(w.dir, "out/ready"))
		hostSocket(w.t.(*testing.T), filepath.Join(w.dir, "late.sock"))
		must(w.t, os.WriteFile(filepath.Join(w.dir, "out/moved"), nil, 0o644))
	}},
}

// watchCopies has another sandbox of the workspace write to the copies of a repository's settings.
func watchCopies(w *world) {
	exe, err := os.Executable()
	must(w.t, err)
	out, err := w.run(sandbox.Command{Argv: []string{exe, "probe", "copying", ""}, Timeout: time.Minute})
	if err != nil || verdictOf(string(out.Stdout.Data)) != "REFUSED over" {
		w.t.Errorf("%v %s", err, out.Stdout.Data)
	}
}

// A file that the policy lets be written, and not read, is its own mount.
func TestAFileIsOnlyWritten(t *testing.T) {
	everyTier(t, strings.Replace(motionPolicy, `read:  {allow: ["**"], deny: ["**/.env", "private/**"]}`, `read:  {allow: ["src/**"]}`, 1), func(t *testing.T, src string) {
		t.Setenv("TMPDIR", "/var/tmp") // all that is shown in /tmp can be read
		w := newWorld(t, strings.Replace(src, `write: {allow: ["**"]`, `write: {allow: ["drop"]`, 1))
		w.file("src/a", "a")
		w.file("drop", motionSecret)
		out := w.sh("cat drop; cat <>drop; cat /proc/self/fd/5 5>>drop; echo more >>drop; cat src/a")
		if b, err := os.ReadFile(filepath.Join(w.dir, "drop")); err != nil || string(b) != motionSecret+"more\n" || string(out.Stdout.Data) != "a" {
			t.Errorf("read %q, written %q, %v\n%s", out.Stdout.Data, b, err, out.Stderr.Data)
		}
	})
}

// TestNotesOfHostileNames: what a person is told of a refused call has no character that a terminal obeys.
func TestNotesOfHostileNames(t *testing.T) {
	w := newWorld(t, motionPolicy)
	const name = "a\x1b]0;x\a\r\n\u202e\u2028\xff\x9b2J"
	w.file(name+"/.env", motionSecret)
	exe, err := os.Executable()
	must(t, err)
	out, err := w.run(sandbox.Command{Argv: []string{exe, "probe", "read", name + "/.env"}, Timeout: time.Minute})
	must(t, err)
	var told []string
	for _, r := range out.Refusals {
		told = append(told, r.String())
	}
	list, _ := w.p.Refused()
	for _, r := range list {
		told = append(told, r.Action, r.Reason, r.Rule)
	}
	if len(out.Refusals) != 1 || len(list) != 1 {
		t.Errorf("%d notes, %d refusals", len(out.Refusals), len(list))
	}
	for _, text := range told {
		if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) || !utf8.ValidString(text) {
			t.Errorf("it says %q", text)
		}
	}
}
