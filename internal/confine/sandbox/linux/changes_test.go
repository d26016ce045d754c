//go:build linux && (amd64 || arm64)

package linux_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/confine/files"
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
	"sleep 30 & echo x > beside":                                                                 true,
}

// TestTheChangedFilesAreKnown: what a command is said to have changed is what a look at all files finds.
func TestTheChangedFilesAreKnown(t *testing.T) {
	for script, known := range changing {
		t.Run(script, func(t *testing.T) {
			w := newWorld(t, allWritable)
			w.file("a", "aaa")
			w.file("d/b", "bbb")
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

func changedSince(t *testing.T, roots []string, since files.Moment) (list []string) {
	t.Helper()
	must(t, files.ChangedSince(context.Background(), roots, since, func(path string) error {
		list = append(list, path)
		return nil
	}))
	slices.Sort(list)
	return slices.Compact(list)
}
