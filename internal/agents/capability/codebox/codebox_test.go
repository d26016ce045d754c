package codebox_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/agents/capability/capabilitytest"
	"github.com/remitrun/remit/internal/agents/capability/codebox"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

const all = "version: 1\nfiles: {read: {allow: ['**']}, write: {allow: ['**']}}\ncommands: {allow: ['sh **', 'python3 **', 'node **'], timeout: 60s}\n"

// world is a session with files, a workspace beside it, and a real sandbox.
type world struct {
	t      *testing.T
	files  *capabilitytest.SessionFiles
	dir    string // the workspace
	state  string // Remit's own folder
	box    *linux.Box
	policy string
}

func newWorld(t *testing.T, policy string, content map[string]string) *world {
	t.Helper()
	w := &world{t: t, files: &capabilitytest.SessionFiles{}, policy: policy}
	for _, at := range []*string{&w.dir, &w.state} {
		dir, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		*at = dir
	}
	w.box = linux.New(linux.Config{Getenv: os.LookupEnv, State: w.state})
	t.Cleanup(func() {
		if err := w.box.Close(); err != nil {
			t.Error(err)
		}
		if left, err := filepath.Glob(filepath.Join(w.state, "boxes", "*")); err != nil || len(left) > 0 {
			t.Errorf("folders are left: %v, %v", left, err)
		}
	})
	for name, text := range content {
		w.write(name, text)
	}
	return w
}

func (w *world) permit() permit.Permit {
	w.t.Helper()
	pol, err := policy.Parse("policy.yaml", []byte(w.policy))
	if err != nil {
		w.t.Fatal(err)
	}
	path := []string{"/usr/local/bin", "/usr/bin", "/bin"}
	rules, err := pol.Bind(policy.Env{Workspace: w.dir, State: w.state, Path: path})
	if err != nil {
		w.t.Fatal(err)
	}
	chain := policy.Chain{rules}
	return permit.Mint(permit.Terms{Chain: chain, Env: tool.Env{Workspace: w.dir, Path: path}, Limits: chain.Limits()})
}

func (w *world) write(name, text string) {
	w.t.Helper()
	if _, _, err := w.files.Write(w.t.Context(), w.permit(), name, []byte(text), 0); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) read(name string) string {
	w.t.Helper()
	b, _, err := w.files.Read(w.t.Context(), w.permit(), name)
	if err != nil {
		return "(" + fault.CodeOf(err).Error() + ")"
	}
	return string(b)
}

func (w *world) tool() permit.Tool {
	w.t.Helper()
	part, err := codebox.New(w.box).Part(capability.Session{Files: w.files}, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return part.Tools[0].Tool
}

func (w *world) run(language, code string, more ...any) (map[string]any, error) {
	w.t.Helper()
	args := tool.Args{"language": language, "code": code}
	for i := 0; i+1 < len(more); i += 2 {
		args[more[i].(string)] = more[i+1]
	}
	res, err := permittest.Run(w.t.Context(), w.tool(), w.permit(), args)
	return res.Output, err
}

// has skips where an interpreter is not installed.
func has(t *testing.T, program string) {
	t.Helper()
	for _, dir := range []string{"/usr/local/bin", "/usr/bin", "/bin"} {
		if _, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
			return
		}
	}
	t.Skipf("%s is not installed", program)
}

func TestConformance(t *testing.T) {
	box := linux.New(linux.Config{Getenv: os.LookupEnv, State: t.TempDir()})
	t.Cleanup(func() { _ = box.Close() })
	capabilitytest.Capability(t, codebox.New(box), capabilitytest.Case{World: permittest.World{Policy: all}, Varying: true, // durations
		Session: func() capability.Session { return capability.Session{Files: &capabilitytest.SessionFiles{}} },
		Calls:   map[string][]tool.Args{"execute_code": {{"language": "shell", "code": "echo hello; echo made > made"}}}})
}

