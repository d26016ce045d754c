//go:build linux && (amd64 || arm64)

package supervisor_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/confine/supervisor"
)

const secret = "the secret of the file"

var errProtected = errors.New("it is protected")

// protect refuses everything about the name .env, and that something becomes a folder above one.
func protect(r supervisor.Request) error {
	for at := r.Path; at != "/"; at = path.Dir(at) {
		if path.Base(at) == ".env" {
			return errProtected
		}
	}
	if r.Act&supervisor.Moved != 0 && path.Base(r.Path) == "holder" {
		return errProtected
	}
	return nil
}

// TestRefusedUnderEverySpelling: a protected name can be neither read, written, made nor removed, however the
// path to it is spelt.
func TestRefusedUnderEverySpelling(t *testing.T) {
	for _, there := range []bool{true, false} {
		for name, script := range map[string]string{
			"plain":            "cat .env; echo x >.env",
			"dots":             "cat d/.././.env; echo x >>d/../.env",
			"absolute":         "cat $PWD/.env; echo x >$PWD//.env",
			"link":             "ln -s .env l; cat l; echo x >l; cp /etc/hostname l",
			"link to folder":   "ln -s .. d/up; cat d/up/.env; echo x >d/up/.env",
			"link to nothing":  "ln -s d/../.env l; echo x >l; ln -sf $PWD/.env l; echo x >l",
			"cwd":              "cat /proc/self/cwd/.env; echo x >/proc/$$/cwd/.env; echo x >/proc/thread-self/cwd/.env",
			"descriptor":       "exec 7<d; cat /proc/self/fd/7/../.env; echo x >/dev/fd/7/../.env",
			"rename over":      "echo x >o; mv o .env; mv -T d .env",
			"rename away":      "mv .env o; cat o; mv -T . ../moved",
			"folder renamed":   "mkdir made; echo x >made/x; mv made holder; mv -T made .env",
			"exchange":         "echo x >o; python3 -c 'import ctypes; print(ctypes.CDLL(None).renameat2(-100, b\"o\", -100, b\".env\", 2))'",
			"hard link":        "ln .env o; cat o; echo x >o; echo x >p; ln p .env",
			"remove":           "rm -f .env; python3 -c 'import os; os.unlink(\".env\")'; rmdir .env",
			"modes":            "chmod 777 .env; truncate -s 0 .env; touch -d @1 .env; chown $(id -u) .env; setfattr -n user.a -v b .env",
			"folder":           "mkdir .env; mkdir -p .env/a; mkfifo .env; ln -s x .env",
			"O_PATH":           "python3 -c 'import os; f=os.open(\".env\",os.O_PATH); print(os.read(os.open(\"/proc/self/fd/%d\" % f,os.O_RDONLY),99))'; python3 -c 'import os; f=os.open(\".env\",os.O_PATH); os.open(\"/proc/self/fd/%d\" % f,os.O_WRONLY|os.O_TRUNC)'",
			"relative":         "python3 -c 'import os; d=os.open(\"d\",os.O_PATH); print(os.read(os.open(\"../.env\",os.O_RDONLY,dir_fd=d),99))'; python3 -c 'import os; d=os.open(\"d\",os.O_RDONLY); os.open(\"../.env\",os.O_WRONLY|os.O_CREAT,dir_fd=d)'",
			"no name":          "python3 -c 'import os; f=os.open(\".\",os.O_TMPFILE|os.O_RDWR); os.write(f,b\"x\"); os.link(\"/proc/self/fd/%d\" % f,\".env\",follow_symlinks=True)'",
			"another's folder": "(cd d; sleep 5) & sleep 0.1; cat /proc/$!/cwd/../.env; kill $!; cat /proc/1/root$PWD/.env",
			"programs":         "sqlite3 .env 'create table t(a)'; tar xf evil.tar; git init -q .env; sed -i s/a/b/ .env; dd if=/dev/zero of=.env bs=1 count=1 conv=notrunc; install /etc/hostname .env",
		} {
			t.Run(fmt.Sprint(name, " ", there), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				must(t, os.MkdirAll(filepath.Join(dir, "d"), 0o755))
				env := filepath.Join(dir, ".env")
				if there {
					must(t, os.WriteFile(env, []byte(secret), 0o640))
				}
				var before, after unix.Stat_t
				_ = unix.Lstat(env, &before) // of nothing: zero
				must(t, os.WriteFile(filepath.Join(dir, "evil.tar"), evilTar, 0o600))
				s := supervised{dir: dir, decide: protect}
				out, _ := s.run(t, "bash", "-c", script)
				if strings.Contains(out, secret) {
					t.Errorf("it was read:\n%s", out)
				}
				if err := unix.Lstat(env, &after); there && err != nil || !there && err == nil {
					t.Errorf("afterwards: %v\n%s", err, out)
				}
				if b, _ := os.ReadFile(env); there && string(b) != secret {
					t.Errorf("it was written: %q\n%s", b, out)
				}
				if before.Ino != after.Ino || before.Mode != after.Mode || before.Nlink != after.Nlink || before.Mtim != after.Mtim {
					t.Errorf("it was changed: %+v, before %+v\n%s", after, before, out)
				}
				if _, err := os.Lstat(filepath.Join(dir, "holder")); err == nil {
					t.Error("a folder was moved to where it holds something protected")
				}
			})
		}
	}
}

