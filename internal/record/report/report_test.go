package report_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/base/redact"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/report"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var start = time.Date(2026, 3, 14, 9, 26, 53, 589793000, time.UTC)

// call makes a completed call that began at and took so many microseconds.
func call(index int, id tool.ID, at, took int64, args, output string) report.Call {
	c := report.Call{Call: ledger.Call{
		Index: index, Tool: id, Status: tool.Completed, Effect: policy.Allow, Rule: `files.read.allow[0] "**"`,
		Created: start.Add(time.Duration(at) * time.Microsecond), Duration: time.Duration(took) * time.Microsecond,
		Timeline: []int64{took / 50, took / 10, took * 8 / 10, took * 9 / 10, took},
		Declared: tool.EffectSet(tool.FSRead), Digest: tool.Digest{1, 2, 3},
	}, Loaded: map[string][]byte{ledger.PartArgs: []byte(args)}}
	if output != "" {
		c.Loaded[ledger.PartOutput] = []byte(output)
	}
	return c
}

func denied(c report.Call, rule, refusals string) report.Call {
	c.Status, c.Code, c.Effect, c.Rule = tool.StatusDenied, fault.Denied, policy.Deny, rule
	c.Timeline = []int64{4, -1, -1, 60, 90}
	c.Loaded[ledger.PartError] = []byte("denied: " + rule)
	c.Loaded[ledger.PartRefusals] = []byte(refusals)
	return c
}

func happened(c report.Call, effects string) report.Call {
	c.Loaded[ledger.PartHappened] = []byte(`{"effects":[` + effects + `]}`)
	return c
}

// calls gives calls one by one, as a record does.
func calls(list ...report.Call) iter.Seq2[report.Call, error] {
	return func(yield func(report.Call, error) bool) {
		for _, c := range list {
			if !yield(c, nil) {
				return
			}
		}
	}
}

