//go:build linux && (amd64 || arm64)

package linux_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/egress"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

// checks runs a property that starts processes: a few times, or in the long way
// a thousand.
func checks(t *testing.T, few int, property func(rt *rapid.T)) {
	t.Helper()
	times := 1
	if os.Getenv("REMIT_SOAK") != "" {
		few, times = 100, 10
	}
	for range times {
		n := 0
		rapid.Check(t, func(rt *rapid.T) {
			if n++; n > few && !t.Failed() {
				return
			}
			property(rt)
		})
	}
}

func init() {
	// access reads, then writes, then makes what it is told to, and shows what it
	// read.
	probes["access"] = func(list string) error {
		for _, p := range strings.Split(list, "\n") {
			if b, err := os.ReadFile(p); err == nil {
				fmt.Printf("%s\n", b)
			}
		}
		for _, p := range strings.Split(list, "\n") {
			flags := unix.O_WRONLY | unix.O_APPEND
			if strings.HasSuffix(p, newName) {
				flags |= unix.O_CREAT
			}
			if fd, err := unix.Open(p, flags, 0o644); err == nil {
				_, _ = unix.Write(fd, []byte("+")) // the host looks whether it did
				_ = unix.Close(fd)
			}
		}
		return errors.New("that is all")
	}
	// requests asks each of a list of addresses through the proxy of the
	// environment, whatever they are.
	probes["requests"] = func(list string) error {
		u, err := url.Parse(os.Getenv("HTTP_PROXY"))
		if err != nil {
			return err
		}
		tr := &http.Transport{Proxy: http.ProxyURL(u)}
		if u.Host == "" {
			tr.Proxy = nil
		}
		return requests(tr, list)
	}
	// direct is the same for a program that knows no proxy.
	probes["direct"] = func(list string) error { return requests(&http.Transport{}, list) }
}

// requests sends a list of requests, whatever the answers are.
func requests(tr *http.Transport, list string) error {
	c := http.Client{Transport: tr, Timeout: time.Minute}
	for line := range strings.Lines(list) {
		method, at := two(strings.TrimSpace(line))
		req, err := http.NewRequest(method, at, nil)
		if err != nil {
			return err
		}
		if resp, err := c.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body) // the server says who came
			_ = resp.Body.Close()
		}
	}
	return errors.New("that is all")
}

const newName = "made.anew"

// drawFiles draws a policy of files and the files that it is about.
func drawFiles(rt *rapid.T) (policy string, files []string) {
	patterns := []string{"**", "*", "a/**", "a/*", "b/**", "**/x", "*/x", "a/b/x", "a/b/**", "**/*.k", "a", ".env", ".ssh/**", "x", "**/" + newName}
	names := []string{"a", "b", "x", "y.k", ".env", ".ssh"}
	list := func(label string, most int) string {
		return "['" + strings.Join(rapid.SliceOfN(rapid.SampledFrom(patterns), 1, most).Draw(rt, label), "', '") + "']"
	}
	policy = "  read: {allow: " + list("read", 3) + ", deny: " + list("noread", 2) + "}\n" +
		"  write: {allow: " + list("write", 3) + ", deny: " + list("nowrite", 2) + "}\n"
	if rapid.Bool().Draw(rt, "asks") {
		policy = strings.Replace(policy, "deny:", "ask: "+list("ask", 1)+", deny:", 1)
	}
	for _, a := range names {
		if !rapid.Bool().Draw(rt, a+"/") {
			files = append(files, a)
			continue
		}
		files = append(files, a+"/"+newName)
		for _, b := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 4, rapid.ID[string]).Draw(rt, a) {
			if rapid.Bool().Draw(rt, a+"/"+b+"/") {
				files = append(files, a+"/"+b+"/x", a+"/"+b+"/y.k", a+"/"+b+"/"+newName)
			} else {
				files = append(files, a+"/"+b)
			}
		}
	}
	return policy, append(files, newName)
}

