package docs_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/service/home"
)

// TestConsole runs the documents' commands. A fenced block marked `console`
// holds lines that begin with "$ ", each followed by what it prints; a line
// that is only … stands for any lines. A block marked `LANG file=NAME` is
// written to that file first. Each document has a home, /home/ann, with a clone
// of the project in remit, where its commands begin. IDs, times and
// durations may differ. With -update, what differs is written into the document.
func TestConsole(t *testing.T) {
	if !canConfine(t) {
		t.Skip("this machine cannot confine commands, which most documents show")
	}
	for _, name := range []string{"git", "curl", "jq"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not there, which some documents use", name)
		}
	}
	for _, name := range documents(t) {
		if !strings.Contains(read(t, name), "```console") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSession(t)
			text := s.document(name, read(t, name))
			if *update {
				if err := os.WriteFile(filepath.Join(repo, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// session is the shell that one document's commands run in.
type session struct {
	t      *testing.T
	root   string // stands for /home
	dir    string
	status int
	server string            // stands for 127.0.0.1:8080
	own    string            // stands for 127.0.0.1:8642, where remit serve listens
	ids    map[string]string // the document's run IDs, as they are in this session
}

func newSession(t *testing.T) *session {
	root := t.TempDir()
	s := &session{t: t, root: root, dir: filepath.Join(root, "ann", "remit"), ids: map[string]string{}}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"examples", "extensions"} {
		if err := os.CopyFS(filepath.Join(s.dir, folder), os.DirFS(filepath.Join(repo, folder))); err != nil {
			t.Fatal(err)
		}
	}
	srv := httptest.NewServer(service())
	t.Cleanup(srv.Close)
	s.server = strings.TrimPrefix(srv.URL, "http://")
	s.own = freeAddress(t)
	t.Cleanup(s.endServers)
	s.readdress(filepath.Join(s.dir, "examples"))
	return s
}

// freeAddress is one of loopback's on which nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 1000 {
		addr := "127.0.0.1:" + strconv.Itoa(10000+rand.IntN(20000)) // below those that the system gives to who asks for any
		if l, err := net.Listen("tcp", addr); err == nil {
			_ = l.Close()
			return addr
		}
	}
	t.Fatal("no port is free")
	return ""
}

// endServers ends what a document started in the background and did not end
// itself, because a command before failed: its process is in serve.pid.
func (s *session) endServers() {
	b, err := os.ReadFile(filepath.Join(s.root, "ann", "remit", "serve.pid"))
	pid, perr := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || perr != nil {
		return // there is none
	}
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill() // it has ended, as it should have
	}
}

// readdress puts this session's server into the examples' files.
func (s *session) readdress(dir string) {
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.yaml"))
	for _, f := range files {
		b, rerr := os.ReadFile(f)
		err = errors.Join(err, rerr, os.WriteFile(f, []byte(s.real(string(b))), 0o644))
	}
	if err != nil || len(files) == 0 {
		s.t.Fatalf("%d files of examples: %v", len(files), err)
	}
}

// service is the HTTP server that documents talk to.
func service() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/releases/latest", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintln(w, `{"name":"harbour","version":"2.4.0"}`)
	})
	mux.HandleFunc("/v1/redirect", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusFound)
	})
	mux.HandleFunc("POST /hooks/build", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintln(w, "noted")
	})
	return mux
}

// document runs all blocks of a document and gives it with what they printed.
func (s *session) document(name, text string) string {
	lines := strings.Split(text, "\n")
	var out []string
	for i := 0; i < len(lines); i++ {
		out = append(out, lines[i])
		info, fenced := strings.CutPrefix(lines[i], "```")
		if !fenced {
			continue
		}
		first := i + 1
		for i++; i < len(lines) && lines[i] != "```"; i++ {
			continue
		}
		body := lines[first:min(i, len(lines))]
		if _, file, ok := strings.Cut(info, " file="); ok {
			s.write(file, body)
		}
		if info == "console" {
			body = s.block(fmt.Sprintf("%s:%d", name, first), body)
		}
		out = append(append(out, body...), "```")
	}
	return strings.Join(out, "\n")
}

