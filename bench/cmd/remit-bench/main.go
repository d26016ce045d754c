// Command remit-bench measures Remit and prints the figures beside their
// targets, as docs/BENCHMARKS.md shows them. Each section is a file here.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"time"
)

// bench is what the sections work with.
type bench struct {
	ctx   context.Context
	remit string // the program under test
	dir   string // for ledgers and files; removed at the end
	full  bool   // the longest sizes
	grown int    // calls of the large ledger
	soak  bool   // fail where a bar that must hold on any machine does not
	table table
}

// section is one group of measurements.
type section struct {
	name string
	run  func(*bench) error
}

var sections = []section{
	{"decisions", (*bench).decisions},
	{"calls", (*bench).calls},
	{"throughput", (*bench).throughput},
	{"storage", (*bench).storage},
	{"gateway", (*bench).gateway},
	{"door", (*bench).door},
	{"streams", (*bench).streams},
	{"processes", (*bench).processes},
	{"ledger", (*bench).ledger},
	{"growth", (*bench).growth},
	{"memory", (*bench).memory},
	{"sandbox", (*bench).sandbox},
	{"files", (*bench).files},
	{"egress", (*bench).egress},
	{"changesets", (*bench).changesets},
	{"wasm", (*bench).wasm},
	{"grants", (*bench).grants},
}

// apart are sections that are measured only where they are named: they need PostgreSQL.
var apart = []section{{"fleet", (*bench).fleet}}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "remit-bench:", err)
		os.Exit(1)
	}
}

func run() (err error) {
	for name, process := range map[string]func(string) error{fleetNode: serveNode, streamReaders: readStreams, streamBare: serveBare} {
		if what := os.Getenv(name); what != "" {
			return process(what)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	b := &bench{ctx: ctx}
	flag.StringVar(&b.remit, "remit", os.Getenv("REMIT"), "the remit program to measure")
	flag.BoolVar(&b.full, "full", false, "the long plan with 10,000 steps instead of 5,000")
	flag.IntVar(&b.grown, "grown", grownLedger, "how many calls the ledger of the section growth has, at least 1,000")
	flag.BoolVar(&b.soak, "soak", false, "fail where a figure of the section growth is 20 times its bar")
	only := flag.String("only", ".", "run the sections that match this expression")
	write := flag.String("write", "", "also write the table to this Markdown file")
	where := flag.String("dir", "", "a folder on the disk to measure (default: the system's for temporary files)")
	flag.Parse()
	choose, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	if b.remit, err = filepath.Abs(b.remit); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp(*where, "remit-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	b.table.before = surroundings()
	start := time.Now()
	if *only == "fleet" {
		sections = apart
	}
	for _, s := range sections {
		if !choose.MatchString(s.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "%6.1f s  %s\n", time.Since(start).Seconds(), s.name)
		if err := s.run(b); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	b.table.took, b.table.after = time.Since(start), surroundings()
	fmt.Print(b.table.text())
	if *write != "" {
		return b.table.writeMarkdown(*write)
	}
	return nil
}
