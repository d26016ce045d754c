package cli_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/cli"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

const execPolicy = `version: 1
name: test
files:
  read: {allow: ["**"]}
  write: {allow: ["out/**"]}
commands:
  deny: ["rm **"]
`

// remit runs the command line in a fresh home and workspace.
type remit struct {
	t         *testing.T
	dir, home string
}

func newRemit(t *testing.T) *remit {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	r := &remit{t: t, dir: filepath.Join(dir, "ws"), home: filepath.Join(dir, "home")}
	must(t, os.MkdirAll(filepath.Join(r.dir, "out"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "p.yaml"), []byte(execPolicy), 0o644))
	return r
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (r *remit) main(s cli.Streams, args ...string) int { return r.mainWith(s, nil, args...) }

// mainWith adds to the environment.
func (r *remit) mainWith(s cli.Streams, environ []string, args ...string) int {
	environ = append([]string{"REMIT_HOME=" + r.home, "HOME=" + r.dir, "USER=ann", "TERM=xterm", "NO_COLOR=1"}, environ...)
	return cli.Main(context.Background(), args, s, environ, "test")
}

func (r *remit) exec(stdin string, argv ...string) (status int, stdout, stderr string) {
	r.t.Helper()
	var out, errs bytes.Buffer
	args := append([]string{"exec", "-p", filepath.Join(r.dir, "..", "p.yaml"), "-w", r.dir, "--"}, argv...)
	status = r.main(cli.Streams{In: strings.NewReader(stdin), Out: &out, Err: &errs}, args...)
	if strings.Contains(errs.String(), "remit doctor") && os.Getenv("CI") != "true" {
		r.t.Skipf("NOT TESTED: this machine cannot confine: %s", errs.String())
	}
	return status, out.String(), errs.String()
}

func TestExecPassesStreamsAndStatusOn(t *testing.T) {
	r := newRemit(t)
	tests := map[string]struct {
		argv   []string
		stdin  string
		status int
		out    string
		errs   string
	}{
		"output":             {[]string{"echo", "hi"}, "", 0, "hi\n", "completed"},
		"input":              {[]string{"cat"}, "typed", 0, "typed", "completed"},
		"standard error":     {[]string{"sh", "-c", "echo oops >&2"}, "", 0, "", "oops"},
		"its status":         {[]string{"sh", "-c", "exit 7"}, "", 7, "", "failed"},
		"its signal":         {[]string{"sh", "-c", "kill -TERM $$"}, "", 143, "", "SIGTERM"},
		"much output":        {[]string{"head", "-c", "3000000", "/dev/zero"}, "", 0, strings.Repeat("\x00", 3000000), "completed"},
		"a denied command":   {[]string{"rm", "-r", "out"}, "", 3, "", "commands.deny[0]"},
		"no such command":    {[]string{"slepe"}, "", 1, "", "sleep"},
		"nothing else":       {[]string{"sh", "-c", "cat /etc/shadow; touch no"}, "", 1, "", "✗ refused files.write"},
		"input that is left": {[]string{"true"}, strings.Repeat("x", 1<<20), 0, "", "completed"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			status, out, errs := (&remit{t, r.dir, r.home}).exec(tc.stdin, tc.argv...)
			if status != tc.status || out != tc.out || !strings.Contains(errs, tc.errs) {
				t.Errorf("got %d, %.80q, %q\nwant %d, %.80q, %q", status, out, errs, tc.status, tc.out, tc.errs)
			}
		})
	}
}

func TestExecIsARunThatItsTyperApproved(t *testing.T) {
	r := newRemit(t)
	r.exec("", "echo", "recorded")
	var out bytes.Buffer
	if status := r.main(cli.Streams{In: strings.NewReader(""), Out: &out, Err: io.Discard}, "runs", "--json"); status != 0 {
		t.Fatal(status, out.String())
	}
	if got := out.String(); !strings.Contains(got, `"exec echo"`) {
		t.Errorf("the run is not listed: %s", got)
	}
	id := regexp.MustCompile(`"run_id": "([0-9a-f-]{36})"`).FindStringSubmatch(out.String())
	if id == nil {
		t.Fatalf("no ID: %s", out.String())
	}
	out.Reset()
	r.main(cli.Streams{In: strings.NewReader(""), Out: &out, Err: io.Discard}, "report", id[1], "--format", "json")
	for _, want := range []string{`"approved": true`, `"recorded"`} {
		if got := out.String(); !strings.Contains(got, want) {
			t.Errorf("%s is missing: %s", want, got)
		}
	}
}