// What a command really gets to read and to write is what the policy allows, and
// nothing else; in both tiers, also for the second command of a session.
func TestWhatFilesAreReachedIsWhatThePolicyAllows(t *testing.T) {
	racetest.Skip(t, oneByOne)
	w := newWorld(t, openPolicy)
	w.sh("true")
	exact, stricter, reached := 0, 0, 0
	checks(t, 40, func(rt *rapid.T) {
		files, names := drawFiles(rt)
		dir, err := os.MkdirTemp(w.dir, "w")
		must(t, err)
		defer func() { must(t, os.RemoveAll(dir)) }()
		at := &world{t: t, dir: dir, box: w.box}
		tier := rapid.SampledFrom(tiers).Draw(rt, "tier")
		chain := []string{files}
		if rapid.Bool().Draw(rt, "a second policy") {
			more, _ := drawFiles(rt)
			chain = append(chain, more)
		}
		for i, files := range chain {
			chain[i] = "version: 1\nname: test\nfiles:\n" + files + "commands: {allow: ['EXE **']}\n" + tier.policy
		}
		at.allow(chain...)
		contents := map[string]string{}
		for _, n := range names {
			must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, n)), 0o755))
			if filepath.Base(n) != newName {
				contents[n] = rand.Text()
				at.file(n, contents[n])
			}
		}
		for range 2 {
			notes := at.reach(rt, names, contents, &reached)
			if notes == "" {
				exact++
			} else {
				stricter++
			}
			for _, n := range names { // as it was
				if filepath.Base(n) == newName {
					_ = os.Remove(filepath.Join(dir, n)) // it may not be there
				} else {
					must(t, os.WriteFile(filepath.Join(dir, n), []byte(contents[n]), 0o644))
				}
			}
		}
	})
	if exact == 0 || reached == 0 {
		t.Errorf("the test shows little: %d profiles were exact, %d files reached", exact, reached)
	}
	t.Logf("%d profiles exact, %d with notes; %d files reached", exact, stricter, reached)
}

// reach lets a command try all files, and compares.
func (w *world) reach(rt *rapid.T, names []string, contents map[string]string, reached *int) (notes string) {
	exe, err := os.Executable()
	must(w.t, err)
	var paths []string
	for _, n := range names {
		paths = append(paths, filepath.Join(w.dir, n))
	}
	out, err := w.run(sandbox.Command{Argv: []string{exe, "probe", "access", strings.Join(paths, "\n")}, Timeout: time.Minute})
	if err != nil {
		if notReadable := strings.Contains(err.Error(), "is not readable under the policy"); notReadable {
			return "refused"
		}
		rt.Fatalf("%v", err)
	}
	if !strings.HasSuffix(string(out.Stdout.Data), "REFUSED that is all\n") {
		rt.Fatalf("the probe did not end: %q %q", out.Stdout.Data, out.Stderr.Data)
	}
	loose := slices.ContainsFunc(out.Notes, func(n string) bool { return strings.HasPrefix(n, "names that do not exist yet") })
	other := slices.DeleteFunc(slices.Clone(out.Notes), func(n string) bool { return strings.HasPrefix(n, "names that do not exist yet") })
	check := func(n, what string, kind tool.ActionKind, got, fresh bool) {
		p := filepath.Join(w.dir, n)
		d := w.p.Chain().DecideAction(tool.Action{Kind: kind, Path: p, Real: p})
		allowed := d.Effect == policy.Allow
		if got {
			*reached++
		}
		if got && !allowed && !(fresh && loose) || !got && allowed && !fresh && len(other) == 0 {
			rt.Fatalf("%s was %s: %v, and the policy says %v\nnotes %q", n, what, got, d.Effect, out.Notes)
		}
	}
	for _, n := range names {
		now, err := os.ReadFile(filepath.Join(w.dir, n))
		if filepath.Base(n) == newName {
			check(n, "made", tool.FileWrite, err == nil, true)
			continue
		}
		check(n, "read", tool.FileRead, strings.Contains(string(out.Stdout.Data), contents[n]), false)
		check(n, "written", tool.FileWrite, err != nil || string(now) != contents[n], false)
	}
	return strings.Join(other, "; ")
}

// realProxy is the proxy that Remit gives a command.
type realProxy struct{ *egress.Proxy }

func (realProxy) Connections() []sandbox.Connection { return nil }

// guestbook is a server that notes who came.
type guestbook struct {
	mu   sync.Mutex
	seen map[string]bool
	addr string
}

func newGuestbook(t *testing.T, at string) *guestbook {
	t.Helper()
	g := &guestbook{seen: map[string]bool{}}
	l, err := net.Listen("tcp", at)
	must(t, err)
	g.addr = l.Addr().String()
	srv := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.seen[r.Method+" "+r.URL.Path] = true
	})}
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { must(t, srv.Close()) })
	return g
}

// take gives what was seen since the last time.
func (g *guestbook) take() map[string]bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	seen := g.seen
	g.seen = map[string]bool{}
	return seen
}

