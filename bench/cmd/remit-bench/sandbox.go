package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/remitrun/remit/bench/stat"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

// How often each way is taken, in turns.
const (
	spawns   = 120
	atOnce   = 2
	perPair  = 300
	heapSize = 4 << 30
)

const (
	freshPolicy   = "version: 1\nfiles: {read: {allow: ['**']}}\ncommands: {allow: ['true']}\n"
	sessionPolicy = freshPolicy + "sandbox: {tier: session}\n"
)

// confiner starts /bin/true in one way.
type confiner struct {
	name string
	run  func(context.Context) error
}

// sandbox measures the start of a confined process beside a bare spawn and
// bubblewrap, in turns.
func (b *bench) sandbox() error {
	box := linux.New(linux.Config{Getenv: os.LookupEnv})
	defer box.Close()
	ways, err := b.confiners(box)
	if err != nil {
		return err
	}
	took, err := b.turns(ways, spawns)
	if err != nil {
		return err
	}
	bare, bwrap := stat.Median(took["bare"]), stat.Median(took["bwrap"])
	b.ratio("fresh full sandbox running `/bin/true`, beside a bare spawn, p50", 3, took["fresh"], bare)
	if bwrap > 0 {
		b.ratio("the same beside bubblewrap", 0.6, took["fresh"], bwrap)
	} else {
		b.table.note("the same beside bubblewrap", "bubblewrap is not installed")
	}
	b.ratio("session sandbox, beside a bare spawn, p50", 1.4, took["session"], bare)
	if err := b.largeHeap(ways, took); err != nil {
		return err
	}
	return b.pairs(ways)
}

// ratio adds a figure with its bound.
func (b *bench) ratio(what string, most float64, took []time.Duration, base time.Duration) {
	r := float64(stat.Median(took)) / float64(base)
	b.table.add(what, fmt.Sprintf("≤ %.1f ×", most), fmt.Sprintf("%.2f × (%s beside %s; p10 %.2f ×)", r, us(stat.Median(took)), us(base),
		float64(stat.Quantile(took, 0.1))/float64(base)), r <= most)
}

// confiners are the ways that are compared.
func (b *bench) confiners(box *linux.Box) ([]confiner, error) {
	ways := []confiner{{"bare", func(ctx context.Context) error { return exec.CommandContext(ctx, "/bin/true").Run() }}}
	if bwrap, err := exec.LookPath("bwrap"); err == nil {
		args := []string{"--unshare-all", "--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
			"--symlink", "usr/bin", "/bin", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "/bin/true"}
		ways = append(ways, confiner{"bwrap", func(ctx context.Context) error { return exec.CommandContext(ctx, bwrap, args...).Run() }})
	}
	for tier, src := range map[string]string{"fresh": freshPolicy, "session": sessionPolicy} {
		dir, err := os.MkdirTemp(b.dir, tier+"-")
		if err == nil {
			dir, err = filepath.EvalSymlinks(dir)
		}
		if err == nil {
			err = os.Chmod(dir, 0o755)
		}
		if err != nil {
			return nil, err
		}
		p, err := policy.Parse("bench.yaml", []byte(src))
		if err != nil {
			return nil, err
		}
		rules, err := p.Bind(policy.Env{Workspace: dir, Path: []string{"/usr/bin", "/bin"}})
		if err != nil {
			return nil, err
		}
		chain := policy.Chain{rules}
		pm := permit.Mint(permit.Terms{Chain: chain, Limits: chain.Limits(), Env: tool.Env{Workspace: dir, Path: []string{"/usr/bin", "/bin"}}})
		ways = append(ways, confiner{tier, func(ctx context.Context) error {
			out, err := box.Run(ctx, pm, sandbox.Command{Argv: []string{"true"}, Dir: dir})
			if err == nil && (out.ExitCode != 0 || out.Tier != tier) {
				err = fmt.Errorf("%s: exit status %d in a %q sandbox", tier, out.ExitCode, out.Tier)
			}
			return err
		}})
	}
	return ways, nil
}

// turns takes each way so many times, in turns.
func (b *bench) turns(ways []confiner, n int) (map[string][]time.Duration, error) {
	took := map[string][]time.Duration{}
	for i := range n + n/10 {
		for _, w := range ways {
			var err error
			d := stat.Time(func() { err = w.run(b.ctx) })
			if err != nil {
				return nil, fmt.Errorf("%s: %w", w.name, err)
			}
			if i >= n/10 {
				took[w.name] = append(took[w.name], d)
			}
		}
	}
	return took, nil
}

// largeHeap measures the same with a heap of 4 GiB in this process.
func (b *bench) largeHeap(ways []confiner, small map[string][]time.Duration) error {
	ballast := make([][]byte, heapSize>>20)
	for i := range ballast {
		ballast[i] = make([]byte, 1<<20)
		for j := 0; j < len(ballast[i]); j += 4096 {
			ballast[i][j] = 1
		}
	}
	took, err := b.turns(slices.DeleteFunc(slices.Clone(ways), func(w confiner) bool { return w.name == "bare" || w.name == "bwrap" }), spawns)
	runtime.KeepAlive(ballast)
	debug.FreeOSMemory()
	if err != nil {
		return err
	}
	for _, tier := range []string{"fresh", "session"} {
		r := float64(stat.Median(took[tier])) / float64(stat.Median(small[tier]))
		b.table.add(tier+" sandbox from a process with a heap of 4 GiB, beside the same without", "≤ 1.1 ×", fmt.Sprintf("%.2f ×", r), r <= 1.1)
	}
	return nil
}

// pairs measures how many are started a second, two at a time.
func (b *bench) pairs(ways []confiner) error {
	rate := map[string]float64{}
	for _, w := range ways {
		var wg sync.WaitGroup
		errs := make([]error, atOnce)
		d := stat.Time(func() {
			for k := range atOnce {
				wg.Go(func() {
					for range perPair {
						if errs[k] == nil {
							errs[k] = w.run(b.ctx)
						}
					}
				})
			}
			wg.Wait()
		})
		for _, err := range errs {
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
		}
		rate[w.name] = float64(atOnce*perPair) / d.Seconds()
	}
	b.table.add("fresh sandboxes, two at a time", "> 600/s where bubblewrap does about 340", fmt.Sprintf("%.0f/s (bubblewrap %.0f/s, session %.0f/s, bare %.0f/s)",
		rate["fresh"], rate["bwrap"], rate["session"], rate["bare"]), rate["fresh"] > 600 || rate["bwrap"] > 0 && rate["fresh"] > 600.0/340*rate["bwrap"])
	return nil
}
