package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
	"unicode/utf8"
)

// table holds the measurements.
type table struct {
	before, after string
	took          time.Duration
	rows          []row
}

type row struct {
	what, target, got string
	met               string // "yes", "no", or "" where there is no target
}

// add notes a figure with its target.
func (t *table) add(what, target, got string, met bool) {
	t.rows = append(t.rows, row{what, target, got, map[bool]string{true: "yes", false: "no"}[met]})
}

// note adds a figure that has no target.
func (t *table) note(what, got string) {
	t.rows = append(t.rows, row{what: what, got: got})
}

func (t *table) text() string {
	var b strings.Builder
	wide := [3]int{}
	for _, r := range t.rows {
		for i, s := range []string{r.what, r.target, r.got} {
			wide[i] = max(wide[i], utf8.RuneCountInString(s))
		}
	}
	pad := func(s string, n int) string { return s + strings.Repeat(" ", n-utf8.RuneCountInString(s)) }
	for _, r := range t.rows {
		fmt.Fprintf(&b, "%s  %s  %s  %s\n", pad(r.what, wide[0]), pad(r.target, wide[1]), pad(r.got, wide[2]), r.met)
	}
	fmt.Fprintf(&b, "\nbefore: %s\nafter:  %s\ntook:   %.0f s\n", t.before, t.after, t.took.Seconds())
	return b.String()
}

// The place in the page that is replaced.
const (
	begin = "<!-- measured: begin -->\n"
	end   = "<!-- measured: end -->"
)

// writeMarkdown replaces the measured part of a page and leaves the rest.
func (t *table) writeMarkdown(file string) error {
	src, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(src), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no place for the measurements", file)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Measured %s in %.0f s with\n\n    make build && sh bench/run.sh --write\n\n", time.Now().UTC().Format(time.DateOnly), t.took.Seconds())
	b.WriteString("| what | target | measured | met |\n| --- | --- | --- | --- |\n")
	for _, r := range t.rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.what, r.target, r.got, r.met)
	}
	fmt.Fprintf(&b, "\nMachine before: %s. After: %s.\n", t.before, t.after)
	return os.WriteFile(file, []byte(head+begin+"\n"+b.String()+"\n"+end+tail), 0o644)
}

// surroundings describes the machine, and its other load, during the measurement.
func surroundings() string {
	load := "unknown"
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		load = strings.Join(strings.Fields(string(b))[:3], " ")
	}
	return fmt.Sprintf("%s, %d cores, %s %s/%s, load %s", processor(), runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH, load)
}

func processor() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if name, ok := strings.CutPrefix(s.Text(), "model name"); ok {
			return strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(name), ":"))
		}
	}
	return "unknown processor"
}

// ns, us and ms print durations in one unit each.
func ns(d time.Duration) string { return fmt.Sprintf("%d ns", d.Nanoseconds()) }
func us(d time.Duration) string { return fmt.Sprintf("%.0f µs", float64(d.Nanoseconds())/1e3) }
func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Nanoseconds())/1e6) }
