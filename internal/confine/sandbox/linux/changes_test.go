//go:build linux && (amd64 || arm64)

package linux_test

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/confine/files"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

// changing are scripts of a command. The value says whether all files that it changed can be told.
var changing = map[string]bool{
	"true": true,
	"cat a; ls -R; test -f d/b; git --version":                                                   true,
	"echo x > new; echo x >> a; echo x | tee d/new":                                              true,
	"cp a c; mv c e; mv e d/f; cp -r d g":                                                        true,
	"sed -i s/a/b/ a; truncate -s 9 d/b; dd if=a of=d/c conv=notrunc 2>&1":                       true,
	"chmod 600 a; touch -d 2001-01-01 d/b":                                                       true,
	"rm -r d; mkdir d; echo y > d/b":                                                             true,
	"ln -s a l; echo x > l; ln -s d m; echo x > m/n":                                             true,
	"echo x > /tmp/x; mv /tmp/x moved; cp moved /tmp/y":                                          true,
	"exec 3<> a; echo x >&3; echo y > /proc/self/fd/3":                                           true,
	"cd d; echo x > ../o; cd ..; echo x > ./d/../p":                                              true,
	"(echo x > by-child &) ; wait; bash -c 'echo y > by-shell'; sleep 0.2":                       true,
	"python3 -c 'import mmap; f = open(\"a\", \"r+b\"); mmap.mmap(f.fileno(), 1)[0:1] = b\"z\"'": true,
	"for i in $(seq 50); do echo x > many$i; done; rm many1*":                                    true,
	"echo x > d/b; mv d moved":                                                                   false,
	"mkdir -p t/u; echo x > t/u/v; mv t t2; mv t2 t3":                                            false,
	"ln a other; echo x >> a":                                                                    false,
	"echo x >> f; rm f":                                                                          false, // f and g are one file
	"echo x >> f; mv a f":                                                                        false,
	"exec 3>> f; rm f; echo x >&3":                                                               false,
	"mv g h; rm f; echo x > h":                                                                   true,
	"mkdir p; echo x > d/b; mv d p/d; rmdir p/d 2>&1":                                            false,
	"mkfifo q; cat q & echo x > q; wait; rm q":                                                   false, // others could read it
	"echo x > j; rm j; echo x > j; echo x > k; mv k j; mv a d/b; rm d/b":                         true,
	"exec 3> o; echo x >&3; mv o a; echo x >&3":                                                  true,
	"echo x > /proc/self/root$PWD/o; echo x > /proc/self/cwd/p":                                  true,
	`python3 -c 'import os; os.open("a", os.O_TRUNC); os.truncate("d/b", 1); os.mknod("m")'`:     true,
	`python3 -c 'import ctypes; ctypes.CDLL(None).renameat2(-100, b"a", -100, b"d/b", 2)'`:       true,
	`python3 -c 'import os; os.write(os.open(".", os.O_TMPFILE | os.O_RDWR), b"x")'`:             false,
	"sleep 30 & echo x > beside":                                                                 true,
}

// TestTheChangedFilesAreKnown: what a command is said to have changed is what a look at all files finds.
func TestTheChangedFilesAreKnown(t *testing.T) {
	racetest.Skip(t, oneByOne)
	for script, known := range changing {
		t.Run(script, func(t *testing.T) {
			w := newWorld(t, allWritable)
			w.file("a", "aaa")
			w.file("d/b", "bbb")
			must(t, os.Link(w.file("f", "fff"), filepath.Join(w.dir, "g")))
			time.Sleep(50 * time.Millisecond) // the kernel stamps files with a coarse clock
			since := files.Now()
			p, err := w.inSession(context.Background(), script, script)
			if err != nil || (p.Changed != nil) != known {
				t.Fatalf("known: %v, want %v; %v %s", p.Changed != nil, known, err, p.err)
			}
			if !known {
				return
			}
			want, got := changedSince(t, []string{w.dir}, since), changedSince(t, *p.Changed, since)
			if !slices.Equal(got, want) {
				t.Errorf("it changed %q, and %q are told (%q)", want, got, *p.Changed)
			}
		})
	}
}

// TestOthersInASandboxChangeFilesToo: nothing is told of a command beside which another one, or what it left, could
// write.
func TestOthersInASandboxChangeFilesToo(t *testing.T) {
	w := newWorld(t, allWritable)
	told := func(script string) bool {
		t.Helper()
		p, err := w.inSession(context.Background(), "s", script)
		must(t, err)
		return p.Changed != nil
	}
	untold := func(script string) {
		t.Helper()
		if told(script) {
			t.Errorf("%s: its changes are told, and it was not alone", script)
		}
	}
	told("while ! test -f stop; do sleep 0.05; done > log & echo left")
	untold("true") // the log is still open
	untold("touch stop")
	for !told("true") { // until the kernel tells that the last process has gone
		time.Sleep(10 * time.Millisecond)
	}
	ended := make(chan error)
	go func() {
		_, err := w.inSession(context.Background(), "s", "touch begun; while ! test -f go; do sleep 0.05; done")
		ended <- err
	}()
	untold("while ! test -f begun; do sleep 0.05; done; touch go")
	must(t, <-ended)
}

