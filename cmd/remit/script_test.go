package main

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/service/home"
)

// TestMain lets the test binary stand in for remit in scripts.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"remit": main})
}

// severalAtOnce finds the scripts in which processes or calls run at the same time.
var severalAtOnce = regexp.MustCompile(`(?m)&$|max_parallel|remit mcp |remit serve`)

// scripts returns the files of the scripts. Under the race detector, which each command
// starts anew, they are those that run several things at once; make soak runs all.
func scripts(t *testing.T) (files []string) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join("testdata", "*.txtar"))
	if err != nil || len(all) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, f := range all {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if !racetest.On() || os.Getenv("REMIT_SOAK") != "" || severalAtOnce.Match(b) {
			files = append(files, f)
		}
	}
	return files
}

// TestScripts runs every promise of the command line, one script each.
// $REMIT_HOME is a folder of the script's own, $SERVER an HTTP server on loopback,
// and $EXTENSIONS the folder of those that are shipped.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Files:               scripts(t),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(env *testscript.Env) error {
			server, err := serve(env)
			env.Setenv("SERVER", server)
			env.Setenv("REMIT_HOME", env.WorkDir+"/.remit-home")
			env.Setenv("USER", "ann") // nobody is who a variable says
			env.Setenv("PERSON", home.Person())
			extensions, aerr := filepath.Abs(filepath.Join("..", "..", "extensions"))
			env.Setenv("EXTENSIONS", extensions)
			err = errors.Join(err, aerr)
			env.Setenv("TERM", "xterm-256color")
			env.Setenv("TZ", "UTC")
			env.Setenv("GORACE", os.Getenv("GORACE"))
			env.Setenv("ESC", "\x1b")
			return err
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "mounts": // may mount in a namespace of its own
				return exec.Command("unshare", "--mount", "true").Run() == nil, nil
			case "root":
				return os.Getuid() == 0, nil
			}
			return false, errors.New("unknown condition")
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"status":  status,
			"lacks":   lacks,
			"expand":  expand,
			"newest":  newest,
			"json":    jsonIs,
			"take":    take,
			"waiting": waiting,
			"normal":  normal,
			"sql":     sqlDo,
			"table":   tableDo,
			"tamper":  tamper,
			"agekey":  ageKey,
			"port":    port,
		},
	})
}

// status N PROGRAM ARG... runs a program that must end with exactly this exit
// status. What it printed is compared with stdout and stderr, as after exec. It
// must not hold a control character or a stack trace, whatever was asked.
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N PROGRAM ARG...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%s: %v", args[1], err)
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("%s ended with status %d, want %s", args[1], got, args[0])
	}
	for _, stream := range []string{"stdout", "stderr"} {
		text := ts.ReadFile(stream)
		for _, c := range text {
			if unicode.IsControl(c) && c != '\n' && c != '\t' {
				ts.Fatalf("%s holds the control character %U", stream, c)
			}
		}
		for _, trace := range []string{"goroutine ", "panic:", "runtime error"} {
			if strings.Contains(text, trace) {
				ts.Fatalf("%s holds a stack trace (%q)", stream, trace)
			}
		}
	}
}

// lacks FILE... fails if one of the files or folders is there: nothing was done.
func lacks(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: lacks FILE...")
	}
	for _, name := range args {
		if _, err := os.Lstat(ts.MkAbs(name)); err == nil {
			ts.Fatalf("%s is there", name)
		}
	}
}

// expand FILE... puts the script's variables in place of their names, as
// $SERVER, in files.
func expand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: expand FILE...")
	}
	for _, name := range args {
		text := ts.ReadFile(name)
		for _, v := range []string{"SERVER", "WORK", "ESC", "KEY"} {
			text = strings.ReplaceAll(text, "$"+v, ts.Getenv(v))
		}
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(text), 0o600))
	}
}

// serve starts the HTTP server of one script.
func serve(env *testscript.Env) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	mux := http.NewServeMux()
	text := func(path string, code int, body string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			_, _ = w.Write([]byte(body))
		})
	}
	text("/hello", http.StatusOK, "hello")
	text("/missing", http.StatusNotFound, "nothing here")
	text("/escape", http.StatusOK, "\x1b]0;owned\a\x1b[2Jred \x1b[31m\u202etxt\u009b31m\r\n")
	text("/large", http.StatusOK, strings.Repeat("0123456789abcdef", 1<<13)) // 128 KiB
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(r.Method + " " + r.URL.RawQuery))
	})
	mux.HandleFunc("/redirect", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/", http.StatusFound)
	})
	var mu sync.Mutex
	inbox := ""
	mux.HandleFunc("/inbox", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if b, _ := io.ReadAll(r.Body); r.Method != http.MethodGet {
			inbox += r.Method + " " + string(b) + ";"
		}
		_, _ = w.Write([]byte(inbox))
	})
	mux.HandleFunc("/drop", func(w http.ResponseWriter, _ *http.Request) {
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = c.Close()
		}
	})
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-time.After(time.Minute):
		}
	})
	pets(mux)
	srv := &http.Server{Handler: mux}
	go func() { _ = srv.Serve(l) }()
	env.Defer(func() { _ = srv.Close() })
	return l.Addr().String(), nil
}

// port VAR sets a variable to a port of loopback on which nothing listens.
func port(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: port VAR")
	}
	for range 1000 {
		p := strconv.Itoa(10000 + rand.IntN(20000)) // below those that the system gives to who asks for any
		l, err := net.Listen("tcp", "127.0.0.1:"+p)
		if err != nil {
			continue
		}
		ts.Check(l.Close())
		ts.Setenv(args[0], p)
		return
	}
	ts.Fatalf("no port is free")
}
