package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/remitrun/remit/bench/stat"
)

// figure is what a Go benchmark measured.
type figure struct {
	took time.Duration // an operation
	rate float64       // MB/s, if it says so
	p50  time.Duration // the median operation, if it says so
}

var benchLine = regexp.MustCompile(`(?m)^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+([0-9.]+) ns/op(?:\s+([0-9.]+) MB/s)?(?:\s+([0-9.]+) p50-ns)?`)

// micro runs Go benchmarks of a package of the project, several times, and
// gives the median of each.
func (b *bench) micro(pkg, which, long string, count int) (map[string]figure, error) {
	c := exec.CommandContext(b.ctx, "go", "test", "-run", "^$", "-bench", which, "-benchtime", long, "-count", strconv.Itoa(count), "./"+pkg)
	out, err := c.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", pkg, err, out)
	}
	took, rates, medians := map[string][]float64{}, map[string][]float64{}, map[string][]float64{}
	for _, m := range benchLine.FindAllStringSubmatch(string(out), -1) {
		v, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			return nil, err
		}
		took[m[1]] = append(took[m[1]], v)
		if m[3] != "" {
			if v, err = strconv.ParseFloat(m[3], 64); err != nil {
				return nil, err
			}
			rates[m[1]] = append(rates[m[1]], v)
		}
		if m[4] != "" {
			if v, err = strconv.ParseFloat(m[4], 64); err != nil {
				return nil, err
			}
			medians[m[1]] = append(medians[m[1]], v)
		}
	}
	f := map[string]figure{}
	for name, v := range took {
		f[name] = figure{time.Duration(stat.Median(v)), stat.Median(rates[name]), time.Duration(stat.Median(medians[name]))}
	}
	return f, nil
}

// egress measures what the proxy adds to a confined process's connections.
func (b *bench) egress() error {
	f, err := b.micro("internal/confine/egress", "^(BenchmarkGet|BenchmarkTunnel|BenchmarkInspected)$", "1s", 3)
	if err != nil {
		return err
	}
	added := f["Get/proxy"].took - f["Get/direct"].took
	b.table.add("egress: GET over a new connection, added", "< 500 µs", fmt.Sprintf("%s (%s beside %s)", us(added), us(f["Get/proxy"].took), us(f["Get/direct"].took)), added < 500*time.Microsecond)
	b.table.add("egress: throughput on loopback", "> 500 MB/s", fmt.Sprintf("%.0f MB/s (with a byte budget %.0f, without a proxy %.0f)", f["Tunnel/kernel"].rate,
		f["Tunnel/counted"].rate, f["Tunnel/direct"].rate), f["Tunnel/kernel"].rate > 500)
	b.table.note("egress: an inspected GET over a new TLS connection, added", us(f["Inspected/proxy"].took-f["Inspected/direct"].took))
	return nil
}

// changesets measures what holding writes costs, and carrying them over.
func (b *bench) changesets() error {
	f, err := b.micro("internal/confine/changeset", "^BenchmarkCommand$", "100x", 3)
	if err != nil {
		return err
	}
	added := f["Command/held"].took - f["Command/direct"].took
	b.table.add("changeset: overlay of a command, added", "< 1 ms", ms(added), added < time.Millisecond)
	if f, err = b.micro("internal/confine/changeset", "^BenchmarkDiffApply$", "1x", 3); err != nil {
		return err
	}
	b.table.add("changeset: review and apply of 10,000 changed files", "< 2 s", f["DiffApply"].took.Round(10*time.Millisecond).String(), f["DiffApply"].took < 2*time.Second)
	return nil
}

// wasm measures warm calls of modules.
func (b *bench) wasm() error {
	f, err := b.micro("internal/tools/executor/wasm", "^BenchmarkCall$", "1s", 3)
	if err != nil {
		return err
	}
	through := f["Call/runner/small"].p50
	b.table.add("WebAssembly: a warm call of a small module, with decision and record, p50", "< 200 µs",
		fmt.Sprintf("%s (a tool that does nothing %s)", us(through), us(f["Call/runner/nothing"].p50)), through < 200*time.Microsecond)
	b.table.note("the same of the example in Go", ms(f["Call/runner/go"].p50))
	return nil
}

// grants measures the cost of authority that is handed on.
func (b *bench) grants() error {
	f, err := b.micro("internal/authority/policy", "^BenchmarkDecide(Chain)?$", "1s", 3)
	if err != nil {
		return err
	}
	var chains, ones, ratios []float64
	for name, chain := range f {
		if call, ok := strings.CutPrefix(name, "DecideChain/"); ok {
			one := f["Decide/"+call].took
			chains, ones, ratios = append(chains, float64(chain.took)), append(ones, float64(one)), append(ratios, float64(chain.took)/float64(one))
		}
	}
	b.table.add("decision under a chain of 5 policies of 30 rules, beside one policy", "≤ 4 ×", fmt.Sprintf("%.1f × (%s beside %s)", stat.Median(ratios),
		ns(time.Duration(stat.Median(chains))), ns(time.Duration(stat.Median(ones)))), stat.Median(ratios) <= 4)
	if f, err = b.micro("internal/authority/grant/token", "^BenchmarkVerify$", "1s", 5); err != nil {
		return err
	}
	r := float64(f["Verify/token"].took) / float64(f["Verify/ed25519"].took)
	b.table.add("token of 3 blocks verified, beside its bare Ed25519 verifications", "≤ 1.3 ×", fmt.Sprintf("%.2f × (%s beside %s)", r, us(f["Verify/token"].took),
		us(f["Verify/ed25519"].took)), r <= 1.3)
	b.table.add("the same from the cache", "< 1 µs", ns(f["Verify/cached"].took), f["Verify/cached"].took < time.Microsecond)
	if f, err = b.micro("internal/call/budget", "^BenchmarkDraw", "1s", 3); err != nil {
		return err
	}
	d := f["DrawFiveDeep"].took
	b.table.add("budget draw in a tree 5 deep, 64 goroutines", "< 5 µs, > 100,000/s", fmt.Sprintf("%s (%.0f/s)", ns(d), 1e9/float64(d)), d < 5*time.Microsecond)
	two := f["DrawTwoProcesses"].took
	b.table.add("two processes that draw from one budget on disk", "> 5,000/s", fmt.Sprintf("%.0f/s", 1e9/float64(two)), 1e9/float64(two) > 5000)
	if f, err = b.micro("internal/call/standing", "^(BenchmarkRevokeATreeOf10000|BenchmarkCheck)$", "20x", 3); err != nil {
		return err
	}
	b.table.add("a tree of 10,000 grants revoked", "< 100 ms", ms(f["RevokeATreeOf10000"].took), f["RevokeATreeOf10000"].took < 100*time.Millisecond)
	return nil
}