func build(t *testing.T, d report.Data) report.Report {
	t.Helper()
	r, err := report.Build(d)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// example is an ordinary run with every status.
func example() report.Data {
	d := report.Data{Generated: start.Add(time.Hour), Remit: "v0.1.0", Run: ledger.Run{
		ID: uuid.MustParse("0195d3c4-8f00-7abc-8def-0123456789ab"), Name: "publish-docs", Mode: ledger.Live, Status: "failed",
		Principal: "user:ann", Workspace: "/home/ann/site", Started: start, Ended: start.Add(1843 * time.Millisecond),
		Plan: tool.Digest{0xab}, Policies: []tool.Digest{{0xcd}}, Total: 9,
	}, Parts: map[string][]byte{
		ledger.PartPlan:   []byte("version: 1\nname: publish-docs\ninputs:\n  site: {type: string}\nsteps:\n  - tool: fs.read\n    args: {path: README.md}\n  # ...\n"),
		ledger.PartPolicy: []byte(`[{"name":"docs-writer","file":"remit.yaml","source":"version: 1\nname: docs-writer\nfiles:\n  read:\n    allow: [\"**\"]\n    deny: [\"**/*.bak\"]\n"}]`),
		ledger.PartInputs: []byte(`{"site":"example.com","api_token":"not-for-your-eyes"}`),
	}}
	read := happened(call(1, "fs.read", 2_000, 1_240, `{"path":"README.md"}`, `{"content":"# Site\n\nHello.\n","bytes":15,"sha256":"9f2c"}`), `{"effect":"fs.read","on":"/home/ann/site/README.md","bytes":15}`)
	read.Step, read.Loaded[ledger.PartName] = "readme", []byte("Read the front page")
	bak := denied(call(2, "fs.read", 4_000, 90, `{"path":"secrets/keys.bak"}`, ""), `files.read.deny[0] "**/*.bak"`,
		`[{"effect":"deny","rule":"files.read.deny[0] \"**/*.bak\"","policy":"docs-writer","file":"remit.yaml","line":6,"action":"files.read \"/home/ann/site/secrets/keys.bak\"","reason":"the path matches an entry that denies"}]`)
	get := happened(call(3, "http.get", 8_000, 412_300, `{"url":"https://api.example.com/v1/pages?limit=2","headers":{"Authorization":"Bearer abc"}}`,
		`{"status":200,"headers":{"content-type":"application/json"},"body":"{\n  \"pages\": [1, 2]\n}"}`), `{"effect":"network.http","on":"GET https://api.example.com/v1/pages","bytes":2048}`)
	get.Risk = tool.Medium
	build := happened(call(4, "shell.run", 425_000, 903_000, `{"argv":["go","build","./..."],"cwd":"tools"}`, `{"exit_code":1,"stdout":"","stderr":"main.go:7:2: undefined: x\n"}`),
		`{"effect":"system.exec","on":"go build ./..."},{"effect":"network.http","on":"GET https://proxy.example.com/mod","bytes":300,"received":70000,"address":"203.0.113.7:443","rule":"network.allow[0] \"proxy.example.com\""}`)
	build.Refused = 9
	build.Loaded[ledger.PartAttempts] = []byte(`{"refused":[{"action":"network https://telemetry.example.com","rule":"default","reason":"no entry of network.allow matches","count":4},{"action":"network tcp://192.0.2.1:22","rule":"network.deny[0] \"192.0.2.1\"","reason":"the host matches an entry that denies","count":1}],"more":4}`)
	build.Status, build.Code, build.Risk, build.Rule = tool.Failed, fault.ToolFailed, tool.High, `commands.allow[1] "go build **"`
	build.Loaded[ledger.PartError] = []byte("the command ended with status 1")
	write := happened(call(5, "fs.write", 1_330_000, 3_900, `{"path":"out/index.html","content":"<h1>Hello</h1>\n"}`, `{"bytes":15,"created":true}`), `{"effect":"fs.write","on":"/home/ann/site/out/index.html","bytes":15}`)
	slow := call(6, "http.get", 1_336_000, 500_000, `{"url":"https://slow.example.com/"}`, "")
	slow.Status, slow.Code = tool.TimedOut, fault.ToolTimeout
	slow.Loaded[ledger.PartError] = []byte("no answer within 500 ms")
	push := denied(call(7, "shell.run", 1_838_000, 120, `{"script":"git push --force origin main"}`, ""), `commands.deny[0] "** --force **"`,
		`[{"effect":"deny","rule":"commands.deny[0] \"** --force **\"","policy":"docs-writer","file":"remit.yaml","line":14,"action":"commands git push --force origin main","reason":"the command matches an entry that denies"},{"effect":"ask","rule":"commands.ask[0] \"git push **\"","policy":"docs-writer","file":"remit.yaml","line":13,"action":"commands git push --force origin main","reason":"the command needs an approval"}]`)
	skip := call(8, "fs.delete", 1_840_000, 0, `{"path":"out/old.html"}`, "")
	skip.Status, skip.Timeline = tool.Skipped, nil
	stop := call(9, "fs.grep", 1_841_000, 1_500, `{"path":".","pattern":"(?i)draft"}`, "")
	stop.Status, stop.Code = tool.StatusInterrupted, fault.Interrupted
	d.Calls = calls(read, bak, get, build, write, slow, push, skip, stop)
	return d
}

// evil has hostile bytes wherever a plan, a tool or a policy can put some.
func evil() report.Data {
	const bad = "<script>alert(1)</script></style></title><img src=x onerror=alert(2)>\x1b[2J\u202etxt\u2066\xff\"'`{{.}}\r\n\x00"
	d := example()
	d.Run.Name, d.Run.Principal, d.Run.Workspace, d.Run.Status = bad, bad, bad, "running"
	d.Parts[ledger.PartPlan] = []byte(bad)
	src, err := json.Marshal([]map[string]string{{"name": bad, "file": bad, "source": bad}})
	if err != nil {
		panic(err)
	}
	d.Parts[ledger.PartPolicy] = src
	text, err := json.Marshal(map[string]any{"path": bad, bad: bad, "list": []string{bad}})
	if err != nil {
		panic(err)
	}
	ref, err := json.Marshal([]ledger.Refusal{{Effect: bad, Rule: bad, Policy: bad, File: bad, Action: bad, Reason: bad}})
	if err != nil {
		panic(err)
	}
	c := denied(call(1, tool.ID(bad), 1, 1, string(text), string(text)), bad, string(ref))
	c.Step = bad
	tried, err := json.Marshal(ledger.Attempts{Refused: []tool.Refused{{Action: bad, Rule: bad, Reason: bad, Count: 2}}})
	if err != nil {
		panic(err)
	}
	c.Refused, c.Loaded[ledger.PartAttempts] = 3, tried
	for _, part := range []string{ledger.PartName, ledger.PartError} {
		c.Loaded[part] = []byte(bad)
	}
	raw := call(2, "raw", 2, 2, bad, bad) // no JSON at all
	d.Calls = calls(c, raw)
	return d
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s differs (-want +got); rewrite with -update:\n%s", name, d)
	}
}