func TestLanguages(t *testing.T) {
	for language, tt := range map[string]struct{ program, code string }{
		"shell":      {"sh", `read line; echo "$line $1 $(cat in.txt)" > out.txt; pwd; echo err >&2`},
		"python":     {"python3", "import sys, os, helper\nopen('out.txt','w').write(helper.join(input(), sys.argv[1], open('in.txt').read()))\nprint(os.getcwd()); print('err', file=sys.stderr)"},
		"javascript": {"node", "const fs=require('fs'); const h=require('./helper.js'); fs.writeFileSync('out.txt', h(fs.readFileSync(0,'utf8').trim(), process.argv[2], fs.readFileSync('in.txt')));\nconsole.log(process.cwd()); console.error('err')"},
	} {
		t.Run(language, func(t *testing.T) {
			has(t, tt.program)
			w := newWorld(t, all, map[string]string{"/in.txt": "file", "/helper.py": "def join(*a): return ' '.join(a) + '\\n'", "/helper.js": "module.exports = (...a) => a.join(' ') + '\\n'"})
			out, err := w.run(language, tt.code, "stdin", "line\n", "args", []any{"arg"})
			if err != nil || out["stdout"] != "/session\n" || out["stderr"] != "err\n" || out["exit_code"] != 0 {
				t.Fatalf("got %v, %v", out, err)
			}
			if got := w.read("/out.txt"); got != "line arg file\n" {
				t.Errorf("the file holds %q", got)
			}
			if !reflect.DeepEqual(out["created"], []any{"/out.txt"}) || len(out["changed"].([]any))+len(out["deleted"].([]any))+len(out["not_taken"].([]any)) > 0 {
				t.Errorf("got %v", out)
			}
		})
	}
}

func TestChangesAreTakenBack(t *testing.T) {
	w := newWorld(t, all, map[string]string{"/keep": "keep", "/change": "old", "/gone": "x", "/d/gone": "x", "/turn": "file"})
	out, err := w.run("shell", "echo new > change; rm -r gone d turn; mkdir -p a/b turn; echo made > a/b/c; echo in > turn/x; printf '\\0\\1' > bin; exit 3")
	if fault.CodeOf(err) != fault.ToolFailed || out["exit_code"] != 3 {
		t.Fatalf("got %v, %v", out, err)
	}
	for field, want := range map[string][]any{"created": {"/a/b/c", "/bin", "/turn/x"}, "changed": {"/change"}, "deleted": {"/d/gone", "/gone", "/turn"}, "conflicts": {}, "not_taken": {}} {
		if !reflect.DeepEqual(out[field], want) {
			t.Errorf("%s is %v, want %v", field, out[field], want)
		}
	}
	for name, want := range map[string]string{"/keep": "keep", "/change": "new\n", "/a/b/c": "made\n", "/turn/x": "in\n", "/bin": "\x00\x01", "/gone": "(E2009)", "/.execute_code.sh": "(E2009)"} {
		if got := w.read(name); got != want {
			t.Errorf("%s holds %q, want %q", name, got, want)
		}
	}
	if f, err := w.files.Stat(t.Context(), w.permit(), "/keep"); err != nil || f.Version != 1 {
		t.Errorf("what was not changed has a new version: %v, %v", f, err)
	}
}

// meddler is a box during whose runs somebody else writes to the session's files.
type meddler struct {
	*linux.Box
	during func()
}

func (m meddler) Run(ctx context.Context, p permit.Permit, c sandbox.Command) (sandbox.Outcome, error) {
	out, err := m.Box.Run(ctx, p, c)
	m.during()
	return out, err
}

