package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
)

func benchStore(b testing.TB, d sqlite.Durability) (*sqlite.Store, string) {
	b.Helper()
	home := b.TempDir()
	s := must(sqlite.Open(context.Background(), sqlite.Options{Home: home, Durability: d}))
	b.Cleanup(func() { _ = s.Close() })
	return s, home
}

// BenchmarkCall is one caller's effectful calls: an intent that is durable
// against a loss of power, and an outcome. It reports the ratio to one bare
// durable insert, the two taken in turns.
func BenchmarkCall(b *testing.B) {
	s, home := benchStore(b, sqlite.Power)
	bare := must(sql.Open("sqlite", filepath.Join(home, "bare.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"))
	defer bare.Close()
	bare.SetMaxOpenConns(1)
	must(bare.Exec("CREATE TABLE t(id INTEGER PRIMARY KEY, body BLOB)"))
	insert := must(bare.Prepare("INSERT INTO t(body) VALUES(?)"))
	run, body, ctx := begin(s), make([]byte, 200), context.Background()
	var ours, theirs time.Duration
	n := 0
	for b.Loop() {
		n++
		in, out := call(run, n, true)
		t0 := time.Now()
		must(s.Append(ctx, in))
		must(s.Append(ctx, out))
		t1 := time.Now()
		must(insert.Exec(body))
		ours, theirs = ours+t1.Sub(t0), theirs+time.Since(t1)
	}
	b.ReportMetric(float64(ours.Microseconds())/float64(n), "us/call")
	b.ReportMetric(float64(theirs.Microseconds())/float64(n), "us/bare-insert")
	b.ReportMetric(float64(ours)/float64(theirs), "ratio")
}

// BenchmarkCalls64 is 64 concurrent callers' effectful calls.
func BenchmarkCalls64(b *testing.B) {
	s, _ := benchStore(b, sqlite.Power)
	run, ctx := begin(s), context.Background()
	var n atomic.Int64
	b.SetParallelism(32) // times GOMAXPROCS, which is 2 on the reference machine
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			in, out := call(run, int(n.Add(1)), true)
			must(s.Append(ctx, in))
			must(s.Append(ctx, out))
		}
	})
	b.ReportMetric(float64(n.Load())/b.Elapsed().Seconds(), "calls/s")
}

// fill makes a ledger of n effectful calls in runs of 10,000.
func fill(tb testing.TB, s store.Store, n int) {
	tb.Helper()
	for left := n; left > 0; left -= 10_000 {
		run := begin(s)
		var batch []ledger.Entry
		for i := 1; i <= min(left, 10_000); i++ {
			in, out := call(run, i, false)
			if batch = append(batch, in, out); len(batch) >= 1000 {
				must(s.Append(context.Background(), batch...))
				batch = batch[:0]
			}
		}
		if len(batch) > 0 {
			must(s.Append(context.Background(), batch...))
		}
	}
}

func size(home string) (sum int64) {
	for _, f := range must(filepath.Glob(filepath.Join(home, sqlite.File+"*"))) {
		sum += must(os.Stat(f)).Size()
	}
	return sum
}

// A call with small arguments and result costs less than 490 bytes of disk, besides
// what an empty ledger takes.
func TestACallIsSmall(t *testing.T) {
	home, empty := t.TempDir(), t.TempDir()
	if err := must(sqlite.Open(context.Background(), sqlite.Options{Home: empty, Durability: sqlite.Process})).Close(); err != nil {
		t.Fatal(err)
	}
	s := must(sqlite.Open(context.Background(), sqlite.Options{Home: home, Durability: sqlite.Process}))
	const n = 2000
	run := begin(s)
	for i := 1; i <= n; i++ {
		in, out := call(run, i, false)
		must(s.Append(context.Background(), in, out))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	per := float64(size(home)-size(empty)) / n
	t.Logf("%.1f bytes per call", per)
	if per >= 490 {
		t.Errorf("a call costs %.1f bytes, want less than 490", per)
	}
}

// BenchmarkVerify verifies a ledger of 100,000 calls.
func BenchmarkVerify(b *testing.B) {
	s, _ := benchStore(b, sqlite.Process)
	fill(b, s, 100_000)
	events := uint64(0)
	for b.Loop() {
		r := must(s.Verify(context.Background(), store.VerifyOptions{}))
		if len(r.Problems) > 0 {
			b.Fatalf("%+v", r.Problems)
		}
		events += r.Events
	}
	b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkLookups shows that finding a run and opening are flat however long the ledger is.
func BenchmarkLookups(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		s, home := benchStore(b, sqlite.Process)
		fill(b, s, n)
		id := must(s.Runs(context.Background(), store.RunFilter{}))[0].ID.String()
		b.Run(fmt.Sprintf("runs-%d", n), func(b *testing.B) {
			for b.Loop() {
				must(s.Runs(context.Background(), store.RunFilter{}))
			}
		})
		b.Run(fmt.Sprintf("run-%d", n), func(b *testing.B) {
			for b.Loop() {
				must(s.Run(context.Background(), id))
			}
		})
		b.Run(fmt.Sprintf("open-%d", n), func(b *testing.B) {
			for b.Loop() {
				_ = must(sqlite.Open(context.Background(), sqlite.Options{Home: home})).Close()
			}
		})
	}
}

// BenchmarkRecover shows that looking for dead owners is flat however many runs are open.
func BenchmarkRecover(b *testing.B) {
	for _, n := range []int{1, 5000} {
		s, _ := benchStore(b, sqlite.Process)
		for range n {
			begin(s)
		}
		b.Run(fmt.Sprintf("open-%d", n), func(b *testing.B) {
			for b.Loop() {
				must(s.Recover(context.Background()))
			}
		})
	}
}

// What a request costs to look for dead owners is the same however many runs are open: none of
// them is read.
func TestRecoverReadsNoOpenRuns(t *testing.T) {
	allocations := map[int]float64{}
	for _, open := range []int{1, 300} {
		s, _ := benchStore(t, sqlite.Process)
		for range open {
			begin(s)
		}
		must(s.Recover(context.Background()))
		allocations[open] = testing.AllocsPerRun(50, func() { must(s.Recover(context.Background())) })
	}
	if allocations[300] > allocations[1]+20 {
		t.Errorf("with 300 open runs it allocates %v times, with one %v times", allocations[300], allocations[1])
	}
}

// What one event costs is the same however many are beside it: no other event is read.
func TestOneEventReadsNoOthers(t *testing.T) {
	ctx := context.Background()
	for name, read := range map[string]func(s *sqlite.Store, first ledger.Seq) iter.Seq2[ledger.Stored, error]{
		"Events": func(s *sqlite.Store, first ledger.Seq) iter.Seq2[ledger.Stored, error] { return s.Events(ctx, first) },
		"Find": func(s *sqlite.Store, _ ledger.Seq) iter.Seq2[ledger.Stored, error] {
			return s.Find(ctx, store.EventFilter{})
		},
	} {
		allocations := map[int]float64{}
		for _, events := range []int{1, 300} {
			s, _ := benchStore(t, sqlite.Process)
			first := begin(s)
			for range events - 1 {
				begin(s)
			}
			allocations[events] = testing.AllocsPerRun(50, func() {
				for _, err := range read(s, first) {
					if err != nil {
						t.Fatal(err)
					}
					break
				}
			})
		}
		if allocations[300] > allocations[1]+20 {
			t.Errorf("%s: of 300 events the first one takes %v allocations, of one %v", name, allocations[300], allocations[1])
		}
	}
}