// render draws a report in every form.
func render(t *testing.T, d report.Data) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	var b bytes.Buffer
	draw := func(name string, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(name, err)
		}
		out[name] = bytes.Clone(b.Bytes())
		b.Reset()
	}
	draw("txt", report.Text(&b, d, report.Options{}))
	draw("color.txt", report.Text(&b, d, report.Options{Color: true, Width: 120}))
	draw("ascii.txt", report.Text(&b, d, report.Options{ASCII: true, Width: 80}))
	draw("json", report.JSON(&b, d))
	draw("html", report.HTML(&b, d))
	return out
}

func TestGolden(t *testing.T) {
	empty := example()
	empty.Calls, empty.Parts, empty.Run.Ended, empty.Run.Status, empty.Run.Policies = nil, nil, time.Time{}, "running", nil
	for name, d := range map[string]report.Data{"example": example(), "hostile": evil(), "empty": empty} {
		for form, got := range render(t, d) {
			golden(t, name+"."+form, got)
		}
	}
}

func TestHostileTextIsShownNotObeyed(t *testing.T) {
	for form, got := range render(t, evil()) {
		s := string(got)
		if form == "color.txt" { // the report's own colours
			s = regexp.MustCompile(`\x1b\[\d*m`).ReplaceAllString(s, "")
		}
		if !utf8.ValidString(s) {
			t.Errorf("%s: not UTF-8", form)
		}
		for _, c := range []string{"\x1b", "\x00", "\r", "\u202e", "\u2066"} {
			if strings.Contains(s, c) && form != "json" {
				t.Errorf("%s holds %q", form, c)
			}
		}
		if form != "html" {
			continue
		}
		for _, tag := range []string{"<script", "<img", "onerror=alert(2)>"} {
			if strings.Contains(s, tag) {
				t.Errorf("html holds %s", tag)
			}
		}
		if n := strings.Count(s, "</style>"); n != 1 {
			t.Errorf("html ends its style %d times", n)
		}
	}
}

func TestHTMLNeedsNothingElse(t *testing.T) {
	page := string(render(t, example())["html"])
	for _, what := range []string{"<script", "<link", "<iframe", "<img", "src=", "url(", "@import", " style=", " on"} {
		tags := strings.Join(regexp.MustCompile(`<[a-z][^>]*>`).FindAllString(page, -1), "\n")
		where := tags
		if what == "url(" || what == "@import" {
			where = page
		}
		if strings.Contains(where, what) {
			t.Errorf("the page holds %s", what)
		}
	}
	css := regexp.MustCompile(`(?s)<style>(.*?)</style>`).FindStringSubmatch(page)
	sum := sha256.Sum256([]byte(css[1]))
	hash := strings.ReplaceAll(base64.StdEncoding.EncodeToString(sum[:]), "+", "&#43;")
	if !strings.Contains(page, "sha256-"+hash) {
		t.Error("the content security policy does not allow the page's own style")
	}
}

