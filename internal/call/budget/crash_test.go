package budget_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	osexec "os/exec"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/budget"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
)

const (
	crashHome = "REMIT_TEST_BUDGET_HOME"
	crashNode = "REMIT_TEST_BUDGET_NODE"
	crashMost = 4000
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func recordRun(s store.Store, g grant.Grant) *runner.Run {
	id := must(uuid.NewV7())
	seq := must(s.Append(context.Background(), ledger.Entry{Event: ledger.Event{
		Kind: ledger.RunStarted, At: time.Now().UnixMicro(), ID: id[:], Mode: ledger.Live, Principal: "user:ann",
	}}))
	return &runner.Run{Info: runner.Info{ID: id, Grant: g}, Seq: seq}
}

// spend makes calls under a grant with budgets until none are left, in several
// goroutines, and prints each once its record is written.
func spend(home string, node uuid.UUID) {
	s := must(sqlite.Open(context.Background(), sqlite.Options{Home: home, Durability: sqlite.Process}))
	must(s.Recover(context.Background()))
	b := budget.New(s)
	g := grant.New(grant.Terms{ID: node, Holder: "user:ann", Kept: true, Budgets: grant.Budgets{Calls: crashMost, BytesOut: 1 << 40}})
	run := recordRun(s, g)
	var wg sync.WaitGroup
	var mu sync.Mutex
	calls := uint32(0)
	for range 4 {
		wg.Go(func() {
			for {
				res, err := b.Reserve(context.Background(), run, "http.post", grant.Amounts{Calls: 1, BytesOut: 100})
				if err != nil {
					return
				}
				mu.Lock()
				calls++
				n := calls
				mu.Unlock()
				given, used := res.Given(), grant.Amounts{Calls: 1, BytesOut: int64(n % 90)}
				must(s.Append(context.Background(), ledger.Entry{Event: ledger.Event{
					Kind: ledger.CallIntent, At: 1, Run: run.Seq, Call: n, Tool: "http.post", Usage: given.List(),
				}}))
				fmt.Println(n)
				must(s.Append(context.Background(), ledger.Entry{Event: ledger.Event{
					Kind: ledger.CallOutcome, At: 2, Run: run.Seq, Call: n, Status: tool.Completed, Usage: used.List(),
				}}))
				res.Settle(used)
			}
		})
	}
	wg.Wait()
}

// A process that dies takes nothing with it: what its calls used is spent, what
// it had leased besides is free again, and no budget is ever exceeded.
func TestAKilledProcessLeaksNoBudget(t *testing.T) {
	if home := os.Getenv(crashHome); home != "" {
		spend(home, uuid.MustParse(os.Getenv(crashNode)))
		return
	}
	home, node := t.TempDir(), uuid.New()
	for round := 1; round <= 6; round++ {
		for _, cmd := range []*osexec.Cmd{osexec.Command(must(os.Executable()), "-test.run=^TestAKilledProcessLeaksNoBudget$")} {
			cmd.Env = append(os.Environ(), crashHome+"="+home, crashNode+"="+node.String())
			out := must(cmd.StdoutPipe())
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(time.Duration(40+round*31)*time.Millisecond, func() { _ = cmd.Process.Kill() })
			for lines := bufio.NewScanner(out); lines.Scan(); {
			}
			_ = cmd.Wait() // it was killed
		}
		s := must(sqlite.Open(t.Context(), sqlite.Options{Home: home}))
		must(s.Recover(t.Context()))
		calls, bytes := recorded(t, s)
		for _, m := range must(s.Spent(t.Context(), node)) {
			want := map[string]int64{grant.MeterCalls: calls, grant.MeterBytesOut: bytes}[m.ID.What]
			if m.Spent != want || m.Leased != 0 || m.Spent > m.Limit {
				text := must(json.Marshal(m))
				t.Fatalf("round %d: the events tell of %d %s: %s", round, want, m.ID.What, text)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// recorded is what the events of all runs say that was used.
func recorded(t *testing.T, s store.Store) (calls, bytes int64) {
	t.Helper()
	last := map[[2]uint64]grant.Amounts{}
	for e, err := range s.Events(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if len(e.Event.Usage) > 0 {
			last[[2]uint64{uint64(e.Event.Run), uint64(e.Event.Call)}] = grant.AmountsOf(e.Event.Usage)
		}
	}
	for _, a := range last {
		calls, bytes = calls+a.Calls, bytes+a.BytesOut
	}
	return calls, bytes
}
