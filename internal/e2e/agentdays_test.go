package e2e_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"
)

// day is the honest work of one agent in one project, read from testdata/days.
type day struct {
	Needs   []string          // programs; a machine without one of them skips the day
	Commits []dayCommit       // the project's Git history
	Files   map[string]string // of the project, not in its history
	Setup   []string          // commands that finish the project
	Shared  bool              // the steps of shared/shell.yaml follow
	Steps   []dayStep
}

type dayCommit struct {
	Message string
	Files   map[string]string
}

// dayStep is one tool call, and what must hold after it. @ROOT@ is the project's folder and @PORT@
// a free port of the play.
type dayStep struct {
	Sh, Read, Write, Edit, Grep, Glob string // one of them
	Text, New                         string // what Write writes; what Edit puts in the place of Text
	Background                        bool   // Sh continues while the next steps run
	Only                              []string
	Status                            int               // exit status of Sh
	Says, Never                       string            // parts of the output
	Times                             bool              // counts for the ratio of warm test runs
	Fault                             map[string]string // hook or exec: why this step does not work there yet
}

// dayMode is a way to play a day. The mode without Remit is the baseline of its agent.
type dayMode struct {
	name, agent string
	hook, exec  bool
}

var dayModes = []dayMode{
	{name: "shell", agent: "shell"},
	{name: "claude-hook", agent: "claude", hook: true},
	{name: "claude-exec", agent: "claude", exec: true},
	{name: "codex-hook", agent: "codex", hook: true},
	{name: "codex-exec", agent: "codex", exec: true},
	{name: "opencode-exec", agent: "opencode", exec: true},
}

// dayResult is the outcome of one step.
type dayResult struct {
	Step    int
	Call    string
	Output  string
	Verdict string // "", "refused", "asked", "broken"
	Took    time.Duration
}

// dayPlay is a day as one agent played it.
type dayPlay struct {
	Results []dayResult
	Took    time.Duration
}

func (p dayPlay) count(verdict string) (n int) {
	for _, r := range p.Results {
		if r.Verdict == verdict {
			n++
		}
	}
	return n
}

// TestRealAgentDays plays whole days of honest work: each with a plain shell, and with real agents
// without Remit and with it. One day in one mode: -run TestRealAgentDays/go/claude-hook.
func TestRealAgentDays(t *testing.T) {
	if os.Getenv("REMIT_DAYS") == "" {
		t.Skip("days take an hour: make agents plays them, with REMIT_DAYS, the folder of their results")
	}
	files, err := filepath.Glob("testdata/days/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no days: %v", err)
	}
	var table []string
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			d := readDay(t, file)
			template, bare := dayTemplate(t, d), map[string]dayPlay{}
			for _, m := range dayModes {
				t.Run(m.name, func(t *testing.T) {
					table = append(table, compareDay(t, name, d, m, template, bare))
				})
			}
		})
	}
	t.Logf("\n| day | mode | commands | refused wrongly | broken | asked | seconds | beside the bare agent | warm tests |\n"+
		"| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n%s", strings.Join(table, "\n"))
}

func readDay(t *testing.T, file string) (d day) {
	t.Helper()
	load(t, file, &d)
	if d.Shared {
		var more []dayStep
		load(t, "testdata/days/shared/shell.yaml", &more)
		d.Steps = append(d.Steps, more...)
	}
	for _, program := range d.Needs {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed", program)
		}
	}
	return d
}

func load(t *testing.T, file string, into any) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Load(b, into, yaml.WithKnownFields())
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// dayFolder makes a folder outside of /tmp, as the projects of people are.
func dayFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "remit-day-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// Go's module cache is read-only.
		_ = exec.Command("chmod", "-R", "u+w", dir).Run()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// dayTemplate makes a home with the project, which each play copies.
