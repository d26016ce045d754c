// Command grow-ledger adds many calls to a ledger, to measure and profile what reads
// large ones:
//
//	go run ./cmd/grow-ledger -calls 1000000 FOLDER
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/remitrun/remit/bench/grown"
)

func main() {
	calls := flag.Int("calls", 1_000_000, "how many calls")
	length := flag.Int("run", 1000, "calls of each run")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "grow-ledger: expected one folder")
		os.Exit(2)
	}
	began := time.Now()
	if err := grown.Make(context.Background(), flag.Arg(0), grown.Size{Calls: *calls, RunLength: *length}); err != nil {
		fmt.Fprintln(os.Stderr, "grow-ledger:", err)
		os.Exit(1)
	}
	fmt.Printf("%d calls in %s\n", *calls, time.Since(began).Round(time.Millisecond))
}
