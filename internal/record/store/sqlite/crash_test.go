package sqlite_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	osexec "os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
)

// A process that is killed loses no intent that was acknowledged, and its run
// is closed as interrupted by the next one.
func TestAKilledProcessLosesNothing(t *testing.T) {
	const env = "REMIT_TEST_CRASH_HOME"
	if home := os.Getenv(env); home != "" {
		s := must(sqlite.Open(context.Background(), sqlite.Options{Home: home, Durability: sqlite.Process}))
		run := begin(s)
		for i := 1; ; i++ {
			in, out := call(run, i, true)
			must(s.Append(context.Background(), in))
			fmt.Println(i)
			must(s.Append(context.Background(), out))
		}
	}
	home := t.TempDir()
	for round := 1; round <= 8; round++ {
		cmd := osexec.Command(must(os.Executable()), "-test.run=^TestAKilledProcessLosesNothing$")
		cmd.Env = append(os.Environ(), env+"="+home)
		out := must(cmd.StdoutPipe())
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Duration(20+round*17)*time.Millisecond, func() { _ = cmd.Process.Kill() })
		last := 0
		for lines := bufio.NewScanner(out); lines.Scan(); {
			last, _ = strconv.Atoi(lines.Text())
		}
		_ = cmd.Wait() // it was killed

		s := must(sqlite.Open(context.Background(), sqlite.Options{Home: home}))
		closed := must(s.Recover(context.Background()))
		runs := must(s.Runs(context.Background(), store.RunFilter{Limit: 100}))
		if last > 0 && (closed != 1 || len(runs) == 0 || runs[0].Status != tool.StatusInterrupted.String()) {
			t.Fatalf("round %d: %d runs were closed, the newest is %+v", round, closed, runs)
		}
		if last > 0 {
			n := 0
			for c, err := range s.Calls(context.Background(), runs[0].Seq) {
				if err != nil || c.Status == tool.Pending {
					t.Fatalf("round %d: call %+v, %v", round, c, err)
				}
				n = c.Index
			}
			if n < last {
				t.Fatalf("round %d: %d calls were recorded, %d intents were acknowledged", round, n, last)
			}
		}
		run := begin(s) // and it takes a new run
		must(s.Append(context.Background(), ledger.Entry{Event: ledger.Event{Kind: ledger.RunFinished, At: 1, Run: run, Status: tool.Completed}}))
		if r := must(s.Verify(context.Background(), store.VerifyOptions{})); len(r.Problems) > 0 {
			t.Fatalf("round %d: %+v", round, r.Problems)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if left := must(os.ReadDir(home + "/owners")); len(left) > 0 {
		t.Errorf("%d dead owners' files were left", len(left))
	}
}