func dayTemplate(t *testing.T, d day) string {
	t.Helper()
	w := worldIn(t, dayFolder(t)).durability("process")
	w.write("../.gitconfig", "[user]\n\tname = Ann\n\temail = ann@example.com\n[init]\n\tdefaultBranch = main\n")
	w.write("../.npmrc", "audit=false\nfund=false\nupdate-notifier=false\n")
	if slices.Contains(d.Needs, "cargo") {
		w.rust(t)
	}
	w.dayShell(t, "git init -q")
	for _, c := range d.Commits {
		for name, text := range c.Files {
			w.write(name, text)
		}
		w.dayShell(t, fmt.Sprintf("git add -A && git commit -qm '%s'", c.Message))
	}
	for name, text := range d.Files {
		w.write(name, text)
	}
	for _, script := range d.Setup {
		w.dayShell(t, script)
	}
	return filepath.Dir(w.workspace)
}

// dayShell runs a script of the template, which must work.
func (w *world) dayShell(t *testing.T, script string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "bash", "-c", script)
	c.Dir, c.Env = w.workspace, w.dayEnviron()
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// dayPath is the PATH of a person who has installed toolchains.
func (w *world) dayPath() string {
	return filepath.Join(filepath.Dir(w.workspace), ".cargo", "bin") + ":/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin"
}

// rust gives the person the machine's Rust, as rustup installs it.
func (w *world) rust(t *testing.T) {
	t.Helper()
	sysroot, err := exec.CommandContext(t.Context(), "rustc", "--print", "sysroot").Output()
	if err != nil {
		return
	}
	program, err := exec.LookPath("rustup")
	if err != nil {
		return
	}
	w.dayShell(t, fmt.Sprintf("mkdir -p ~/.rustup/toolchains ~/.cargo && cp -a '%s' ~/.cargo/bin && cp -al '%s' ~/.rustup/toolchains/stable-x86_64-unknown-linux-gnu",
		filepath.Dir(program), strings.TrimSpace(string(sysroot))))
	w.write("../.rustup/settings.toml", "version = \"12\"\ndefault_toolchain = \"stable-x86_64-unknown-linux-gnu\"\nprofile = \"default\"\n")
}

func (w *world) dayEnviron() []string {
	return append(w.environ(), "PATH="+w.dayPath(), "LANG=C.UTF-8", "SHELL=/bin/bash", "LOGNAME=ann", "TERM=xterm-256color")
}