// moving are scripts of one command that has a file open, and of another one that moves it meanwhile, in a sandbox of its own.
var moving = [][2]string{
	{"exec 3> f", "mv f g; echo y > f"},
	{"exec 3>> made", "mv made g; echo y > made"},
	{"exec 3> f; rmdir f", "mv f g"}, // which fails
	{"exec 3> f", "ln f g; rm f; echo y > f"},
	{"mkdir d; exec 3> d/f; rmdir d", "mv d e; mkdir d; echo y > d/f"},
	{"echo x > f; mv f g; exec 3> f", "mv g h; echo y > g"},
}

// TestOtherProgramsMoveFiles: where a file that a command wrote has another name at the end, nothing is told.
func TestOtherProgramsMoveFiles(t *testing.T) {
	racetest.Skip(t, oneByOne)
	for _, scripts := range moving {
		t.Run(scripts[1], func(t *testing.T) {
			w := newWorld(t, allWritable)
			w.file("made", "aaa")
			ended := make(chan error, 1)
			var first piped
			go func() {
				var err error
				first, err = w.inSession(context.Background(), "one", scripts[0]+"; touch begun; while ! test -f go; do sleep 0.02; done; echo secret >&3")
				ended <- err
			}()
			_, err := w.inSession(context.Background(), "two", "while ! test -f begun; do sleep 0.02; done; "+scripts[1]+"; touch go")
			must(t, err)
			must(t, <-ended)
			if first.Changed != nil {
				t.Errorf("%q are told", *first.Changed)
			}
		})
	}
}

// TestFilesWithTwoPaths: nothing is told where mounts of the machine show a file at two places in the workspace.
func TestFilesWithTwoPaths(t *testing.T) {
	for name, tt := range map[string]struct {
		script string
		from   string // "": another folder of the machine
		known  bool
	}{
		"written there":  {"echo x > 'a mount'/o", "d", false},
		"written here":   {"echo x > d/o", "d", false},
		"nothing":        {"true", "d", true},
		"another folder": {"echo x > 'a mount'/o", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, allWritable)
			from, at := t.TempDir(), filepath.Join(w.dir, "a mount")
			if tt.from != "" {
				from = filepath.Join(w.dir, tt.from)
			}
			must(t, os.MkdirAll(from, 0o700))
			must(t, os.Mkdir(at, 0o700))
			if err := unix.Mount(from, at, "", unix.MS_BIND, ""); err != nil {
				t.Skipf("a folder cannot be mounted at a second place: %v", err)
			}
			t.Cleanup(func() { must(t, unix.Unmount(at, unix.MNT_DETACH)) })
			p, err := w.inSession(context.Background(), name, tt.script)
			if err != nil || p.ExitCode != 0 || (p.Changed != nil) != tt.known {
				t.Errorf("known: %v, want %v; %v %s", p.Changed != nil, tt.known, err, p.err)
			}
		})
	}
}

// TestOtherProgramsGetData: nothing is told of a command that another program of the machine may have got data from.
func TestOtherProgramsGetData(t *testing.T) {
	for name, tt := range map[string]struct {
		script string
		made   sandbox.Connection
		known  bool
	}{
		"a FIFO":              {"mkfifo q; exec 3<> q; echo x >&3", sandbox.Connection{}, false},
		"a socket of its own": {`python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("s")'`, sandbox.Connection{}, false},
		"the Internet":        {"true", sandbox.Connection{Addr: netip.MustParseAddr("9.9.9.9"), Effect: policy.Allow, Out: 9}, true},
		"this machine":        {"true", sandbox.Connection{Addr: netip.MustParseAddr("127.0.0.1"), Effect: policy.Allow, Out: 9}, false},
		"a container":         {"true", sandbox.Connection{Addr: netip.MustParseAddr("172.17.0.2"), Effect: policy.Allow, Out: 9}, false},
		"a socket":            {"true", sandbox.Connection{Protocol: "unix", Effect: policy.Allow, Out: 9}, false},
		"cut off":             {"true", sandbox.Connection{Protocol: "unix", Effect: policy.Deny, Out: 9}, false},
		"refused":             {"true", sandbox.Connection{Host: "example.com", Effect: policy.Deny}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, allWritable)
			w.box = linux.New(linux.Config{Egress: func(permit.Permit, sandbox.Command) (sandbox.Proxy, error) {
				return &connected{newProxy(name), tt.made}, nil
			}})
			t.Cleanup(func() { must(t, w.box.Close()) })
			p, err := w.inSession(context.Background(), name, tt.script)
			if err != nil || p.ExitCode != 0 || (p.Changed != nil) != tt.known {
				t.Errorf("known: %v, want %v; %v %s", p.Changed != nil, tt.known, err, p.err)
			}
		})
	}
}

// connected is a proxy that a command made one connection through.
type connected struct {
	*proxy
	made sandbox.Connection
}

func (c *connected) Connections() []sandbox.Connection {
	if c.made == (sandbox.Connection{}) {
		return nil
	}
	return []sandbox.Connection{c.made}
}

func changedSince(t *testing.T, roots []string, since files.Moment) (list []string) {
	t.Helper()
	must(t, files.ChangedSince(context.Background(), roots, since, func(path string) error {
		list = append(list, path)
		return nil
	}))
	slices.Sort(list)
	return slices.Compact(list)
}