func TestExecProfileRunsNothing(t *testing.T) {
	r := newRemit(t)
	var out bytes.Buffer
	status := r.main(cli.Streams{In: strings.NewReader(""), Out: &out, Err: io.Discard},
		"exec", "--profile", "-p", filepath.Join(r.dir, "..", "p.yaml"), "-w", r.dir, "--", "touch", "out/made")
	if _, err := os.Stat(filepath.Join(r.dir, "out", "made")); status != 0 || err == nil {
		t.Errorf("status %d, made: %v", status, err == nil)
	}
	if want := "read+write \"" + r.dir + "/out\""; !strings.Contains(out.String(), want) {
		t.Errorf("got %s\nwant %s", out.String(), want)
	}
}

// On a terminal the command gets one of its own: its size, its signals and job
// control work, and the person's is as it was when it is over.
func TestExecOnATerminal(t *testing.T) {
	r := newRemit(t)
	if status, _, _ := r.exec("", "true"); status != 0 {
		t.Fatal(status)
	}
	mine, theirs := openTerminal(t)
	must(t, sandbox.Resize(mine, 93, 31))
	seen := make(chan string)
	go func() {
		var all strings.Builder
		buf := make([]byte, 4096)
		for {
			n, err := mine.Read(buf)
			all.Write(buf[:n])
			if err != nil {
				seen <- all.String()
				return
			}
			seen <- all.String()
		}
	}()
	var last string
	await := func(want string) {
		t.Helper()
		end := time.After(time.Minute)
		for !strings.Contains(last, want) {
			select {
			case last = <-seen:
			case <-end:
				t.Fatalf("%q did not come: %q", want, last)
			}
		}
	}
	done := make(chan int, 1)
	go func() {
		done <- r.main(cli.Streams{In: theirs, Out: theirs, Err: theirs},
			"exec", "-p", filepath.Join(r.dir, "..", "p.yaml"), "-w", r.dir, "--", "sh")
	}()
	await("$ ")
	type step struct{ keys, want string }
	for _, s := range []step{
		{"stty size\n", "31 93"},
		{"tty\n", "/dev/pts/0"},
		{"echo to''tty >/dev/tty\n", "totty"},
		{"sh -c \"echo begu''n; exec sleep 1000\"\n", "begun"},
		{"\x03", "^C"},
		{"echo al''ive\n", "alive"},
		{"sh -c 'kill -STOP $$'\n", "Stopped"},
		{"exit 9\n", "You have stopped jobs"},
		{"exit 9\n", ""},
	} {
		_, err := mine.Write([]byte(s.keys))
		must(t, err)
		await(s.want)
	}
	for status := -1; status != 9; {
		select {
		case last = <-seen:
		case status = <-done:
			if status != 9 {
				t.Fatalf("status %d", status)
			}
		case <-time.After(time.Minute):
			t.Fatalf("it does not end: %q", last)
		}
	}
	if err := theirs.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
	must(t, mine.Close())
}

// service is a server on this machine that a policy may name literally.
func service(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") }))
	t.Cleanup(s.Close)
	return s.URL
}