func TestTheSessionsOwnVersionWins(t *testing.T) {
	w := newWorld(t, all, map[string]string{"/both": "1", "/gone": "1", "/mine": "1", "/dropped": "1"})
	part, err := codebox.New(meddler{w.box, func() {
		w.write("/both", "theirs")
		w.write("/gone", "theirs")
		w.write("/new", "theirs")
		if _, err := w.files.Delete(t.Context(), w.permit(), "/dropped", false); err != nil {
			t.Error(err)
		}
	}}).Part(capability.Session{Files: w.files}, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := permittest.Run(t.Context(), part.Tools[0].Tool, w.permit(), tool.Args{"language": "shell", "code": "echo ours | tee both new mine > dropped; rm gone"})
	if err != nil {
		t.Fatal(err)
	}
	var conflicts []string
	for _, c := range res.Output["conflicts"].([]any) {
		conflicts = append(conflicts, c.(map[string]any)["path"].(string))
	}
	slices.Sort(conflicts)
	if want := []string{"/both", "/dropped", "/gone", "/new"}; !reflect.DeepEqual(conflicts, want) || !reflect.DeepEqual(res.Output["changed"], []any{"/mine"}) {
		t.Errorf("got %v", res.Output)
	}
	for name, want := range map[string]string{"/both": "theirs", "/gone": "theirs", "/new": "theirs", "/mine": "ours\n", "/dropped": "(E2009)"} {
		if got := w.read(name); got != want {
			t.Errorf("%s holds %q, want %q", name, got, want)
		}
	}
}

func TestWhatIsNotTaken(t *testing.T) {
	has(t, "python3")
	w := newWorld(t, all, map[string]string{"/secret": "session", "/d/x": "x"})
	out, err := w.run("python", `
import os
os.symlink("/etc/passwd", "link")
os.symlink("../..", "up")
os.remove("secret"); os.symlink("/etc/hostname", "secret")
os.mkfifo("fifo")
os.link("d/x", "hard")
os.mkdir("__pycache__"); open("__pycache__/m.pyc","w").write("x")
open(b"bad\xff", "w").write("x")
open("evil\u202ename", "w").write("x")
open("line\nbreak", "w").write("x")
open("ok", "w").write("ok")
`)
	if err != nil {
		t.Fatal(err)
	}
	var refused []string
	for _, c := range out["not_taken"].([]any) {
		refused = append(refused, c.(map[string]any)["path"].(string))
	}
	slices.Sort(refused)
	want := []string{"/bad\uFFFD", "/evil\u202ename", "/fifo", "/line\nbreak", "/link", "/secret", "/up"}
	if !reflect.DeepEqual(refused, want) || !reflect.DeepEqual(out["created"], []any{"/hard", "/ok"}) || len(out["deleted"].([]any)) > 0 {
		t.Errorf("not taken: %q, want %q; %v", refused, want, out)
	}
	if w.read("/secret") != "session" || w.read("/hard") != "x" {
		t.Errorf("the session's files: %q, %q", w.read("/secret"), w.read("/hard"))
	}
}

// TestEscapes tries to get out of the session's files. Each attempt has a
// positive control: the same, where it is allowed, works.
func TestEscapes(t *testing.T) {
	has(t, "python3")
	w := newWorld(t, all, nil)
	secret := filepath.Join(w.dir, "secret.txt")
	if err := os.WriteFile(secret, []byte("canary-17"), 0o666); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(w.state, "keys.txt")
	if err := os.WriteFile(own, []byte("canary-18"), 0o666); err != nil {
		t.Fatal(err)
	}
	for name, code := range map[string]string{
		"read the workspace, which the policy allows": "cat " + secret,
		"read Remit's own folder":                     "cat " + own,
		"climb out":                                   "cat ../../.." + secret + " ..//.." + own,
		"through /proc":                               "cat /proc/1/root" + secret + " /proc/self/root" + secret + " /proc/self/cwd/../.." + secret,
		"through a link":                              "ln -s " + secret + " l; cat l; ln -s " + w.dir + " d; cat d/secret.txt",
		"through a hard link":                         "ln " + secret + " h; cat h",
		"list what is outside":                        "find / -name secret.txt -o -name keys.txt | grep txt; ls " + w.dir,
	} {
		t.Run(name, func(t *testing.T) {
			out, _ := w.run("shell", code) // that it fails is as good
			text := fmt.Sprint(out["stdout"])
			if strings.Contains(text, "canary") || strings.Contains(text, "secret.txt\n") {
				t.Errorf("it got out: %v", out)
			}
		})
	}
	for name, code := range map[string]string{
		"write to the workspace":   "echo x > " + filepath.Join(w.dir, "made"),
		"write through a link":     "ln -s " + w.dir + " d2; echo x > d2/made; echo x > d2/secret.txt",
		"write to the system":      "echo x > /usr/bin/made; echo x > /etc/made; echo x > /session/../made",
		"write to the real folder": "for d in /proc/*/root /proc/*/cwd; do echo x > $d" + filepath.Join(w.dir, "made") + "; done",
		"remount and device":       "mount -o remount,rw / ; mknod dev b 7 0; chroot / sh -c 'echo x > " + filepath.Join(w.dir, "made") + "'",
	} {
		t.Run(name, func(t *testing.T) {
			_, _ = w.run("shell", code)
			if _, err := os.Lstat(filepath.Join(w.dir, "made")); err == nil {
				t.Error("it wrote outside")
			}
			if b, err := os.ReadFile(secret); err != nil || string(b) != "canary-17" {
				t.Errorf("the file holds %q, %v", b, err)
			}
		})
	}
	t.Run("control: the probe reads what is there", func(t *testing.T) {
		w.write("/secret.txt", "canary-17")
		if out, err := w.run("shell", "cat secret.txt; ln -s secret.txt l3; cat l3"); err != nil || out["stdout"] != "canary-17canary-17" {
			t.Errorf("got %v, %v", out, err)
		}
	})
}

func TestNoNetworkWithoutPermission(t *testing.T) {
	has(t, "python3")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	met := make(chan struct{}, 16)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			met <- struct{}{}
			_ = c.Close()
		}
	}()
	code := fmt.Sprintf("import socket\ns = socket.create_connection(('127.0.0.1', %d), 5)\nprint('connected')", l.Addr().(*net.TCPAddr).Port)
	w := newWorld(t, all, nil)
	if out, err := w.run("python", code); err == nil || strings.Contains(fmt.Sprint(out["stdout"]), "connected") {
		t.Errorf("got %v, %v", out, err)
	}
	select {
	case <-met:
		t.Error("somebody came")
	default:
	}
	// The control: the same program, not confined.
	if b, err := exec.Command("/usr/bin/python3", "-c", code).CombinedOutput(); err != nil || !strings.Contains(string(b), "connected") {
		t.Errorf("the probe does not work: %s, %v", b, err)
	}
}