func TestSecretsAreLeftOut(t *testing.T) {
	const secret = "tangerine-dream-1974"
	d := example()
	d.Redactor = redact.New(map[string]string{"RADIO_TOKEN": secret})
	d.Run.Name, d.Run.Principal, d.Run.Workspace = secret, secret, secret
	d.Parts[ledger.PartPlan] = []byte("args: {x: " + secret + "}")
	d.Parts[ledger.PartInputs] = []byte(`{"x":"` + secret + `"}`)
	d.Parts[ledger.PartPolicy] = []byte(`[{"name":"` + secret + `","source":"` + secret + `"}]`)
	c := denied(call(1, "fs.read", 1, 1, `{"path":"`+secret+`"}`, `{"`+secret+`":"`+secret+`"}`), secret,
		`[{"effect":"deny","rule":"`+secret+`","action":"`+secret+`","reason":"`+secret+`"}]`)
	c = happened(c, `{"effect":"fs.read","on":"/`+secret+`"}`)
	c.Step, c.Loaded[ledger.PartName], c.Loaded[ledger.PartError] = secret, []byte(secret), []byte(secret)
	d.Calls = calls(c)
	for form, got := range render(t, d) {
		if bytes.Contains(got, []byte(secret)) {
			t.Errorf("%s holds the secret", form)
		}
	}
	if s := build(t, d).Steps[0]; s.Hashes.Args != "" || s.Hashes.Output != "" {
		t.Error("a hash of what was redacted is part of the report")
	}
}

func TestLargeValuesAreToldBySize(t *testing.T) {
	d := example()
	big := `{"path":"` + strings.Repeat("a", 1<<20) + `"}`
	near := `{"path":"` + strings.Repeat("é", 30_000) + `"}`
	c := call(1, "fs.write", 1, 1, big, near)
	blob := call(2, "fs.read", 2, 2, `{}`, "")
	blob.Parts = map[string]ledger.Part{ledger.PartOutput: {Blob: &ledger.BlobRef{Address: [32]byte{0xfe}, Size: 5 << 20}}}
	d.Calls = calls(c, blob)
	out := render(t, d)
	for form, got := range out {
		if len(got) > 200_000 {
			t.Errorf("%s has %d bytes", form, len(got))
		}
	}
	var rep struct {
		Steps []struct {
			Args   map[string]any
			Output map[string]any
		}
	}
	if err := json.Unmarshal(out["json"], &rep); err != nil {
		t.Fatal(err)
	}
	if got := rep.Steps[0].Args; got["truncated"] != true || got["bytes_total"] != float64(len(big)) {
		t.Errorf("arguments: %v", got)
	}
	if got := rep.Steps[1].Output; got["bytes_total"] != float64(5<<20) || !strings.HasPrefix(got["blob"].(string), "fe00") {
		t.Errorf("output: %v", got)
	}
	if !bytes.Contains(out["html"], []byte("KiB more")) {
		t.Error("html does not say how much of a long field it leaves out")
	}
}