func TestExecReachesOnlyWhatIsAllowed(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
	r := newRemit(t)
	allowed, other := service(t), service(t)
	must(t, os.WriteFile(filepath.Join(r.dir, "..", "p.yaml"), []byte(execPolicy+"network: {allow: [\""+allowed+"\"]}\n"), 0o644))
	status, out, errs := r.exec("", "curl", "-sS", "-m", "10", allowed+"/x")
	if status != 0 || out != "served" || !strings.Contains(errs, "1 connection, 0 refused") {
		t.Errorf("allowed: got %d, %q, %q", status, out, errs)
	}
	status, out, errs = r.exec("", "curl", "-sS", "-m", "10", "--fail", "--noproxy", "", other+"/x")
	if status == 0 || strings.Contains(out, "served") || !strings.Contains(errs, "refused") ||
		!strings.Contains(errs, `network.allow: ["GET `+other+`/x"] would allow it`) {
		t.Errorf("not allowed: got %d, %q, %q", status, out, errs)
	}
	status, out, errs = r.exec("", "curl", "-sS", "-m", "3", "--noproxy", "*", other+"/x")
	if status == 0 || strings.Contains(out, "served") {
		t.Errorf("around the proxy: got %d, %q, %q", status, out, errs)
	}
}

// What the command serves itself, it reaches without the proxy, also if the policy names another port of the machine's loopback.
func TestExecReachesItsOwnServer(t *testing.T) {
	for _, name := range []string{"curl", "python3"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("NOT TESTED: %v", err)
		}
	}
	const script = `python3 -c '
import http.server,threading,subprocess
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self): self.send_response(200); self.end_headers(); self.wfile.write(b"own")
    def log_message(self,*a): pass
s=http.server.HTTPServer(("127.0.0.1",0),H)
threading.Thread(target=s.serve_forever,daemon=True).start()
print(subprocess.run(["curl","-sS","-m","10"]+[f"http://{h}:{s.server_port}/" for h in ("localhost","127.0.0.1")],capture_output=True,text=True).stdout)'`
	const want = "ownown"
	for _, entry := range []string{"service.example.com", "http://127.0.0.1:1"} {
		t.Run(entry, func(t *testing.T) {
			r := newRemit(t)
			must(t, os.WriteFile(filepath.Join(r.dir, "..", "p.yaml"), []byte(execPolicy+"network: {allow: [\""+entry+"\"]}\nsystem: standard\n"), 0o644))
			status, out, errs := r.exec("", "sh", "-c", script)
			if status != 0 || !strings.Contains(out, want) {
				t.Errorf("got %d, %q, %q, want %q", status, out, errs, want)
			}
		})
	}
}

// A connection that the policy asks about is held until the person presses a key.
func TestExecAsksOnTheTerminal(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
	for key, want := range map[string]string{"y": "served", "n": "over:22"} {
		t.Run(key, func(t *testing.T) {
			r := newRemit(t)
			url := service(t)
			must(t, os.WriteFile(filepath.Join(r.dir, "..", "p.yaml"), []byte(execPolicy+"network: {ask: [\""+url+"\"]}\n"), 0o644))
			if status, _, _ := r.exec("", "true"); status != 0 {
				t.Fatal(status)
			}
			mine, theirs := openTerminal(t)
			defer func() { must(t, mine.Close()) }()
			done := make(chan int, 1)
			go func() {
				done <- r.main(cli.Streams{In: theirs, Out: theirs, Err: theirs}, "exec", "--ask", "-p", filepath.Join(r.dir, "..", "p.yaml"),
					"-w", r.dir, "--", "sh", "-c", "curl -sSf -m 20 "+url+"/x 2>/dev/null; echo over:$?")
			}()
			must(t, mine.SetReadDeadline(time.Now().Add(time.Minute)))
			var seen strings.Builder
			buf := make([]byte, 4096)
			for asked := false; !strings.Contains(seen.String(), want); {
				n, err := mine.Read(buf)
				seen.Write(buf[:n])
				if err != nil {
					t.Fatalf("%v: %q", err, seen.String())
				}
				if !asked && strings.Contains(seen.String(), "allow (y or n)?") {
					asked = true
					_, err := mine.Write([]byte(key))
					must(t, err)
				}
			}
			go func() { _, _ = io.Copy(io.Discard, mine) }() // what is still printed must not block it
			select {
			case <-done:
			case <-time.After(time.Minute):
				t.Fatalf("it does not end: %q", seen.String())
			}
			if err := theirs.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
				t.Error(err)
			}
		})
	}
}
