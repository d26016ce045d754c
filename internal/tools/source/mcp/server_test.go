package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/source/mcp"
)

// server is testdata/server, built.
var server string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "remit-mcp-")
	if err != nil {
		panic(err)
	}
	server = filepath.Join(dir, "server")
	if out, err := exec.Command("go", "build", "-o", server, "./testdata/server").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "the test server cannot be built: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// process starts the test server without confinement.
type process struct {
	mode   string
	starts atomic.Int32
	live   atomic.Int32
}

func (p *process) start(context.Context) (*mcp.Link, error) {
	p.starts.Add(1)
	cmd := exec.Command(server, p.mode)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = outW
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	_ = outW.Close()
	p.live.Add(1)
	ended := make(chan struct{})
	var why error
	go func() {
		defer close(ended)
		defer p.live.Add(-1)
		why = cmd.Wait()
	}()
	return &mcp.Link{
		Transport: mcp.Stdio(outR, in, nil), Ended: ended, Why: func() error { return why },
		Stop: func() {
			_ = cmd.Process.Kill()
			<-ended
		},
	}, nil
}

func newServer(t *testing.T, mode string, change ...func(*mcp.Config)) (*mcp.Server, *process) {
	t.Helper()
	p := &process{mode: mode}
	c := mcp.Config{Name: "t", Source: "mcp", Version: "1", Start: p.start, Cannot: tool.EffectSet(tool.NetworkHTTP)}
	for _, f := range change {
		f(&c)
	}
	s := mcp.New(c)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if n := p.live.Load(); n != 0 {
			t.Errorf("%d servers are left", n)
		}
	})
	return s, p
}

func discover(t *testing.T, s *mcp.Server) map[string]*mcp.Tool {
	t.Helper()
	list, err := s.Discover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*mcp.Tool{}
	for _, tl := range list {
		out[strings.TrimPrefix(string(tl.Spec().ID), "mcp:t:")] = tl
	}
	return out
}

func run(ctx context.Context, tl *mcp.Tool, args tool.Args) (string, error) {
	res, err := permittest.Run(ctx, tl, permit.Mint(permit.Terms{}), args)
	if res.Output == nil {
		return "", err
	}
	b, jerr := json.Marshal(res.Output)
	return string(b), errors.Join(err, jerr)
}

func TestToolsAreAsTheServerSays(t *testing.T) {
	s, _ := newServer(t, "honest")
	echo := discover(t, s)["echo"]
	spec, h := echo.Spec(), echo.Hints()
	if spec.ID != "mcp:t:echo" || spec.Title != "Echo" || spec.Source != "mcp" || spec.Version != "1" || spec.Description == "" {
		t.Errorf("%+v", spec)
	}
	if !strings.Contains(string(spec.Input), `"required":["text"]`) || !strings.Contains(string(spec.Output), `"structured":{"properties":{"text"`) {
		t.Errorf("schemas %s %s", spec.Input, spec.Output)
	}
	if h.ReadOnly == nil || !*h.ReadOnly || h.Destructive != nil || h.Cannot != tool.EffectSet(tool.NetworkHTTP) {
		t.Errorf("hints %+v", h)
	}
	if again := discover(t, s)["echo"]; again.Spec().Digest() != spec.Digest() {
		t.Error("the same tool has two digests")
	}
	out, err := run(t.Context(), echo, tool.Args{"text": "hi", "n": json.Number("12345678901234567890")})
	if err != nil || !strings.Contains(out, `"structured":{"text":"hi"}`) {
		t.Errorf("%s, %v", out, err)
	}
	if _, err := permittest.Run(t.Context(), echo, permit.Permit{}, nil); !errors.Is(err, fault.HandleRefused) {
		t.Errorf("without a permit: %v", err)
	}
}

