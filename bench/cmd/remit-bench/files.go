package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/remitrun/remit/bench/stat"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

const (
	filesPolicy = "version: 1\nfiles: {read: {allow: ['**']}, write: {allow: ['**']}}\ncommands: {allow: ['**'], timeout: 600s}\n"
	wholeDisk   = "version: 1\nfiles: {read: {allow: ['/**', '~/**']}, write: {allow: ['**']}}\ncommands: {allow: ['**'], timeout: 600s}\n"

	fileTurns = 5
	opens     = 100_000
)

// work is a program that uses many files.
type work struct {
	name   string
	most   float64 // beside the same without a sandbox
	before string  // makes its files
	script string
}

var works = []work{
	{"`git status` in 20,000 files", 1.05, "git init -q . && for d in $(seq 200); do mkdir d$d; for f in $(seq 100); do echo $f > d$d/$f; done; done && git add -A && git -c user.name=a -c user.email=a@b.test commit -q -m 1", "git status --porcelain"},
	{"`go build` of a program of 300 packages, warm", 1.25, "printf 'module x\\ngo 1.24\\n' > go.mod; { echo 'package main'; for i in $(seq 300); do mkdir p$i; echo \"package p$i; const X = $i\" > p$i/a.go; echo \"import _ \\\"x/p$i\\\"\"; done; echo 'func main() {}'; } > main.go; GOFLAGS= GOCACHE=$PWD/.cache go build -o out .",
		"export HOME=$PWD GOFLAGS= GOCACHE=$PWD/.cache GOTOOLCHAIN=local; echo >> main.go; go build -o out ."},
	{"`grep -r` over 100,000 files", 1.3, "for d in $(seq 1000); do mkdir d$d; for f in $(seq 100); do echo text > d$d/$f; done; done", "grep -rc nothing . | wc -l"},
	{"`tar x` of 50,000 files", 1.3, "mkdir t; for d in $(seq 500); do mkdir t/d$d; for f in $(seq 100); do echo text > t/d$d/$f; done; done; tar cf t.tar t", "rm -rf out; mkdir out; tar xf t.tar -C out"},
}

// files measures programs that use many files, confined and not, in turns.
func (b *bench) files() error {
	box := linux.New(linux.Config{Getenv: os.LookupEnv})
	defer box.Close()
	for _, w := range works {
		took, err := b.besideBare(box, w)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		b.ratio(w.name+", confined beside bare, p50", w.most, took["confined"], stat.Median(took["bare"]))
	}
	if err := b.openFile(box); err != nil {
		return err
	}
	return b.largeFolder(box)
}

// folder makes a folder with files, and what runs a script in it, confined under a policy.
func (b *bench) folder(box *linux.Box, src, before string) (dir string, run func(ctx context.Context, script string) error, err error) {
	if dir, err = os.MkdirTemp(b.dir, "files-"); err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return "", nil, err
	}
	if err := bareShell(b.ctx, dir, before); err != nil {
		return "", nil, err
	}
	p, err := policy.Parse("bench.yaml", []byte(src))
	if err != nil {
		return "", nil, err
	}
	path := []string{"/usr/local/go/bin", "/usr/bin", "/bin"}
	rules, err := p.Bind(policy.Env{Workspace: dir, Home: os.Getenv("HOME"), Path: path})
	if err != nil {
		return "", nil, err
	}
	chain := policy.Chain{rules}
	pm := permit.Mint(permit.Terms{Chain: chain, Limits: chain.Limits(), Env: tool.Env{Workspace: dir, Home: os.Getenv("HOME"), Path: path}})
	return dir, func(ctx context.Context, script string) error {
		out, err := box.Run(ctx, pm, sandbox.Command{Argv: []string{"sh", "-c", script}, Dir: dir})
		if err == nil && out.ExitCode != 0 {
			err = fmt.Errorf("exit status %d: %.300s", out.ExitCode, out.Stderr.Data)
		}
		return err
	}, nil
}

func bareShell(ctx context.Context, dir, script string) error {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %.300s", err, out)
	}
	return nil
}

func (b *bench) besideBare(box *linux.Box, w work) (map[string][]time.Duration, error) {
	dir, run, err := b.folder(box, filesPolicy, w.before)
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // with all of the bench
	return b.turns([]confiner{
		{"bare", func(ctx context.Context) error { return bareShell(ctx, dir, w.script) }},
		{"confined", func(ctx context.Context) error { return run(ctx, w.script) }},
	}, fileTurns)
}

// openFile measures one open and close more.
func (b *bench) openFile(box *linux.Box) error {
	for _, how := range []string{"<", "+<"} {
		loop := func(n int) string {
			return fmt.Sprintf("perl -e 'for (1..%d) { open(F, q(%s), q(f)) or die; close F }'", n, how)
		}
		took := map[string]time.Duration{}
		for _, n := range []int{1, opens} {
			t, err := b.besideBare(box, work{before: "echo > f", script: loop(n)})
			if err != nil {
				return err
			}
			for way, list := range t {
				took[way] = stat.Median(list) - took[way]
			}
		}
		name := map[string]string{"<": "read", "+<": "read and write"}[how]
		more := float64((took["confined"] - took["bare"]).Nanoseconds()) / opens / 1e3
		b.table.add("one more open of a file to "+name+", in a loop of 100,000", "≤ 15 µs", fmt.Sprintf("%.1f µs (bare %.1f µs)", more, float64(took["bare"].Nanoseconds())/opens/1e3), more <= 15)
	}
	return nil
}

// largeFolder measures a command in a large workspace under a policy that opens the whole disk.
func (b *bench) largeFolder(box *linux.Box) error {
	var ways []confiner
	for name, before := range map[string]string{"empty": "true", "large": "for d in $(seq 400); do mkdir d$d; (cd d$d; seq 500 | xargs touch); done"} {
		dir, run, err := b.folder(box, wholeDisk, strings.TrimSpace(before))
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }() // with all of the bench
		ways = append(ways, confiner{name, func(ctx context.Context) error { return run(ctx, "true") }})
	}
	took, err := b.turns(ways, 5*fileTurns)
	if err != nil {
		return err
	}
	b.ratio("a command in 200,000 files under a policy that opens the whole disk, beside an empty folder, p50", 1.1, took["large"], stat.Median(took["empty"]))
	return nil
}
