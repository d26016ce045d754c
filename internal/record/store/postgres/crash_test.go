package postgres_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/postgres"
)

// callID names a call.
type callID struct {
	run  ledger.Seq
	call uint32
}

// worker makes calls until it has made enough, or stop is closed: the effect of each is
// noted between its intent and its outcome. Errors are expected.
func worker(s store.Store, calls int, stop <-chan struct{}, effect func(callID)) {
	ctx := context.Background()
	var run ledger.Seq
	for n := 1; n <= calls; {
		select {
		case <-stop:
			return
		default:
		}
		if run == 0 {
			var err error
			if run, err = tryBegin(s); err != nil {
				run = 0
				continue
			}
		}
		intent, outcome := call(run, n)
		if _, err := s.Append(ctx, intent); err != nil {
			run, n = 0, n+1 // whether the intent is there is not known: the call is not made
			continue
		}
		effect(callID{run, uint32(n)})
		if _, err := s.Append(ctx, outcome); err != nil {
			run = 0
		}
		n++
	}
}

func tryBegin(s store.Store) (seq ledger.Seq, err error) {
	defer func() {
		if e, ok := recover().(error); ok {
			err = e
		}
	}()
	return begin(s, nil), nil
}

// intents are the calls of a ledger that have an intent.
func intents(t *testing.T, s store.Store) map[callID]int {
	t.Helper()
	out := map[callID]int{}
	for st, err := range s.Events(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if st.Event.Kind == ledger.CallIntent {
			out[callID{st.Event.Run, st.Event.Call}]++
		}
	}
	return out
}

// holds checks that all effects have an intent, that no intent is doubled, and that the
// ledger verifies and extends the checkpoints that were handed out.
func holds(t *testing.T, s store.Store, effects map[callID]int, notes [][]byte) {
	t.Helper()
	in := intents(t, s)
	for c, n := range effects {
		if in[c] != 1 || n != 1 {
			t.Errorf("call %d of run %d: %d effects, %d intents", c.call, c.run, n, in[c])
		}
	}
	if len(effects) == 0 {
		t.Error("no effects: the test shows nothing")
	}
	if r, err := s.Verify(t.Context(), store.VerifyOptions{}); err != nil || !r.OK {
		t.Errorf("Verify: %v, %+v", err, r.Problems)
	}
	for _, n := range notes {
		if r, err := s.Verify(t.Context(), store.VerifyOptions{Checkpoint: n}); err != nil || !r.OK {
			t.Errorf("a checkpoint that was handed out no longer holds: %v, %+v\n%s", err, r.Problems, n)
		}
	}
}

// disturb runs workers while it disturbs the server, and returns the effects and the
// checkpoints that were handed out.
func disturb(t *testing.T, s store.Store, rounds int, disturbance func(round int)) (map[callID]int, [][]byte) {
	t.Helper()
	var mu sync.Mutex
	effects, stop := map[callID]int{}, make(chan struct{})
	reached := make(chan struct{}, 1)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			worker(s, 1<<30, stop, func(c callID) {
				mu.Lock()
				effects[c]++
				mu.Unlock()
				select {
				case reached <- struct{}{}:
				default:
				}
			})
		})
	}
	var notes [][]byte
	for round := range rounds {
		for range 20 { // some calls go through between two disturbances
			<-reached
		}
		if n, err := s.Checkpoint(t.Context()); err == nil {
			notes = append(notes, n)
		}
		disturbance(round)
	}
	for range 20 {
		<-reached
	}
	close(stop)
	wg.Wait()
	return effects, notes
}