func (s *session) write(file string, body []string) {
	path := filepath.Join(s.dir, file)
	if rest, ok := strings.CutPrefix(file, "~/"); ok {
		path = filepath.Join(s.root, "ann", rest)
	}
	text := s.real(strings.Join(body, "\n") + "\n")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// block runs the commands of one block.
func (s *session) block(where string, body []string) []string {
	var out []string
	for i := 0; i < len(body); {
		cmd, ok := strings.CutPrefix(body[i], "$ ")
		if !ok {
			s.t.Fatalf("%s: %q follows no command", where, body[i])
		}
		for out = append(out, body[i]); strings.HasSuffix(body[i], "\\"); {
			i++
			out = append(out, body[i])
			cmd += "\n" + body[i]
		}
		first := i + 1
		for i++; i < len(body) && !strings.HasPrefix(body[i], "$ "); i++ {
			continue
		}
		want, got := body[first:i], s.command(cmd)
		if err := s.same(want, got); err != nil {
			if !*update || slices.Contains(want, "…") { // what was shortened by hand is corrected by hand
				s.t.Errorf("%s: $ %s\n%v\n--- the document has\n%s\n--- it printed\n%s", where, cmd, err,
					strings.Join(want, "\n"), strings.Join(got, "\n"))
			}
			if got = s.adopt(want, got); !slices.Contains(want, "…") {
				want = got
			}
		}
		out = append(out, want...)
	}
	return out
}

// command runs one command line and gives what it printed.
func (s *session) command(cmd string) []string {
	state := filepath.Join(s.root, "pwd")
	script := fmt.Sprintf("(exit %d)\n%s\nstatus=$?\npwd >%q\nexit $status", s.status, s.real(cmd), state)
	c := exec.Command("/bin/sh", "-c", script)
	c.Dir = s.dir
	home := filepath.Join(s.root, "ann")
	c.Env = []string{"HOME=" + home, "USER=ann", "LANG=C.UTF-8", "LC_ALL=C.UTF-8", "TZ=UTC", "PATH=" + filepath.Dir(binary) + ":" + os.Getenv("PATH"), "GOCACHE=" + goCache}
	raw, err := c.CombinedOutput()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		s.t.Fatalf("%s: %v", cmd, err)
	}
	s.status = c.ProcessState.ExitCode()
	if b, err := os.ReadFile(state); err == nil {
		s.dir = strings.TrimSpace(string(b))
	}
	text := strings.TrimRight(s.shown(string(raw)), "\n")
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	return lines
}

// real puts this session's home, server and run IDs into a document's text.
func (s *session) real(text string) string {
	text = s.swap(text, func(doc, id string) (string, string) { return doc, id })
	return strings.NewReplacer("/home/ann", filepath.Join(s.root, "ann"), "127.0.0.1:8080", s.server, "127.0.0.1:8642", s.own).Replace(text)
}

// swap puts IDs in the place of others, whole ones before their beginnings.
func (s *session) swap(text string, way func(doc, id string) (from, to string)) string {
	var pairs, starts []string
	for doc, id := range s.ids {
		from, to := way(doc, id)
		if len(from) == len(to) && len(from) > short {
			pairs = append(pairs, from, to)
		}
		starts = append(starts, from[:short], to[:short])
	}
	return strings.NewReplacer(append(pairs, starts...)...).Replace(text)
}

// shown is the reverse, but for run IDs.
func (s *session) shown(text string) string {
	return strings.NewReplacer(home.Person()+"\n", "user:ann\n", home.Person()+" ", "user:ann ", s.root, "/home", s.server, "127.0.0.1:8080", s.own, "127.0.0.1:8642").Replace(text)
}

// short is how much of a run's ID remit shows where little room is.
const short = len("01a1fe6f-191d-7e8b")