// What a command really reaches of the network, through the proxy or around it,
// is what the policy allows: hosts, ports, methods and paths.
func TestWhatIsReachedOfTheNetworkIsWhatThePolicyAllows(t *testing.T) {
	w := newWorld(t, openPolicy)
	w.sh("true")
	w.box = linux.New(linux.Config{Egress: func(p permit.Permit, _ sandbox.Command) (sandbox.Proxy, error) {
		return realProxy{egress.New(egress.Options{Permit: p, TrustFile: sandbox.TrustFile})}, nil
	}})
	defer func() { must(t, w.box.Close()) }()
	exe, err := os.Executable()
	must(t, err)
	books := []*guestbook{newGuestbook(t, "127.0.0.1:0"), newGuestbook(t, "127.0.0.1:0"), newGuestbook(t, "127.0.0.2:0")}
	methods, paths := []string{"GET", "POST", "DELETE"}, []string{"/", "/x", "/x/y"}
	var list strings.Builder
	for _, b := range books {
		for _, m := range methods {
			for _, p := range paths {
				fmt.Fprintf(&list, "%s http://%s%s\n", m, b.addr, p)
			}
		}
	}
	if _, all := try(t, outside, []string{"requests", list.String()}); !strings.Contains(all, "that is all") {
		t.Fatalf("outside: %s", all)
	}
	for _, b := range books {
		if got := b.take(); len(got) != len(methods)*len(paths) {
			t.Fatalf("the probe proves nothing: outside %d requests come to %s", len(got), b.addr)
		}
	}
	passed, stopped := 0, 0
	checks(t, 40, func(rt *rapid.T) {
		tier := rapid.SampledFrom(tiers).Draw(rt, "tier")
		chain := []string{openPolicy + drawNetwork(rt, books) + tier.policy}
		if rapid.Bool().Draw(rt, "a second policy") {
			chain = append(chain, openPolicy+drawNetwork(rt, books)+tier.policy)
		}
		w.allow(chain...)
		way := rapid.SampledFrom([]string{"requests", "direct"}).Draw(rt, "way")
		out, err := w.run(sandbox.Command{Argv: []string{exe, "probe", way, list.String()}, Timeout: 60 * time.Second})
		if err != nil || !strings.Contains(string(out.Stdout.Data), "that is all") {
			rt.Fatalf("%v %q %q", err, out.Stdout.Data, out.Stderr.Data)
		}
		for _, b := range books {
			seen := b.take()
			at := netip.MustParseAddrPort(b.addr)
			for _, m := range methods {
				for _, p := range paths {
					to := tool.Target{Method: m, Scheme: "http", Host: at.Addr().String(), Port: at.Port(), Path: p}
					d := w.p.Chain().DecideAction(tool.Action{Kind: tool.Network, Target: to, Addrs: []netip.Addr{at.Addr()}})
					if got := seen[m+" "+p]; got != (d.Effect == policy.Allow) {
						rt.Fatalf("%s: reached %v, and the policy says %v", to, got, d.Effect)
					} else if got {
						passed++
					} else {
						stopped++
					}
				}
			}
		}
	})
	if passed == 0 || stopped == 0 {
		t.Errorf("the test shows little: %d requests passed, %d were stopped", passed, stopped)
	}
}

// drawNetwork draws the network section of a policy about some servers. One entry is always
// there, so that not all draws refuse everything.
func drawNetwork(rt *rapid.T, books []*guestbook) string {
	one := rapid.Custom(func(rt *rapid.T) string {
		b := rapid.SampledFrom(books).Draw(rt, "server")
		host, port, _ := net.SplitHostPort(b.addr)
		at := rapid.SampledFrom([]string{host, host + ":" + port, host + ":" + port, "*:" + port}).Draw(rt, "at")
		return rapid.SampledFrom([]string{"", "GET ", "POST,DELETE "}).Draw(rt, "methods") +
			rapid.SampledFrom([]string{"", "http://"}).Draw(rt, "scheme") + at +
			rapid.SampledFrom([]string{"", "/", "/x", "/x/**", "/*"}).Draw(rt, "path")
	})
	list := func(label string, most int) string {
		l := rapid.SliceOfN(one, 0, most).Draw(rt, label)
		for i := range l {
			l[i] = strconv.Quote(l[i])
		}
		return "[" + strings.Join(l, ", ") + "]"
	}
	return fmt.Sprintf("network: {allow: [%q, %s, ask: %s, deny: %s}\n", "GET http://"+books[0].addr+"/x/y", list("allow", 5)[1:], list("ask", 1), list("deny", 2))
}