// evilTar has the file .env.
var evilTar = func() []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	_ = w.WriteHeader(&tar.Header{Name: ".env", Mode: 0o644, Size: 1}) // to memory
	_, _ = w.Write([]byte("x"))
	_ = w.Close()
	return b.Bytes()
}()

// flip opens a path that another thread changes all the time, and prints what it could read.
func flip(n int) {
	buf := append([]byte("good"), 0)
	var over atomic.Bool
	go func() {
		for !over.Load() {
			copy(buf, ".env")
			copy(buf, "good")
		}
	}()
	var content [64]byte
	leaked, read := 0, 0
	for range n {
		fd, _, errno := unix.Syscall6(unix.SYS_OPENAT, ^uintptr(99), uintptr(unsafe.Pointer(&buf[0])), unix.O_RDONLY, 0, 0, 0)
		if errno != 0 {
			continue
		}
		got, _ := unix.Read(int(fd), content[:])
		_ = unix.Close(int(fd))
		if read++; string(content[:max(got, 0)]) == secret {
			leaked++
		}
	}
	over.Store(true)
	fmt.Println("read", read > 0, "leaked", leaked)
}

// TestAPathThatChangesMeanwhile: what is opened is what was decided on.
func TestAPathThatChangesMeanwhile(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, ".env"), []byte(secret), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "good"), []byte("good"), 0o600))
	n := "5000"
	if os.Getenv("REMIT_SOAK") != "" {
		n = "1000000"
	}
	s := supervised{dir: dir, decide: protect}
	if out, _ := s.run(t, os.Args[0], "-flip", n); out != "read true leaked 0\n" || len(s.denied) == 0 {
		t.Errorf("%s%d were refused", out, len(s.denied))
	}
}

// TestTheHostReplacesAFile: a protected file stays protected while other programs replace, remove and link it.
func TestTheHostReplacesAFile(t *testing.T) {
	dir := t.TempDir()
	env := filepath.Join(dir, ".env")
	must(t, os.WriteFile(env, []byte(secret), 0o600))
	var over atomic.Bool
	done := make(chan int)
	go func() {
		n := 0
		for ; !over.Load(); n++ {
			tmp := filepath.Join(dir, "tmp")
			_ = os.WriteFile(tmp, []byte(secret), 0o600)
			_ = os.Rename(tmp, env)
			if n%3 == 0 {
				_ = os.Remove(env)
				_ = os.Mkdir(filepath.Join(dir, "other"), 0o700)
				_ = os.WriteFile(env, []byte(secret), 0o600)
			}
		}
		done <- n
	}()
	s := supervised{dir: dir, decide: protect}
	out, _ := s.run(t, "bash", "-c", "for i in $(seq 300); do cat .env; echo bad >.env; done 2>/dev/null; echo end")
	over.Store(true)
	if n := <-done; n == 0 {
		t.Error("nothing was replaced")
	}
	if b, err := os.ReadFile(env); err != nil || string(b) != secret || out != "end\n" {
		t.Errorf("%v %q %q", err, b, out)
	}
}

// TestTheEndOfTheSupervisor: once nobody answers, calls fail.
func TestTheEndOfTheSupervisor(t *testing.T) {
	var sup atomic.Pointer[supervisor.Supervisor]
	dir := t.TempDir()
	asked := make(chan struct{})
	s := supervised{dir: dir, started: func(x *supervisor.Supervisor) { sup.Store(x) }, decide: func(r supervisor.Request) error {
		if path.Base(r.Path) == "last" {
			close(asked)
		}
		return nil
	}}
	go func() {
		<-asked
		for sup.Load() == nil {
			time.Sleep(time.Millisecond)
		}
		sup.Load().Stop()
		must(t, os.WriteFile(filepath.Join(dir, "stopped"), nil, 0o600))
	}()
	out, _ := s.run(t, "bash", "-c", "echo >last; until [ -e stopped ]; do sleep 0.01; done; echo >after; echo $?")
	if _, err := os.Stat(filepath.Join(dir, "after")); err == nil {
		t.Errorf("a file was made after the end:\n%s", out)
	}
}
