//go:build linux && (amd64 || arm64)

package linux_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

func init() {
	probes["mounted"] = mounted
	probes["siege"] = siege
	probes["besiege"] = besiege
}

// besieged are the folders in which other programs move a protected file, each in a way of its own.
var besieged = []string{"replaced", "removed", "moved", "linked", "saved"}

// siege has four processes read and write the protected names, and honest programs beside them.
func siege(string) error {
	const processes = 4
	if err := os.WriteFile("out/ready", nil, 0o644); err != nil {
		return err
	}
	var all []*exec.Cmd
	for i := range processes {
		all = append(all, exec.Command("/proc/self/exe", "probe", "besiege", strconv.Itoa(i)))
	}
	all = append(all, exec.Command("/bin/sh", "-ec", honest))
	await("out/moving")
	for _, cmd := range all {
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			return err
		}
	}
	var err error
	for _, cmd := range all {
		err = errors.Join(err, cmd.Wait())
	}
	if err != nil {
		fmt.Println("SUCCEEDED no", err) // an honest program failed, or a process could not go on
		return nil
	}
	return errors.New("all")
}

// honest programs must work meanwhile.
const honest = `mkdir -p honest && cd honest
git init -q . && git config user.email a@b.test && git config user.name a
i=0; while [ $i -lt 1 ]; do
	i=$((i+1)); echo $i >f; git add f; git commit -qm $i
	tar cf t.tar f; rm -rf o; mkdir o; tar xf t.tar -C o; cmp f o/f
	if [ -x /usr/bin/sqlite3 ]; then /usr/bin/sqlite3 d.sqlite 'create table if not exists t(a); insert into t values(1); select count(*) from t' >/dev/null; fi
	mkdir -p a/b; echo x >a/b/c; mv a z; rm -rf z; ln -sf f l; cp -p f g; touch -d @1 g; chmod 600 g
done`

// besiege tries all that it can, and brings out what it read.
func besiege(number string) error {
	mine := "mine-" + number
	if err := os.WriteFile(mine, []byte("bad"), 0o644); err != nil {
		return err
	}
	folders := map[string]int{}
	for range rounds(2) {
		for _, dir := range besieged {
			if fd, ok := folders[dir]; ok && dir == "moved" {
				_ = readAt(fd, ".env")
				overwriteAt(fd, ".env")
				_ = os.Symlink("x", fmt.Sprintf("/proc/self/fd/%d/.env", fd))
				_ = unix.Close(fd)
			}
			if fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
				folders[dir] = fd
			}
			attackFile(mine, filepath.Join(dir, ".env"))
			for _, name := range []string{".git/config", ".mcp.json"} {
				overwriteAt(unix.AT_FDCWD, filepath.Join(dir, name))
				_ = os.WriteFile(mine, []byte("bad"), 0o644)
				_ = os.Rename(mine, filepath.Join(dir, name))
			}
		}
	}
	return errors.New("end")
}

func overwriteAt(at int, name string) {
	for _, flags := range []int{unix.O_WRONLY | unix.O_TRUNC, unix.O_RDWR | unix.O_CREAT, unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL} {
		if fd, err := unix.Openat(at, name, flags|unix.O_CLOEXEC, 0o644); err == nil {
			_, _ = unix.Write(fd, []byte("bad"))
			_ = unix.Close(fd)
		}
	}
}

func attackFile(mine, p string) {
	_ = readAt(unix.AT_FDCWD, p)
	_ = readAt(unix.AT_FDCWD, "/proc/self/cwd/"+p)
	if fd, err := unix.Open(p, unix.O_PATH|unix.O_CLOEXEC, 0); err == nil {
		_ = readAt(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd))
		overwriteAt(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd))
		_ = unix.Linkat(fd, "", unix.AT_FDCWD, mine+"-link", unix.AT_EMPTY_PATH)
		_ = unix.Close(fd)
	}
	_ = os.Link(p, mine+"-link")
	_ = readAt(unix.AT_FDCWD, mine+"-link")
	_ = os.Rename(p, mine+"-renamed")
	_ = readAt(unix.AT_FDCWD, mine+"-renamed")
	_ = unix.Renameat2(unix.AT_FDCWD, mine, unix.AT_FDCWD, p, unix.RENAME_EXCHANGE)
	_ = readAt(unix.AT_FDCWD, mine)
	overwriteAt(unix.AT_FDCWD, p)
	_ = os.WriteFile(mine, []byte("bad"), 0o644)
	_ = os.Rename(mine, p)
	_ = os.Remove(p)
	_ = os.Mkdir(p, 0o755)
	_ = os.Symlink(mine, p)
}

// mover is one way in which other programs move a protected file. It reports what it found wrong.
type mover func(dir, host string) error

// put replaces a file whole, as editors do. The new one comes from outside of the workspace.
func put(p, host, content string) error {
	next := filepath.Join(host, strings.ReplaceAll(p, "/", "-"))
	return errors.Join(os.WriteFile(next, []byte(content), 0o644), os.Rename(next, p))
}

// same reports a file that does not hold what the host wrote.
func same(p, want string) error {
	if b, err := os.ReadFile(p); err != nil || string(b) != want {
		return fmt.Errorf("%s holds %q, %w", p, b, err)
	}
	return nil
}

const mcp = "{}"

