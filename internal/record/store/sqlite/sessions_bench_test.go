package sqlite_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
)

func newSession(tb testing.TB, s store.Sessions) uuid.UUID {
	tb.Helper()
	return must(s.SaveSession(context.Background(), store.SessionRecord{ID: uuid.Must(uuid.NewV7()), Doc: []byte(`{}`)})).ID
}

// message is one as agents have them: some hundred bytes of JSON.
func message(n int) store.MessageRecord {
	return store.MessageRecord{Doc: fmt.Appendf(nil, `{"role":"assistant","content":[{"type":"text","text":"This is message %d. %s"}],"usage":{"input_tokens":%d,"output_tokens":%d}}`,
		n, strings.Repeat(fmt.Sprintf("Some more words about %d. ", n*7919%1000), 6), n*31, n*7)}
}

func addMessages(tb testing.TB, s store.Sessions, session uuid.UUID, n int) {
	tb.Helper()
	for i := 0; i < n; {
		var batch []store.MessageRecord
		for ; i < n && len(batch) < 500; i++ {
			batch = append(batch, message(i))
		}
		must(s.AddMessages(context.Background(), session, i-len(batch), batch...))
	}
}

// BenchmarkMessages reads a conversation of 10,000 messages, and its newest 50.
func BenchmarkMessages(b *testing.B) {
	s, _ := benchStore(b, sqlite.Process)
	session := newSession(b, s)
	addMessages(b, s, session, 10_000)
	for name, most := range map[string]int{"all-10000": 10_000, "newest-50": 50} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				n := 0
				for _, err := range s.Messages(context.Background(), session, 0, most == 50) {
					if err != nil {
						b.Fatal(err)
					}
					if n++; n == most {
						break
					}
				}
			}
		})
	}
}

// BenchmarkAddMessages adds messages one by one, in one session and in 200 at
// once.
func BenchmarkAddMessages(b *testing.B) {
	for _, sessions := range []int{1, 200} {
		b.Run(fmt.Sprint(sessions), func(b *testing.B) {
			s, _ := benchStore(b, sqlite.Process)
			var n, who atomic.Int64
			b.SetParallelism((sessions + 1) / 2) // times GOMAXPROCS, which is 2 on the reference machine
			b.RunParallel(func(pb *testing.PB) {
				if who.Add(1) > int64(sessions) {
					return
				}
				session := newSession(b, s)
				for i := 0; pb.Next(); i++ {
					must(s.AddMessages(context.Background(), session, i, message(i)))
					n.Add(1)
				}
			})
			b.ReportMetric(float64(n.Load())/b.Elapsed().Seconds(), "messages/s")
		})
	}
}

// BenchmarkFileTree lists 5,000 files, a tenth of which had several versions, and
// finds and changes one of them.
func BenchmarkFileTree(b *testing.B) {
	ctx := context.Background()
	s, _ := benchStore(b, sqlite.Process)
	session, quota := newSession(b, s), store.Quota{Bytes: 1 << 30, Files: 10_000}
	for d := range 50 {
		changes := []store.FileChange{{Path: fmt.Sprintf("/folder-%d", d), Folder: true}}
		for f := range 99 {
			changes = append(changes, store.FileChange{Path: fmt.Sprintf("/folder-%d/some-file-%d.txt", d, f), Content: fmt.Append(nil, f)})
		}
		must(s.ChangeFiles(ctx, session, quota, changes...))
		for f := range 10 {
			changes[f+1].Was = 1
		}
		must(s.ChangeFiles(ctx, session, quota, changes[1:11]...))
	}
	const path = "/folder-7/some-file-50.txt"
	b.Run("tree-5000", func(b *testing.B) {
		for b.Loop() {
			if n := len(must(s.FileTree(ctx, session))); n != 5000 {
				b.Fatal(n)
			}
		}
	})
	b.Run("change", func(b *testing.B) {
		for b.Loop() {
			f := must(s.File(ctx, session, path, 0))
			must(s.ChangeFiles(ctx, session, quota, store.FileChange{Path: path, Was: f.Version, Content: fmt.Append(nil, f.Version)}))
		}
	})
	b.Run("load", func(b *testing.B) {
		for b.Loop() {
			must(s.LoadFile(ctx, must(s.File(ctx, session, path, 0))))
		}
	})
	b.Run("version-100-before", func(b *testing.B) {
		newest := must(s.File(ctx, session, path, 0)).Version
		for b.Loop() {
			must(s.File(ctx, session, path, max(1, newest-100)))
		}
	})
}