// Pictures of calls are shown as such, and other bytes are not.
func TestPicturesAreShown(t *testing.T) {
	header := func(w, h uint32) string {
		b := binary.BigEndian.AppendUint32([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"), w)
		return base64.StdEncoding.EncodeToString(append(binary.BigEndian.AppendUint32(b, h), "rest"+strings.Repeat("x", report.MaxPart)...))
	}
	png := header(2, 3)
	for name, tt := range map[string]struct {
		tool   tool.ID
		output string
		shown  int
	}{
		"a screenshot":       {"browser.screenshot", `{"content_base64":"` + png + `"}`, 1},
		"no PNG":             {"browser.screenshot", `{"content_base64":"` + base64.StdEncoding.EncodeToString([]byte("<svg onload=x>")) + `"}`, 0},
		"another tool":       {"http.get", `{"content_base64":"` + png + `"}`, 0},
		"plots":              {"sandbox.execute_code", `{"images":[{"path":"/a.png","content_base64":"` + png + `"},{"path":"/b\u202e<b>.png","content_base64":"` + png + `"}]}`, 2},
		"too many pixels":    {"browser.screenshot", `{"content_base64":"` + header(19_999, 19_999) + `"}`, 0},
		"a picture too wide": {"browser.screenshot", `{"content_base64":"` + header(1<<31, 1) + `"}`, 0},
		"no output":          {"browser.screenshot", ``, 0},
	} {
		d := example()
		c := call(1, tt.tool, 1, 1, `{}`, tt.output)
		d.Calls, d.Output = calls(c), func(ledger.Call) ([]byte, error) { return []byte(tt.output), nil }
		page := render(t, d)["html"]
		if got := bytes.Count(page, []byte(`<img src="data:image/png;base64,`)); got != tt.shown || bytes.Contains(page, []byte("img-src data:")) != (tt.shown > 0) {
			t.Errorf("%s: %d pictures are shown, want %d", name, got, tt.shown)
		}
		if bytes.Contains(page, []byte("<b>.png")) || bytes.Contains(page, []byte("\u202e")) {
			t.Errorf("%s: the name is in the page as it is", name)
		}
	}
}

// A report with more pictures than it has room for says so.
func TestAReportHasRoomForSomePictures(t *testing.T) {
	png := append(binary.BigEndian.AppendUint64([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"), 1<<32|1), make([]byte, 20<<20)...)
	output := []byte(`{"content_base64":"` + base64.StdEncoding.EncodeToString(png) + `"}`)
	d := example()
	d.Calls = calls(call(1, "browser.screenshot", 1, 1, `{}`, `{}`), call(2, "browser.screenshot", 1, 1, `{}`, `{}`))
	d.Output = func(ledger.Call) ([]byte, error) { return output, nil }
	var b bytes.Buffer
	if err := report.HTML(&b, d); err != nil || bytes.Count(b.Bytes(), []byte("<img")) != 1 || !bytes.Contains(b.Bytes(), []byte("1 picture not shown")) {
		t.Errorf("%d pictures are shown: %v", bytes.Count(b.Bytes(), []byte("<img")), err)
	}
}

// A person answers for what a call runs, so a report of it hides and drops no part of its
// arguments but known values.
func TestAnAskedCallShowsWhatWasAsked(t *testing.T) {
	const hidden = "os.remove(1)"
	text := `{"argv":["python3","-c","cookie=1;` + hidden + `","s3cr3t-value-1"],"long":"` + strings.Repeat("x", 2*report.MaxPart) + `"}`
	d := example()
	d.Redactor = redact.New(map[string]string{"API_KEY": "s3cr3t-value-1"})
	asked := denied(call(1, "shell.run", 1, 1, text, ""), `commands.ask[0] "python3 **"`, `[]`)
	asked.Effect = policy.Ask
	d.Calls = calls(asked)
	out := render(t, d)
	for _, form := range []string{"json", "html"} {
		got := string(out[form])
		if !strings.Contains(got, hidden) || strings.Contains(got, "s3cr3t-value-1") || !strings.Contains(got, "[redacted:env]") {
			t.Errorf("%s: %.2000s", form, got)
		}
	}
	var rep struct {
		Steps []struct{ Args map[string]any }
	}
	if err := json.Unmarshal(out["json"], &rep); err != nil || len(fmt.Sprint(rep.Steps[0].Args["long"])) != 2*report.MaxPart {
		t.Errorf("the arguments are not whole: %v", err)
	}
	long := []byte(strings.Repeat("x", 2*report.MaxPart))
	if want := fmt.Sprintf("of %d bytes, sha256 %x", len(long), sha256.Sum256(long)); !bytes.Contains(out["html"], []byte(want)) {
		t.Errorf("%q is not in the page", want)
	}
	if got := string(out["txt"]); !strings.Contains(got, "sha256 ") || !strings.Contains(got, "remit show "+d.Run.ID.String()+" --step 1") {
		t.Errorf("text: %s", got)
	}
	asked.Effect = policy.Allow // nobody was asked: what looks like a secret is hidden
	asked.Loaded[ledger.PartArgs] = []byte(`{"argv":["python3","-c","cookie=1;` + hidden + `"]}`)
	d.Calls = calls(asked)
	if got := render(t, d)["json"]; bytes.Contains(got, []byte(hidden)) {
		t.Errorf("allowed: %s", got)
	}
}

func TestResources(t *testing.T) {
	d := example()
	bare := call(1, "fs.read", 1, 1, `{"path":"notes.md"}`, `{}`) // no notes: what the arguments name
	failed := call(2, "fs.read", 1, 1, `{"path":"gone.md"}`, "")
	failed.Status = tool.Failed
	move := happened(call(3, "fs.move", 1, 1, `{"from":"a","to":"b"}`, `{}`), `{"effect":"fs.delete","on":"/w/a"},{"effect":"fs.write","on":"/w/b"}`)
	again := happened(call(4, "fs.read", 1, 1, `{"path":"b"}`, `{}`), `{"effect":"fs.read","on":"/w/b"},{"effect":"fs.read","on":"/w/b"}`)
	web := happened(call(5, "http.get", 1, 1, `{}`, `{}`), `{"effect":"network.http","on":"https://a.example:8443/x"},{"effect":"network.socket","on":"b.example:22"}`)
	rows := happened(call(6, "db.execute", 1, 1, `{}`, `{}`), `{"effect":"database.read","on":"main: users(id)"},{"effect":"database.write","on":"main: notes(*)"}`)
	d.Calls = calls(bare, failed, move, again, web, rows)
	want := report.Resources{
		FilesRead: []string{"/w/b", "notes.md"}, FilesWritten: []string{"/w/b"}, FilesDeleted: []string{"/w/a"},
		HostsContacted: []string{"a.example:8443", "b.example:22"}, CommandsRun: []string{},
		TablesRead: []string{"main: users(id)"}, TablesWritten: []string{"main: notes(*)"},
	}
	if diff := cmp.Diff(want, build(t, d).Summary.Resources); diff != "" {
		t.Error(diff)
	}
}

// No line of the timeline is wider than a narrow terminal.
func TestTheTimelineFitsNarrowTerminals(t *testing.T) {
	for _, width := range []int{60, 80} {
		var b bytes.Buffer
		if err := report.Text(&b, example(), report.Options{Width: width}); err != nil {
			t.Fatal(err)
		}
		steps := 0
		for line := range strings.Lines(b.String()) {
			if line[0] < '0' || line[0] > '9' || !strings.Contains(line, " ms ") && !strings.Contains(line, " s ") {
				continue
			}
			steps++
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > width {
				t.Errorf("%d columns in a terminal of %d: %q", n, width, line)
			}
		}
		if steps == 0 {
			t.Error("there is no timeline")
		}
	}
}

// long is a run of n calls, of which every 2500th was denied and the 4000th refused something.
func long(n int) report.Data {
	d := example()
	var list []report.Call
	for i := 1; i <= n; i++ {
		c := call(i, "fs.read", int64(i), 10, `{"path":"a"}`, `{"text":"b"}`)
		if i%2500 == 0 {
			c = denied(c, "files.read.deny[0]", "[]")
		}
		if i == 4000 {
			c.Refused = 1
		}
		list = append(list, c)
	}
	d.Calls, d.Run.Total = calls(list...), n
	return d
}

// The text of a long run shows both ends and all that was refused, and counts the rest.
func TestTheTextOfALongRunIsBounded(t *testing.T) {
	var b bytes.Buffer
	if err := report.Text(&b, long(10_000), report.Options{Width: 200}); err != nil {
		t.Fatal(err)
	}
	timeline, rest, _ := strings.Cut(b.String(), "\nDenied\n")
	if n := strings.Count(timeline, "fs.read"); n != 2004 { // 2500, 4000, 5000 and 7500 are refused; 10000 is at the end
		t.Errorf("%d steps of 10000 are shown, want 2004", n)
	}
	for _, want := range []string{"1499 steps not shown", "999 steps not shown", "2499 steps not shown", "1500 steps not shown", "--json lists all"} {
		if !strings.Contains(timeline, want) {
			t.Errorf("the timeline does not have %q", want)
		}
	}
	if n := strings.Count(rest, "denied by files.read.deny[0]"); n != 4 || !strings.Contains(rest, "10000 steps") {
		t.Errorf("%d denials are shown, want 4, and the count of all 10000 steps:\n%s", n, rest)
	}
}

// The page of a long run stays small: it shows both ends and all that was refused, and
// counts the rest.
func TestThePageOfALongRunIsBounded(t *testing.T) {
	page := func(n int) string {
		var b bytes.Buffer
		if err := report.HTML(&b, long(n)); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	whole := page(2000)
	if n := strings.Count(whole, `<li id="step-`); n != 2000 || strings.Contains(whole, "not shown") {
		t.Errorf("%d of 2000 steps are shown", n)
	}
	bounded := page(10_000)
	if n := strings.Count(bounded, `<li id="step-`); n != 2004 { // 2500, 4000, 5000 and 7500 are refused; 10000 is at the end
		t.Errorf("%d steps of 10000 are shown, want 2004", n)
	}
	for _, want := range []string{"1499 steps not shown", "999 steps not shown", "2499 steps not shown", "1500 steps not shown", `id="step-4000"`, "<b>10000</b>"} {
		if !strings.Contains(bounded, want) {
			t.Errorf("the page does not have %s", want)
		}
	}
	if most := len(whole) + len(whole)/50; len(bounded) > most {
		t.Errorf("the page of 10000 steps has %d bytes, that of 2000 has %d", len(bounded), len(whole))
	}
}

// No report of a long run holds all its calls in memory.
func TestALongRunIsNotHeld(t *testing.T) {
	racetest.Skip(t, "it measures memory")
	const n, most = 2600, 32 << 20 // the outputs are 41 MB; of those on the page, 8 KiB are shown
	for name, write := range map[string]func(io.Writer, report.Data) error{"html": report.HTML, "json": report.JSON, "text": func(w io.Writer, d report.Data) error {
		return report.Text(w, d, report.Options{})
	}} {
		d := example()
		d.Calls = func(yield func(report.Call, error) bool) {
			for i := 1; i <= n; i++ {
				if !yield(call(i, "fs.read", int64(i), 10, fmt.Sprintf(`{"path":"%d"}`, i), `{"text":"`+strings.Repeat("x", 16_000)+`"}`), nil) {
					return
				}
			}
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			if m.HeapAlloc > most {
				t.Errorf("%s: after %d calls %d MB are in use", name, n, m.HeapAlloc>>20)
			}
		}
		if err := write(io.Discard, d); err != nil {
			t.Fatal(err)
		}
	}
}

// What cannot be read makes no report that looks whole.
func TestAReportOfCallsThatCannotBeReadFails(t *testing.T) {
	for _, format := range []string{"text", "json", "html"} {
		d := example()
		d.Calls = func(yield func(report.Call, error) bool) {
			_ = yield(call(1, "fs.read", 1, 10, `{}`, `{}`), nil) && yield(report.Call{}, errors.New("unreadable"))
		}
		var b bytes.Buffer
		if err := report.Write(&b, format, d, report.Options{}); err == nil || strings.Contains(b.String(), "</html>") || json.Valid(b.Bytes()) {
			t.Errorf("%s: %v, %d bytes", format, err, b.Len())
		}
	}
}