// TestEndedConnectionsLoseNothing: the server ends all connections of a node again and
// again, whatever they do at that moment.
func TestEndedConnectionsLoseNothing(t *testing.T) {
	home := t.TempDir()
	s := openWith(t, postgres.Options{Home: home, Lease: time.Hour})
	c := must(pgx.Connect(t.Context(), server.Schema(t, home)))
	defer c.Close(t.Context())
	effects, notes := disturb(t, s, 10, func(int) {
		must(c.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'remit'"))
	})
	holds(t, s, effects, notes)
}

// TestACrashOfTheServerLosesNothingDurable: what was acknowledged as durable is there after
// a crash, and so is everything that a checkpoint covers.
func TestACrashOfTheServerLosesNothingDurable(t *testing.T) {
	s := openWith(t, postgres.Options{Home: t.TempDir(), Lease: time.Hour})
	effects, notes := disturb(t, s, 2, func(int) {
		if err := server.Stop("immediate"); err != nil {
			t.Fatal(err)
		}
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
	})
	holds(t, s, effects, notes)
}

// TestAKilledNodeIsTakenOver: kill -9 of a node's process between any two of its steps.
func TestAKilledNodeIsTakenOver(t *testing.T) {
	const lease = time.Second
	home := t.TempDir()
	s := openWith(t, postgres.Options{Home: home, Lease: lease})
	for range 3 {
		child := exec.Command(os.Args[0], "-test.run=^$")
		child.Env = append(os.Environ(), "REMIT_TEST_NODE="+home, "REMIT_TEST_URL="+server.Schema(t, home))
		lines := must(child.StdoutPipe())
		must(0, child.Start())
		effects := map[callID]int{}
		for in := bufio.NewScanner(lines); in.Scan(); {
			var c callID
			if n, _ := fmt.Sscanf(in.Text(), "effect %d %d", &c.run, &c.call); n == 2 {
				effects[c]++
			}
			if len(effects) == 30 {
				must(0, child.Process.Kill())
			}
		}
		_ = child.Wait() // it was killed
		dead := time.Now()
		for {
			if n, err := s.Recover(t.Context()); n > 0 && err == nil {
				break
			} else if time.Since(dead) > time.Minute {
				t.Fatalf("nothing is taken over: %v", err) // for a moment this node may be without its own lease
			}
			time.Sleep(lease / 20) // until the lease is over
		}
		t.Logf("taken over after %s, the lease being %s", time.Since(dead), lease)
		holds(t, s, effects, nil)
		for _, r := range must(s.Runs(t.Context(), store.RunFilter{Limit: 1000})) {
			for c := range s.Calls(t.Context(), r.Seq) {
				if c.Status == tool.Pending {
					t.Errorf("call %d of run %d is still open", c.Index, r.Seq)
				}
			}
		}
	}
}

// node makes calls until the process is killed.
func node(home string) {
	s := must(postgres.Open(context.Background(), postgres.Options{Home: home, URL: os.Getenv("REMIT_TEST_URL"), Lease: time.Second}))
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			worker(s, 1<<30, nil, func(c callID) {
				mu.Lock()
				defer mu.Unlock()
				fmt.Printf("effect %d %d\n", c.run, c.call)
			})
		})
	}
	wg.Wait()
}

// TestAFencedNodeCanAppendNothing: another node removed it while it could not renew its
// lease.
func TestAFencedNodeCanAppendNothing(t *testing.T) {
	home := t.TempDir()
	a := must(postgres.Open(t.Context(), postgres.Options{Home: home, URL: server.Schema(t, home), Lease: time.Hour}))
	b := openWith(t, postgres.Options{Home: home})
	run := begin(a, nil)
	intent, outcome := call(run, 1)
	must(a.Append(t.Context(), intent))
	c := must(pgx.Connect(t.Context(), server.Schema(t, home)))
	defer c.Close(t.Context())
	must(c.Exec(t.Context(), "UPDATE members SET lease_until = clock_timestamp() - interval '1 second' WHERE id = $1", a.Owner()))
	wait(t, "the run is closed", func() bool { // a slow answer may look like a jump of the clock, and then nobody is removed
		return must(b.Recover(t.Context())) == 1
	})
	for _, e := range []ledger.Entry{outcome, {Event: ledger.Event{Kind: ledger.RunFinished, At: 9, Run: run, Status: tool.Completed}}} {
		if _, err := a.Append(t.Context(), e); err == nil {
			t.Error("the removed node appended an event")
		}
	}
	if _, err := tryBegin(a); err == nil {
		t.Error("the removed node began a run")
	}
	_ = a.Close() // fails: another node removed it
	if r := must(b.Verify(t.Context(), store.VerifyOptions{})); !r.OK {
		t.Errorf("%+v", r.Problems)
	}
}