func TestThePolicyDecidesInterpreters(t *testing.T) {
	w := newWorld(t, "version: 1\ncommands: {allow: ['python3 .execute_code.py']}\n", nil)
	tl := w.tool()
	actions, err := permittest.Actions(tl, tool.Env{Workspace: w.dir}, tool.Args{"language": "python", "code": "x", "args": []any{"-v"}})
	if want := []tool.Action{{Kind: tool.Command, Argv: []string{"python3", ".execute_code.py", "-v"}, Dir: "/session"}}; err != nil || !reflect.DeepEqual(actions, want) {
		t.Errorf("got %v, %v", actions, err)
	}
	for language, argv := range map[string]string{"shell": "sh .execute_code.sh", "javascript": "node .execute_code.js"} {
		has(t, strings.Fields(argv)[0])
		if out, err := w.run(language, "1"); fault.CodeOf(err) != fault.HandleRefused {
			t.Errorf("%s: %v, %v", language, out, err)
		}
	}
	if out, err := w.run("python", "print(1)", "args", []any{"-v"}); fault.CodeOf(err) != fault.HandleRefused {
		t.Errorf("another argument: %v, %v", out, err)
	}
	has(t, "python3")
	if out, err := w.run("python", "print(1)"); err != nil || out["stdout"] != "1\n" {
		t.Errorf("what is allowed: %v, %v", out, err)
	}
}

