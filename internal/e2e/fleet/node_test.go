// Package fleet_test proves what several nodes on one database promise: real processes that
// are killed and stopped, a real PostgreSQL, and a server that counts effects. It holds no
// production code.
package fleet_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/cli"
	"github.com/remitrun/remit/internal/record/store/postgres/postgrestest"
	"github.com/remitrun/remit/internal/service/home"
)

var database *postgrestest.Server

func TestMain(m *testing.M) {
	if os.Getenv("REMIT_TEST_CLI") != "" {
		os.Exit(cli.Main(context.Background(), os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.Environ(), "dev"))
	}
	if os.Getenv("REMIT_TEST_TIME") != "" {
		fmt.Print(time.Now().Unix())
		os.Exit(0)
	}
	for name, run := range map[string]func(context.Context, string) error{"REMIT_TEST_NODE": serve, "REMIT_TEST_WORKER": carryOut} {
		if dir := os.Getenv(name); dir != "" {
			asChild(dir, run)
		}
	}
	os.Exit(postgrestest.Main(m, func(s *postgrestest.Server) { database = s }))
}

// asChild is a process of a test: it runs until SIGTERM, and ends with the test.
func asChild(dir string, run func(context.Context, string) error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() { // the test ends first
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	if err := run(ctx, dir); err != nil {
		fmt.Println("ended", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve is a node: it says its address, and that for workers.
func serve(ctx context.Context, dir string) (err error) {
	cfg, err := home.FromEnv([]string{"REMIT_HOME=" + filepath.Join(dir, "home"), "REMIT_DB=" + os.Getenv("REMIT_TEST_DB"), "HOME=" + dir, "USER=ann"})
	if err != nil {
		return err
	}
	a, err := app.New(cfg, app.Own{})
	if err != nil {
		return err
	}
	defer func() {
		if cerr := a.Close(); err == nil {
			err = cerr
		}
	}()
	work, err := home.Workspace(filepath.Join(dir, "work"))
	if err != nil {
		return err
	}
	q := app.ServeRequest{Listen: "127.0.0.1:0", Workspace: work, Policy: filepath.Join(dir, "policy.yaml"), Workers: os.Getenv("REMIT_TEST_WORKERS"), Hosts: []string{publicHost},
		Ready: func(v app.Served) { fmt.Println("url", v.URL, v.Workers) }}
	q.Limits.Refused, q.Limits.Rate, q.Limits.Drain = 1e6, 1e6, time.Second
	if q.Limits.Burst, err = strconv.Atoi(os.Getenv("REMIT_TEST_BURST")); err == nil && q.Limits.Burst > 0 {
		q.Limits.Rate = 1e-3 // no further request while a test runs
	}
	return a.Serve(ctx, q)
}

// publicHost is the name by which browsers know the nodes.
const publicHost = "remit.test"

// lease is that of nodes. On a slow machine with a race detector their start can take a second.
const lease = 3 * time.Second

// fleet is nodes on one database, and the server that their calls have effects on.
type fleet struct {
	*testing.T

	db    *postgrestest.Server
	dir   string
	world string       // URL of the server that calls have effects on
	token string       // the admin's
	seen  func(string) // told of each effect before it is answered; may be nil

	workers string // address at which nodes take workers; "": they take none
	clock   string // seconds that the time of day of the next node differs, where clockMoves
	burst   int    // requests that nodes take of a grant at once, and no more later; 0: any number

	mu      sync.Mutex
	effects map[string][]time.Time   // by path
	holds   map[string]chan struct{} // requests to a path wait until it is closed
}

// newFleet makes a home, and a workspace with an agent's script.
func newFleet(t *testing.T, script string) *fleet {
	t.Helper()
	return newFleetOn(t, database, script)
}

// newFleetOn is newFleet on a server of the test's own. Without one the ledger is the file of the home.
func newFleetOn(t *testing.T, db *postgrestest.Server, script string) *fleet {
	t.Helper()
	f := &fleet{T: t, db: db, dir: t.TempDir(), effects: map[string][]time.Time{}, holds: map[string]chan struct{}{}}
	settings := "logs: {level: INFO}\n"
	if db != nil {
		settings = fmt.Sprintf("ledger: {database: %q, lease: %s}\n", shadowed(db.Schema(t, f.dir)), lease)
	}
	world := httptest.NewServer(http.HandlerFunc(f.effect))
	f.world = world.URL
	t.Cleanup(func() {
		f.mu.Lock()
		for _, h := range f.holds {
			close(h)
		}
		clear(f.holds)
		f.mu.Unlock()
		world.CloseClientConnections()
		world.Close()
	})
	for name, text := range map[string]string{
		"home/config.yaml": settings,
		"home/capabilities/world.yaml": "id: world\nname: World\ndescription: acts\nversion: 1\ntools:\n" +
			"  - {tool: http.request, name: act, defaults: {method: POST}}\n  - {tool: fs.write, name: save}\n",
		"work/script.yaml": strings.ReplaceAll(script, "WORLD", world.URL),
		"policy.yaml": "version: 1\nname: fleet\napi: {allow: [\"*\"]}\nmodels: {allow: [\"*\"]}\nnetwork: {allow: [\"" + world.URL + "\"]}\n" +
			"files: {read: {allow: [\"**\"]}, write: {ask: [\"**\"]}}\ndelegate: {actions: [api, files.read, files.write, network, models, tools], to: [\"*\"], depth: 8}\n",
	} {
		file := filepath.Join(f.dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// effect counts a request, and holds it where a test says so.
func (f *fleet) effect(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.effects[r.URL.Path] = append(f.effects[r.URL.Path], time.Now())
	hold, seen := f.holds[r.URL.Path], f.seen
	f.mu.Unlock()
	if seen != nil {
		seen(r.URL.Path)
	}
	if strings.Contains(r.URL.Path, "/"+slow) {
		time.Sleep(time.Second)
	}
	if hold != nil {
		select {
		case <-hold:
		case <-r.Context().Done():
		}
	}
	_, _ = io.WriteString(w, "done") // a client that has gone does not matter
}

func (f *fleet) hold(path string) (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := make(chan struct{})
	f.holds[path] = h
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.holds[path] == h {
			close(h)
			delete(f.holds, path)
		}
	}
}

func (f *fleet) happened(path string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.effects[path])
}

// times gives when the effects of a path happened.
func (f *fleet) times(path string) []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.effects[path])
}

// until waits for a condition. A test that never sees it fails.
func (f *fleet) until(what string, is func() bool) time.Duration {
	f.Helper()
	began := time.Now()
	for !is() {
		if time.Since(began) > time.Minute {
			f.Fatalf("%s: never", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(began)
}

// node is a running node.
type node struct {
	f    *fleet
	url  string
	far  string // where workers join
	cmd  *exec.Cmd
	last string        // that it printed
	over chan struct{} // closed once it has ended

	killed bool // by the test
}

func (n *node) ended() bool {
	select {
	case <-n.over:
		return true
	default:
		return false
	}
}

// start starts a node.
func (f *fleet) start() *node {
	f.Helper()
	n := f.launch("")
	if n.url == "" {
		<-n.over
		f.Fatalf("a node does not begin: %s", n.last)
	}
	return n
}

// launch starts a node on a database, "" for the one of its settings. Without a URL it did not begin.
func (f *fleet) launch(db string) *node {
	f.Helper()
	n := f.child("url ", "REMIT_TEST_NODE="+f.dir, "REMIT_TEST_DB="+db, "REMIT_TEST_WORKERS="+f.workers, "REMIT_TEST_BURST="+strconv.Itoa(f.burst), "REMIT_TEST_CLOCK="+f.clock)
	n.url, n.far, _ = strings.Cut(n.url, " ")
	if n.url == "" {
		return n
	}
	b, err := os.ReadFile(filepath.Join(f.dir, "home", "keys", "admin.token"))
	if err != nil {
		f.Fatal(err)
	}
	f.token = strings.TrimSpace(string(b))
	return n
}

// child starts a process of this test, and waits for the line that says that it is ready.
func (f *fleet) child(ready string, env ...string) *node {
	f.Helper()
	n := &node{f: f, cmd: exec.Command(os.Args[0], "-test.run=^$"), over: make(chan struct{})}
	n.cmd.Env = append(os.Environ(), env...)
	n.cmd.Stderr = os.Stderr
	out, err := n.cmd.StdoutPipe()
	if err == nil {
		_, err = n.cmd.StdinPipe() // it ends with this process
	}
	if err == nil {
		err = n.cmd.Start()
	}
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { n.kill() })
	in := bufio.NewScanner(out)
	for in.Scan() {
		if n.last = in.Text(); strings.HasPrefix(n.last, ready) {
			n.url = strings.TrimPrefix(n.last, ready)
			break
		}
	}
	go func() {
		defer close(n.over)
		for in.Scan() {
			n.last = in.Text()
		}
		_ = n.cmd.Wait() // it may have been killed
	}()
	return n
}

func (n *node) signal(s syscall.Signal) {
	n.f.Helper()
	if err := n.cmd.Process.Signal(s); err != nil {
		n.f.Fatal(err)
	}
}

// kill ends a node with SIGKILL.
func (n *node) kill() {
	_ = n.cmd.Process.Kill() // it may have ended
	<-n.over
}

// ask makes a request of the admin, or with another token.
func (n *node) ask(method, path, body string, token ...string) (int, map[string]any) {
	n.f.Helper()
	headers := map[string]string{"Authorization": "Bearer " + append(token, n.f.token)[0], "Prefer": "respond-async"}
	if body != "" {
		headers["Content-Type"] = "application/json"
	}
	return n.request(method, path, body, headers)
}

// request makes a request, and reads the JSON of the answer.
func (n *node) request(method, path, body string, headers map[string]string) (int, map[string]any) {
	n.f.Helper()
	r, err := http.NewRequestWithContext(n.f.Context(), method, n.url+path, strings.NewReader(body))
	if err != nil {
		n.f.Fatal(err)
	}
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	res := n.f.fetch(r)
	var m map[string]any
	if res.text != "" {
		err = json.Unmarshal([]byte(res.text), &m)
	}
	if err != nil {
		n.f.Fatalf("%s %s: %d %q %v", method, path, res.status, res.text, err)
	}
	return res.status, m
}

// answer is an answer that has been read.
type answer struct {
	status  int
	header  http.Header
	cookies []*http.Cookie
	text    string
}

// fetch makes a request, and reads the answer. It follows no redirects.
func (f *fleet) fetch(r *http.Request) answer {
	f.Helper()
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(r)
	if err != nil {
		f.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		f.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, res.Cookies(), string(text)}
}

// must is ask with a wanted status.
func (n *node) must(want int, method, path, body string) map[string]any {
	n.f.Helper()
	status, m := n.ask(method, path, body)
	if status != want {
		n.f.Fatalf("%s %s: %d, want %d: %v", method, path, status, want, m)
	}
	return m
}

// session makes a session.
func (n *node) session() string {
	n.f.Helper()
	a := n.must(201, "POST", "/v1/agents", `{"name":"Actor","model":"scripted:script.yaml","capabilities":["world"]}`)
	s := n.must(201, "POST", "/v1/sessions", fmt.Sprintf(`{"agent_id":%q}`, a["id"]))
	id, _ := s["id"].(string)
	return id
}

// send sends a message, whose turn goes on.
func (n *node) send(session string) {
	n.f.Helper()
	n.must(202, "POST", "/v1/sessions/"+session+"/messages", `{"content":"go"}`)
}

// state is the recorded state of a session, as a node sees it.
func (n *node) state(session string) string {
	n.f.Helper()
	s, _ := n.must(200, "GET", "/v1/sessions/"+session, "")["status"].(string)
	return s
}

// becomes waits until a session has a state. Where it never has, the test tells in which state it stayed.
func (n *node) becomes(session, want string) {
	n.f.Helper()
	is := ""
	defer func() {
		if n.f.Failed() && is != want {
			n.f.Logf("the session stays %q: %v; its results: %q", is, n.must(200, "GET", "/v1/sessions/"+session, "")["error"], n.results(session))
		}
	}()
	n.f.until("the session becomes "+want, func() bool { is = n.state(session); return is == want })
}

// results are the results of tools in a session, in order.
func (n *node) results(session string) []string {
	n.f.Helper()
	var out []string
	items, _ := n.must(200, "GET", "/v1/sessions/"+session+"/messages?limit=100", "")["items"].([]any)
	for _, i := range items {
		if m, _ := i.(map[string]any); m["role"] == "tool" {
			text, _ := m["content"].(string)
			out = append(out, text)
		}
	}
	return out
}