var movers = map[string]mover{
	"replaced": func(dir, host string) error {
		p := filepath.Join(dir, ".env")
		return errors.Join(same(p, motionSecret), put(p, host, motionSecret))
	},
	"removed": func(dir, _ string) error {
		p := filepath.Join(dir, ".env")
		return errors.Join(same(p, motionSecret), os.Remove(p), os.WriteFile(p, []byte(motionSecret), 0o644))
	},
	"moved": func(dir, host string) error {
		away := filepath.Join(host, "away")
		err := os.Rename(dir, away)
		time.Sleep(time.Millisecond)
		return errors.Join(err, same(filepath.Join(away, ".env"), motionSecret), os.Rename(away, dir))
	},
	"linked": func(dir, host string) error {
		p, link := filepath.Join(dir, ".env"), filepath.Join(host, "link")
		return errors.Join(same(p, motionSecret), os.Link(p, link), same(link, motionSecret), os.Rename(link, p), os.Remove(link))
	},
	"saved": func(dir, host string) error {
		p, config := filepath.Join(dir, ".mcp.json"), filepath.Join(dir, ".git/config")
		out, err := exec.Command("git", "config", "--file", config, "user.name", "b").CombinedOutput()
		if err != nil {
			err = fmt.Errorf("git config: %w %s", err, out)
		}
		b, rerr := os.ReadFile(config)
		if strings.Contains(string(b), "bad") {
			err = errors.New("the settings were written")
		}
		return errors.Join(err, rerr, same(p, mcp), put(p, host, mcp))
	},
}

// TestTheHostMovesProtectedFiles: while other programs replace, remove, move, link and save protected files, no process of a
// command reads or writes one, and what is allowed works.
func TestTheHostMovesProtectedFiles(t *testing.T) {
	racetest.Skip(t, oneByOne)
	needGit(t)
	everyTier(t, motionPolicy+"system: standard\n", func(t *testing.T, src string) {
		if tierOf(src) != tiers[0].name && os.Getenv("REMIT_SOAK") == "" {
			t.Skip("only in make soak: what answers is the same")
		}
		w := motionWorld(t, src)
		host := w.dir + "-host"
		must(t, os.Mkdir(host, 0o700))
		t.Cleanup(func() { _ = os.RemoveAll(host) })
		for _, dir := range besieged {
			w.file(dir+"/.env", motionSecret)
			w.file(dir+"/.mcp.json", mcp)
			w.file(dir+"/.git/config", "[user]\n\tname = a\n")
		}
		before := w.kept()
		stop := w.move(host)
		exe, err := os.Executable()
		must(t, err)
		out, err := w.run(sandbox.Command{Argv: []string{exe, "probe", "siege", ""}, Timeout: 5 * time.Minute})
		stop()
		must(t, err)
		if v := verdictOf(string(out.Stdout.Data)); v != "REFUSED all" {
			t.Errorf("%q, exit %d\n%s", v, out.ExitCode, out.Stderr.Data)
		}
		if all := string(out.Stdout.Data) + string(out.Stderr.Data); strings.Contains(all, motionSecret) {
			t.Errorf("the secret got out: %.1000q", all)
		}
		for _, dir := range besieged {
			must(t, errors.Join(same(filepath.Join(w.dir, dir, ".env"), motionSecret), same(filepath.Join(w.dir, dir, ".mcp.json"), mcp)))
		}
		if d := difference(before, w.kept()); len(d) > 0 {
			t.Errorf("on the host: %s", strings.Join(d, "\n"))
		}
	})
}

// move has all movers at work until stop. The command waits until each has moved something.
func (w *world) move(host string) (stop func()) {
	var over atomic.Bool
	var running sync.WaitGroup
	var begun sync.WaitGroup
	for dir, do := range movers {
		begun.Add(1)
		running.Go(func() {
			for i := 0; !over.Load(); i++ {
				if err := do(filepath.Join(w.dir, dir), host); err != nil {
					w.t.Errorf("%s: %v", dir, err)
					over.Store(true)
				}
				if i == 0 {
					begun.Done()
				}
			}
		})
	}
	running.Go(func() {
		begun.Wait()
		if err := os.WriteFile(filepath.Join(w.dir, "out/moving"), nil, 0o644); err != nil {
			w.t.Error(err)
		}
	})
	return func() { over.Store(true); running.Wait() }
}

// mounted uses a protected name until the host says that it has done enough.
func mounted(string) error {
	if err := os.WriteFile("out/ready", nil, 0o644); err != nil {
		return err
	}
	if err := os.WriteFile("mine", []byte("bad"), 0o644); err != nil {
		return err
	}
	for {
		attackFile("mine", ".env")
		attackFile("mine", "sub/.env")
		if _, err := os.Lstat("out/moved"); err == nil {
			return errors.New("all")
		}
	}
}

// TestTheHostMountsOverProtectedFiles: also what the host mounts on a protected file, or on the folder around it, stays protected.
func TestTheHostMountsOverProtectedFiles(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED: only root mounts")
	}
	if !apart(t, syscall.CLONE_NEWNS) {
		return
	}
	must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	motion{probe: []string{"mounted", ""}, verdict: "REFUSED all", host: func(w *world) {
		await(filepath.Join(w.dir, "out/ready"))
		other := w.file("other/.env", motionSecret)
		for range rounds(4) {
			for from, to := range map[string]string{other: filepath.Join(w.dir, ".env"), filepath.Dir(other): filepath.Join(w.dir, "sub")} {
				must(w.t, unix.Mount(from, to, "", unix.MS_BIND, ""))
				defer func() { must(w.t, unix.Unmount(to, unix.MNT_DETACH)) }()
			}
			out := w.sh("cat .env sub/.env") // of a sandbox that begins with the mounts
			if len(out.Stdout.Data) > 0 {
				w.t.Errorf("it was read: %q", out.Stdout.Data)
			}
		}
		must(w.t, os.WriteFile(filepath.Join(w.dir, "out/moved"), nil, 0o644))
	}}.try(t, motionPolicy)
}