func TestLimits(t *testing.T) {
	w := newWorld(t, all, nil)
	begin := time.Now()
	out, err := w.run("shell", "echo kept > kept; sleep 100", "timeout_seconds", json.Number("0.5"))
	if fault.CodeOf(err) != fault.ToolTimeout || out["timed_out"] != true || w.read("/kept") != "kept\n" || time.Since(begin) > 30*time.Second {
		t.Errorf("out of time: %v, %v", out, err)
	}
	out, err = w.run("shell", "i=0; while true; do i=$((i+1)); head -c 20000000 /dev/zero > f$i || exit; done")
	if code := fault.CodeOf(err); code != fault.ToolFailed && code != fault.LimitReached {
		t.Errorf("too much on the disk: %v, %v", out, err)
	}
	out, err = w.run("shell", "yes | head -c 5000000")
	if info, _ := out["stdout_info"].(map[string]any); err != nil || info["truncated"] != true {
		t.Errorf("much output: %v, %v", info, err)
	}
}

func TestMissingInterpreter(t *testing.T) {
	w := newWorld(t, all, nil)
	p := w.permit()
	p = permit.Mint(permit.Terms{Chain: p.Chain(), Env: p.Env(), Limits: policy.Limits{Path: []string{t.TempDir()}}})
	_, err := permittest.Run(t.Context(), w.tool(), p, tool.Args{"language": "javascript", "code": "1"})
	if fault.CodeOf(err) != fault.NotFound || !strings.Contains(err.Error(), `no command "node"`) {
		t.Errorf("got %v", err)
	}
}

// What is in a folder that cannot be looked into is not taken for deleted.
func TestAFolderThatIsShut(t *testing.T) {
	w := newWorld(t, all, map[string]string{"/d/x": "x"})
	out, err := w.run("shell", "chmod 000 d")
	if err != nil || len(out["deleted"].([]any)) > 0 || w.read("/d/x") != "x" {
		t.Errorf("got %v, %v; the file holds %q", out, err, w.read("/d/x"))
	}
}

// png is a Python program that writes a PNG without any library.
const png = `import zlib, struct
def part(kind, data): return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
open("plot.png", "wb").write(b"\x89PNG\r\n\x1a\n" + part(b"IHDR", struct.pack(">IIBBBBB", 2, 2, 8, 2, 0, 0, 0)) + part(b"IDAT", zlib.compress(bytes(14))) + part(b"IEND", b""))
open("not.png", "w").write("<svg onload=x>")
`

func TestPlotsAreInTheOutput(t *testing.T) {
	has(t, "python3")
	w := newWorld(t, all, nil)
	out, err := w.run("python", png)
	if err != nil {
		t.Fatal(err)
	}
	list, _ := out["images"].([]any)
	if len(list) != 1 {
		t.Fatalf("the images are %v", list)
	}
	one := list[0].(map[string]any)
	content, err := base64.StdEncoding.DecodeString(one["content_base64"].(string))
	if err != nil || one["path"] != "/plot.png" || string(content) != w.read("/plot.png") {
		t.Errorf("got %v, %v", one, err)
	}
	if out, err = w.run("python", "print(1)"); err != nil || out["images"] != nil {
		t.Errorf("an image that was there before: %v, %v", out["images"], err)
	}
}

func TestPlotsWithoutRoomAreNamedOnly(t *testing.T) {
	has(t, "python3")
	w := newWorld(t, all, nil)
	out, err := w.run("python", `for i in range(25): open("p%02d.png" % i, "wb").write(b"\x89PNG\r\n\x1a\n" + bytes(1 << 20))`)
	if err != nil {
		t.Fatal(err)
	}
	list, whole := out["images"].([]any), 0
	for _, one := range list {
		if _, ok := one.(map[string]any)["content_base64"]; ok {
			whole++
		}
	}
	if len(list) != 20 || whole != 7 {
		t.Errorf("%d images are listed, %d with their bytes", len(list), whole)
	}
}