// TestBadServers has servers do what they must not. Each call ends with a clear
// error, or as if nothing were wrong, and the next call works.
func TestBadServers(t *testing.T) {
	for name, want := range map[string]struct{ out, err string }{
		"crash":       {err: "exit status 9"},
		"big":         {err: "more than 16 MiB"},
		"twice":       {out: "first"},
		"stranger":    {out: "mine"},
		"disorder":    {out: "late"},
		"flood":       {err: "too many unsolicited messages"},
		"ask":         {out: "asked"},
		"garbage":     {err: "standard output is not MCP"},
		"noise":       {out: "after the noise"},
		"noise flood": {err: "too many lines that are not messages, the first: DEBUG"},
		"fails":       {err: `the tool failed: it went \x1b[31mwrong`},
		"reveal":      {err: "refused the call (-32602): no such tool"},
	} {
		t.Run(name, func(t *testing.T) {
			s, p := newServer(t, "honest")
			tools := discover(t, s)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			out, err := run(t.Context(), tools[name], nil)
			runtime.ReadMemStats(&after)
			if want.err == "" && (err != nil || !strings.Contains(out, want.out)) {
				t.Errorf("%s, %v", out, err)
			}
			if want.err != "" && (!errors.Is(err, fault.ToolFailed) || !strings.Contains(err.Error(), want.err)) {
				t.Errorf("got %v, want %s", err, want.err)
			}
			if got := after.TotalAlloc - before.TotalAlloc; got > 200<<20 {
				t.Errorf("%d MiB were allocated", got>>20)
			}
			for range 2 {
				if out, err := run(t.Context(), tools["echo"], tool.Args{"text": "on"}); err != nil || !strings.Contains(out, "on") {
					t.Errorf("afterwards: %s, %v", out, err)
				}
			}
			if p.starts.Load() > 2 {
				t.Errorf("started %d times", p.starts.Load())
			}
		})
	}
}