// newPlay copies the template into a world of its own.
func newPlay(t *testing.T, d day, template string) *world {
	t.Helper()
	dir := dayFolder(t)
	if out, err := exec.CommandContext(t.Context(), "bash", "-c", `cd "$1" && tar -c --exclude=./.rustup --exclude=./.cargo . | tar -x -C "$2"`, "bash", template, dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	w := worldIn(t, dir)
	w.write("../.profile", "export PATH="+w.dayPath()+"\n")
	if slices.Contains(d.Needs, "cargo") {
		w.rust(t)
	}
	w.dayShell(t, "git status --short") // Git looks at copied files anew, once
	return w
}

// compareDay plays a day by the bare agent and under Remit, reports each step that went wrong, and
// gives the row of the table.
func compareDay(t *testing.T, name string, d day, m dayMode, template string, bare map[string]dayPlay) string {
	t.Helper()
	d.Steps = slices.DeleteFunc(slices.Clone(d.Steps), func(s dayStep) bool { return len(s.Only) > 0 && !slices.Contains(s.Only, m.agent) })
	base, ok := bare[m.agent]
	if !ok {
		base = playDay(t, d, dayMode{name: m.agent, agent: m.agent}, template)
		bare[m.agent] = base
		for i, r := range base.Results {
			if r.Verdict == "" {
				continue
			}
			t.Logf("step %d does not work without Remit: %s\n%s", i, r.Call, ends(r.Output))
			if m.agent == "shell" { // agents have refusals of their own: Codex of rm -f
				t.Errorf("step %d is wrong", i)
			}
		}
		keepDay(t, name, m.agent, base)
	}
	if !m.hook && !m.exec {
		return fmt.Sprintf("| %s | %s | %d | | %d | | %.0f | | |", name, m.name, len(base.Results), base.count("broken"), base.Took.Seconds())
	}
	p := playDay(t, d, m, template)
	keepDay(t, name, m.name, p)
	refused, broken, unknown := 0, 0, 0 // unknown: refused, and not listed as a fault
	for i, r := range p.Results {
		if base.Results[i].Verdict != "" {
			continue
		}
		fault := d.Steps[i].Fault[map[bool]string{true: "hook", false: "exec"}[m.hook]]
		switch {
		case r.Verdict == "" && fault != "":
			t.Errorf("step %d works again; remove its fault: %s", i, r.Call)
		case r.Verdict == "refused":
			refused++
		case r.Verdict == "broken":
			broken++
		}
		if r.Verdict == "" {
			continue
		}
		if r.Verdict == "refused" && fault == "" {
			unknown++
		}
		t.Logf("step %d %s (known: %q): %s\n%s", i, r.Verdict, fault, r.Call, ends(r.Output))
		if r.Verdict == "broken" && fault == "" {
			t.Errorf("step %d is broken", i)
		}
	}
	if part := float64(unknown) / float64(len(p.Results)); part > 0.005 {
		t.Errorf("%d of %d calls were refused wrongly; the bar is 0.5 %%", unknown, len(p.Results))
	}
	return fmt.Sprintf("| %s | %s | %d | %d | %d | %d | %.0f | %.2f | %s |", name, m.name, len(p.Results), refused, broken, p.count("asked"),
		p.Took.Seconds(), p.Took.Seconds()/base.Took.Seconds(), warmRatio(d, base, p))
}

// warmRatio is the time of the warm test runs beside that without Remit.
func warmRatio(d day, base, p dayPlay) string {
	var without, with time.Duration
	for i, s := range d.Steps {
		if s.Times {
			without += base.Results[i].Took
			with += p.Results[i].Took
		}
	}
	if without == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", with.Seconds()/without.Seconds())
}

func ends(s string) string {
	if len(s) > 1200 {
		return s[:600] + "\n[…]\n" + s[len(s)-600:]
	}
	return s
}

// keepDay writes all results of a play to a file in $REMIT_DAYS.
func keepDay(t *testing.T, name, mode string, p dayPlay) {
	t.Helper()
	dir := os.Getenv("REMIT_DAYS")
	b, err := json.MarshalIndent(p, "", " ")
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+"-"+mode+".json"), b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// playDay has one agent process play a day.
func playDay(t *testing.T, d day, m dayMode, template string) dayPlay {
	t.Helper()
	program := ""
	if m.agent != "shell" {
		program = agentProgram(t, m.agent)
	}
	w := newPlay(t, d, template)
	if (m.hook || m.exec) && !w.confines() {
		missing(t, "this machine cannot confine")
	}
	d = d.in(w.workspace, freePort(t))
	if m.agent == "shell" {
		return shellDay(t, w, d)
	}
	w.mkdir(filepath.Join(filepath.Dir(w.workspace), "."+m.agent))
	player := dayPlayers[m.agent]
	s := &scripted{count: player.results, answer: player.turn, limit: 25 * time.Minute}
	for _, step := range d.Steps {
		s.attempts = append(s.attempts, player.call(step))
	}
	times := make([]time.Time, len(s.attempts)+1) // when the result of a step, and so the next call, came
	s.count = func(body map[string]any) []string {
		results := player.results(body)
		if n := len(results); n < len(times) && times[n].IsZero() {
			times[n] = time.Now()
		}
		return results
	}
	srv := httptest.NewServer(s)
	defer srv.Close()
	player.prepare(t, w, srv.URL)
	if m.hook {
		setUpAgent(t, w, m.agent)
		defer w.remit("keeper", "stop")
	}
	args := player.args
	if m.exec {
		args, program = append([]string{"exec", "--agent", m.agent, "--", program}, args...), binary
	}
	start := time.Now()
	out := s.start(t, w, append(w.dayEnviron(), player.environ(srv.URL)...), program, args...)
	p := dayPlay{Took: time.Since(start)}
	if len(s.results) != len(s.attempts) {
		t.Fatalf("%d results of %d calls\n%s", len(s.results), len(s.attempts), out)
	}
	for i, text := range s.results {
		status, known := player.status(text, d.Steps[i].Status)
		r := dayResult{Step: i, Call: d.Steps[i].String(), Output: text, Took: times[i+1].Sub(times[i])}
		r.Verdict = d.Steps[i].verdict(text, status, known)
		p.Results = append(p.Results, r)
	}
	return p
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// in fills in the project's folder and a port.
func (d day) in(root, port string) day {
	r := strings.NewReplacer("@ROOT@", root, "@PORT@", port)
	d.Steps = slices.Clone(d.Steps)
	for i := range d.Steps {
		s := &d.Steps[i]
		for _, text := range []*string{&s.Sh, &s.Read, &s.Write, &s.Edit, &s.Grep, &s.Glob, &s.Text, &s.New, &s.Says, &s.Never} {
			*text = r.Replace(*text)
		}
		for _, name := range []*string{&s.Read, &s.Write, &s.Edit} {
			if *name != "" {
				*name = filepath.Join(root, *name)
			}
		}
	}
	return d
}

func (s dayStep) String() string {
	return cmp.Or(s.Sh, s.shell())
}

// shell is the step as a command, for agents without a tool of that kind.
func (s dayStep) shell() string {
	quoted := func(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
	switch {
	case s.Read != "":
		return "cat " + quoted(s.Read)
	case s.Write != "":
		return "mkdir -p " + quoted(filepath.Dir(s.Write)) + " && printf %s " + quoted(s.Text) + " > " + quoted(s.Write)
	case s.Edit != "":
		return fmt.Sprintf("python3 - %s %s %s <<'EOF'\nimport sys\nname, old, new = sys.argv[1:]\ntext = open(name).read()\nassert text.count(old) == 1, text\nopen(name, 'w').write(text.replace(old, new))\nEOF",
			quoted(s.Edit), quoted(s.Text), quoted(s.New))
	case s.Grep != "":
		return "grep -rn --exclude-dir=.git --exclude-dir=node_modules -e " + quoted(s.Grep) + " ."
	case s.Glob != "":
		return "git ls-files -co --exclude-standard -- " + quoted(":(glob)"+s.Glob)
	}
	return s.Sh
}

// refusals are the words that Remit refuses a call with.
var refusals = regexp.MustCompile(`remit: |✗ refused|E1001|E1[0-9]{3} `)

// verdict compares the result of a step with what must hold.
func (s dayStep) verdict(text string, status int, known bool) string {
	good := strings.Contains(text, s.Says) && (s.Never == "" || !strings.Contains(text, s.Never))
	if s.Sh != "" && !s.Background && known {
		good = good && status == s.Status
	} else if known && status != 0 {
		good = false
	}
	switch {
	case good:
		return ""
	case strings.Contains(text, "remit approvals") || strings.Contains(text, "requested permissions"):
		return "asked"
	case refusals.MatchString(text):
		return "refused"
	}
	return "broken"
}

// shellDay plays a day with a plain shell: what the steps must do is true without any agent.
func shellDay(t *testing.T, w *world, d day) dayPlay {
	t.Helper()
	start := time.Now()
	var p dayPlay
	for i, s := range d.Steps {
		began := time.Now()
		text, status := w.dayCommand(t, s)
		p.Results = append(p.Results, dayResult{i, s.String(), text, s.verdict(text, status, true), time.Since(began)})
	}
	p.Took = time.Since(start)
	return p
}

func (w *world) dayCommand(t *testing.T, s dayStep) (string, int) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	script := s.shell()
	if s.Background {
		script = "{ " + script + "\n} >/dev/null 2>&1 </dev/null &"
	}
	c := exec.CommandContext(ctx, "bash", "-c", script)
	c.Dir, c.Env, c.WaitDelay = w.workspace, w.dayEnviron(), time.Second
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		t.Fatalf("%s: %v", script, err)
	}
	return out.String(), c.ProcessState.ExitCode()
}

// dayPlayer is how a scripted model speaks with one agent.
type dayPlayer struct {
	call    func(dayStep) attempt
	results func(body map[string]any) []string
	turn    func(n int, a *attempt) []sse
	status  func(text string, want int) (status int, known bool)
	prepare func(t *testing.T, w *world, url string)
	environ func(url string) []string
	args    []string
}

var dayPlayers = map[string]dayPlayer{
	"claude": {
		call: claudeCall, results: claudeResults, turn: claudeTurn,
		status:  claudeExit,
		prepare: func(*testing.T, *world, string) {},
		environ: func(url string) []string {
			return []string{"ANTHROPIC_BASE_URL=" + url, "ANTHROPIC_API_KEY=k", "DISABLE_TELEMETRY=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "IS_SANDBOX=1"}
		},
		args: []string{"-p", "go", "--dangerously-skip-permissions"},
	},
	"codex": {
		call: func(s dayStep) attempt {
			wait := 30_000
			if s.Background {
				wait = 1000
			}
			return attempt{name: "exec_command", input: map[string]any{"cmd": s.shell(), "yield_time_ms": wait}}
		},
		results: codexResults, turn: codexTurn,
		status:  func(text string, _ int) (int, bool) { return shownStatus(codexStatus, text) },
		prepare: codexSettings,
		environ: func(url string) []string { return []string{"OPENAI_BASE_URL=" + url} },
		args:    []string{"exec", "--dangerously-bypass-hook-trust", "--dangerously-bypass-approvals-and-sandbox", "--skip-git-repo-check", "go"},
	},
	"opencode": {
		call: opencodeCall, results: claudeResults, turn: claudeTurn,
		status:  func(string, int) (int, bool) { return 0, false }, // it does not show it
		prepare: opencodeSettings,
		environ: opencodeEnviron,
		args:    opencodeArgs,
	},
}

var (
	claudeStatus = regexp.MustCompile(`^(?:\[map\[text:)?(?:Error: )?Exit code (\d+)`)
	codexStatus  = regexp.MustCompile(`(?m)^Process exited with code (\d+)$`)
)

// shownStatus is the exit status in a result.
func shownStatus(re *regexp.Regexp, text string) (status int, known bool) {
	m := re.FindStringSubmatch(text)
	if m == nil {
		return 0, false
	}
	n, err := strconv.Atoi(m[1])
	return n, err == nil
}

// claudeExit is the status of a command of Claude Code, which shows it only of a failure. The
// status 1 of programs such as grep and diff is none to it.
func claudeExit(text string, want int) (status int, known bool) {
	if n, ok := shownStatus(claudeStatus, text); ok {
		return n, true
	}
	return 0, want != 1
}

func claudeCall(s dayStep) attempt {
	switch {
	case s.Read != "":
		return attempt{name: "Read", input: map[string]any{"file_path": s.Read}}
	case s.Write != "":
		return attempt{name: "Write", input: map[string]any{"file_path": s.Write, "content": s.Text}}
	case s.Edit != "":
		return attempt{name: "Edit", input: map[string]any{"file_path": s.Edit, "old_string": s.Text, "new_string": s.New}}
	}
	// Its own search tools are not offered any more.
	input := map[string]any{"command": s.shell(), "description": "x", "timeout": 300_000}
	if s.Background {
		input["run_in_background"] = true
	}
	return attempt{name: "Bash", input: input}
}

func opencodeCall(s dayStep) attempt {
	switch {
	case s.Read != "":
		return attempt{name: "read", input: map[string]any{"filePath": s.Read}}
	case s.Write != "":
		return attempt{name: "write", input: map[string]any{"filePath": s.Write, "content": s.Text}}
	case s.Edit != "":
		return attempt{name: "edit", input: map[string]any{"filePath": s.Edit, "oldString": s.Text, "newString": s.New}}
	case s.Grep != "":
		return attempt{name: "grep", input: map[string]any{"pattern": s.Grep}}
	case s.Glob != "":
		return attempt{name: "glob", input: map[string]any{"pattern": s.Glob}}
	}
	script := s.Sh
	if s.Background {
		script = "{ " + script + "\n} >/dev/null 2>&1 </dev/null &"
	}
	return attempt{name: "bash", input: map[string]any{"command": script, "description": "x", "timeout": 300_000}}
}