var (
	runID = regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[78][0-9a-f]{3}(-[0-9a-f]{4}-[0-9a-f]{12})?\b`) // or a grant's, or the beginning that tables show
	vary  = []struct {
		re *regexp.Regexp
		by string
	}{
		{runID, "RUN"},
		{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`), "UUID"},
		{regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}\b`), "GRANT"},
		{regexp.MustCompile(`\b[0-9a-f]{64}\b`), "HASH"},
		{regexp.MustCompile(`sha256:[0-9a-f]{12}\b`), "sha256:SHORT"},
		{regexp.MustCompile(`[A-Za-z0-9+/]{40,}=*`), "BASE64"},
		{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| UTC)?`), "TIME"},
		{regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d( UTC)?\b`), "TIME"}, // the next time of a schedule
		{regexp.MustCompile(`\b[A-Z][a-z][a-z] +\d+ \d\d:\d\d:\d\d`), "TIME"},
		{regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+s left`), "T left"},
		{regexp.MustCompile(`\b\d+(\.\d+)? ?(ns|µs|ms|s|min)\b`), "T"},
		{regexp.MustCompile(`("[a-z_]*_ms": )[0-9.e-]+`), "${1}0"},
		{regexp.MustCompile(`urn:remit:request:[0-9A-Z]+`), "urn:remit:request:ID"},
		{regexp.MustCompile(`[▇·]{8,}`), "BAR"},
		{regexp.MustCompile(`memory \d+ MiB`), "memory N MiB"},
		{regexp.MustCompile(`Landlock +ABI \d+`), "Landlock ABI N"},
		{regexp.MustCompile(`remit \S+ \(go\S+ \S+\)`), "remit VERSION"},
		{regexp.MustCompile(`[ \t]+`), " "},
	}
)

func stable(line string) string {
	for _, v := range vary {
		line = v.re.ReplaceAllString(line, v.by)
	}
	return strings.TrimSpace(line)
}

// same compares what a document says with what was printed, and learns which
// run ID stands for which.
func (s *session) same(want, got []string) error {
	if len(want) == 0 {
		if len(got) == 0 {
			return nil
		}
		return errors.New("the document says nothing of what it prints")
	}
	if len(want) == 1 && want[0] == "…" {
		s.learn(got)
		return nil
	}
	i := 0
	for w := 0; w < len(want); w++ {
		if strings.TrimSpace(want[w]) == "…" {
			if w == len(want)-1 {
				return nil
			}
			for i < len(got) && stable(got[i]) != stable(want[w+1]) {
				i++
			}
			continue
		}
		if i >= len(got) {
			return fmt.Errorf("it does not print: %s", want[w])
		}
		if a, b := stable(want[w]), stable(got[i]); a != b {
			return fmt.Errorf("line %s differs:\n  %s\n  %s", strconv.Itoa(w+1), a, b)
		}
		ids, now := runID.FindAllString(want[w], -1), runID.FindAllString(got[i], -1)
		for k := range min(len(ids), len(now)) {
			s.ids[ids[k]] = now[k]
		}
		i++
	}
	if i < len(got) {
		return fmt.Errorf("it also prints: %s", got[i])
	}
	return nil
}

// learn takes IDs that the document does not show.
func (s *session) learn(got []string) {
	for _, id := range runID.FindAllString(strings.Join(got, "\n"), -1) {
		s.ids[id] = id
	}
}

// adopt gives what was printed with the document's own IDs where it has some,
// in the order of their appearance.
func (s *session) adopt(want, got []string) []string {
	ids, now := distinct(want), distinct(got)
	for i := range min(len(ids), len(now)) {
		s.ids[ids[i]] = now[i]
	}
	text := strings.Join(got, "\n")
	text = s.swap(text, func(doc, id string) (string, string) { return id, doc })
	for _, id := range runID.FindAllString(text, -1) {
		if _, ok := s.ids[id]; !ok {
			s.ids[id] = id
		}
	}
	if len(got) == 0 {
		return nil
	}
	return strings.Split(text, "\n")
}

func distinct(lines []string) []string {
	var out []string
	for _, id := range runID.FindAllString(strings.Join(lines, "\n"), -1) {
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}