func TestServersThatDoNotStart(t *testing.T) {
	for mode, want := range map[string]string{
		"exits":       "exit status 7",
		"banner exit": `exit status 7 (its standard error is in the.log; 1 lines of its standard output are not messages, the first: Welcome to the server!)`,
		"silent":      "did not answer within 2s",
	} {
		t.Run(mode, func(t *testing.T) {
			s, _ := newServer(t, mode, func(c *mcp.Config) {
				if c.Logs = "the.log"; mode == "silent" {
					c.StartTime = 2 * time.Second
				}
			})
			_, err := s.Discover(t.Context())
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
	s, _ := newServer(t, "banner")
	if n := len(discover(t, s)); n == 0 {
		t.Error("a server that first writes a banner is not reached")
	}
	s, _ = newServer(t, "dies when probed")
	if n := len(discover(t, s)); n == 0 {
		t.Error("a server that knows only the handshake is not reached")
	}
}

func TestAServerThatAlwaysFailsIsLeftAlone(t *testing.T) {
	s, p := newServer(t, "exits")
	var err error
	deadline := time.Now().Add(60 * time.Second)
	for err == nil || !strings.Contains(err.Error(), "in a row") {
		if _, err = s.Discover(t.Context()); time.Now().After(deadline) {
			t.Fatalf("after %d starts: %v", p.starts.Load(), err)
		}
	}
	before := p.starts.Load()
	for range 100 {
		if _, err := s.Discover(t.Context()); err == nil {
			t.Fatal("it works")
		}
	}
	if p.starts.Load() != before {
		t.Errorf("started %d times more", p.starts.Load()-before)
	}
}

func TestAHungCallEndsInTimeAndItsServerIsReplaced(t *testing.T) {
	s, p := newServer(t, "honest")
	tools := discover(t, s)
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
	defer stop()
	if _, err := run(ctx, tools["hang"], nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if out, err := run(t.Context(), tools["echo"], tool.Args{"text": "on"}); err != nil || !strings.Contains(out, "on") {
		t.Errorf("afterwards: %s, %v", out, err)
	}
	if p.starts.Load() != 2 {
		t.Errorf("started %d times", p.starts.Load())
	}
}

func TestAnIdleServerIsStopped(t *testing.T) {
	s, p := newServer(t, "honest", func(c *mcp.Config) { c.Idle = 50 * time.Millisecond })
	tools := discover(t, s)
	deadline := time.Now().Add(time.Minute)
	for p.live.Load() != 0 {
		if time.Now().After(deadline) {
			t.Fatal("it still runs")
		}
		time.Sleep(5 * time.Millisecond)
	}
	if _, err := run(t.Context(), tools["echo"], tool.Args{"text": "x"}); err != nil {
		t.Error(err)
	}
}

func TestManyCallsShareOneServer(t *testing.T) {
	s, p := newServer(t, "honest")
	tools := discover(t, s)
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			text := fmt.Sprintf("text %d!", i)
			if out, err := run(t.Context(), tools["echo"], tool.Args{"text": text}); err != nil || !strings.Contains(out, text) {
				t.Errorf("%s, %v", out, err)
			}
		})
	}
	wg.Wait()
	if p.starts.Load() != 1 {
		t.Errorf("started %d times", p.starts.Load())
	}
}

func TestProgressAndChangesAreTold(t *testing.T) {
	s, _ := newServer(t, "swaps")
	tools := discover(t, s)
	var mu sync.Mutex
	var got []tool.Progress
	ctx := tool.WithProgress(t.Context(), func(p tool.Progress) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, p)
	})
	if _, err := run(ctx, tools["slow"], nil); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	if len(got) != 3 || got[2].Done != 3 || got[2].Total != 3 || got[2].Message != `step\x1b` {
		t.Errorf("%+v", got)
	}
	mu.Unlock()
	if _, err := run(t.Context(), tools["echo"], tool.Args{"text": "x"}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Changed():
	case <-time.After(time.Minute):
		t.Fatal("the change is not told")
	}
	if was, now := tools["echo"].Spec(), discover(t, s)["echo"].Spec(); was.Digest() == now.Digest() {
		t.Error("another description, the same digest")
	}
}

// TestAStartThatIsCutOffKillsTheServer: nobody waits for a server that was never used
// to end well.
func TestAStartThatIsCutOffKillsTheServer(t *testing.T) {
	begun, killed := make(chan struct{}), make(chan struct{})
	s := mcp.New(mcp.Config{Name: "t", Source: "mcp", Version: "1", Start: func(context.Context) (*mcp.Link, error) {
		ours, theirs := sdk.NewInMemoryTransports() // the server never reads
		close(begun)
		return &mcp.Link{
			Transport: ours, Ended: killed, Why: func() error { return nil },
			Kill: func() {
				conn, err := theirs.Connect(context.Background())
				if err == nil {
					err = conn.Close()
				}
				if err != nil {
					t.Error(err)
				}
				close(killed)
			},
			Stop: func() { t.Error("it is asked to end") },
		}, nil
	}})
	failed := make(chan error, 1)
	go func() { _, err := s.Discover(context.Background()); failed <- err }()
	<-begun
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	<-killed
	if err := <-failed; err == nil {
		t.Error("a server that was cut off gave tools")
	}
}

// TestAMissingLoginIsNoFailure: the server is asked again at once after any number of
// them, since somebody may have logged in.
func TestAMissingLoginIsNoFailure(t *testing.T) {
	starts := 0
	s := mcp.New(mcp.Config{Name: "t", Source: "mcp", Version: "1", Start: func(context.Context) (*mcp.Link, error) {
		starts++
		return nil, fault.New(fault.LoginNeeded, "log in first")
	}})
	for n := 1; n <= 10; n++ {
		if _, err := s.Discover(t.Context()); !errors.Is(err, fault.LoginNeeded) || starts != n {
			t.Fatalf("attempt %d, %d starts: %v", n, starts, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
