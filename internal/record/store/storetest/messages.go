package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// messageDoc is long enough, for some, to be compressed or kept apart.
func messageDoc(n int) []byte {
	size := []int{0, 30, 300, 1500, 5000}[n%5]
	if n == 7 {
		size = 200_000
	}
	return fmt.Appendf(nil, "{ \"n\": %d,\t\"text\":\"%s\"}", n, strings.Repeat(fmt.Sprint(n*n), size/len(fmt.Sprint(n*n))))
}

func converse(t *testing.T, g store.Sessions, session uuid.UUID, run ledger.Seq, from, to int) (all []store.MessageRecord) {
	t.Helper()
	for i := from; i <= to; i++ {
		all = append(all, store.MessageRecord{Number: i, Run: run, Doc: messageDoc(i), At: ledger.Time(base + int64(i))})
	}
	for chunk := range slices.Chunk(all, 400) {
		if n, err := g.AddMessages(context.Background(), session, chunk[0].Number-1, chunk...); err != nil || n != chunk[len(chunk)-1].Number {
			t.Fatalf("AddMessages = %d, %v", n, err)
		}
	}
	return all
}

func read(t *testing.T, g store.Sessions, session uuid.UUID, from int, reverse bool, most int) (out []store.MessageRecord) {
	t.Helper()
	for m, err := range g.Messages(context.Background(), session, from, reverse) {
		if err != nil {
			t.Fatalf("Messages: %v", err)
		}
		if out = append(out, m); len(out) == most {
			break
		}
	}
	return out
}

func messagesComeBack(t *testing.T, open OpenStore) {
	s, g := openSessions(t, open, t.TempDir())
	run, _ := start(t, s, nil)
	session, other := saveSession(t, g, newSession()).ID, saveSession(t, g, newSession()).ID
	if got := read(t, g, session, 0, false, -1); got != nil {
		t.Errorf("an empty conversation has %d messages", len(got))
	}
	if got := read(t, g, session, 0, true, -1); got != nil {
		t.Errorf("an empty conversation has %d messages, backwards", len(got))
	}
	converse(t, g, other, 0, 1, 3)
	want := converse(t, g, session, run, 1, 2500)
	converse(t, g, other, 0, 4, 5)
	check := func(what string, got, want []store.MessageRecord) {
		t.Helper()
		if len(got) != len(want) {
			t.Fatalf("%s: %d messages, want %d", what, len(got), len(want))
		}
		for i, w := range want {
			if g := got[i]; g.Number != w.Number || g.Run != w.Run || !g.At.Equal(w.At) || !bytes.Equal(g.Doc, w.Doc) {
				t.Fatalf("%s: place %d has message %d of run %d at %s, %.80q; want %d of run %d at %s, %.80q", what, i, g.Number, g.Run, g.At, g.Doc, w.Number, w.Run, w.At, w.Doc)
			}
		}
	}
	check("all", read(t, g, session, 0, false, -1), want)
	check("from 1", read(t, g, session, 1, false, 3), want[:3])
	check("from 2000", read(t, g, session, 2000, false, -1), want[1999:])
	check("from the last", read(t, g, session, 2500, false, -1), want[2499:])
	check("from beyond", read(t, g, session, 2501, false, -1), nil)
	back := slices.Clone(want)
	slices.Reverse(back)
	check("backwards", read(t, g, session, 0, true, -1), back)
	check("backwards from 200", read(t, g, session, 200, true, -1), back[2300:])
	check("backwards from 1", read(t, g, session, 1, true, -1), back[2499:])
	check("backwards from beyond", read(t, g, session, 9999, true, 2), back[:2])
	for _, err := range g.Messages(context.Background(), v7(), 0, false) {
		wantCode(t, "an unknown session", err, fault.SessionUnknown)
	}
	wantSound(t, s)
}

func messagesRefused(t *testing.T, open OpenStore) {
	ctx := context.Background()
	s, g := openSessions(t, open, t.TempDir())
	session := saveSession(t, g, newSession()).ID
	m := func(run ledger.Seq) store.MessageRecord { return store.MessageRecord{Run: run, Doc: []byte("1")} }
	add := func(what string, code fault.Code, session uuid.UUID, after int, ms ...store.MessageRecord) {
		t.Helper()
		_, err := g.AddMessages(ctx, session, after, ms...)
		wantCode(t, what, err, code)
	}
	add("to no session", fault.SessionUnknown, v7(), 0, m(0))
	add("after what is not there", fault.Stale, session, 1, m(0))
	add("after less than nothing", fault.Internal, session, -1, m(0))
	add("of a run that is not there", fault.Internal, session, 0, m(0), m(99))
	converse(t, g, session, 0, 1, 3)
	add("after another than the last", fault.Stale, session, 2, m(0))
	add("nothing after another than the last", fault.Stale, session, 2)
	if n, err := g.AddMessages(ctx, session, 3); n != 3 || err != nil {
		t.Errorf("nothing added = %d, %v", n, err)
	}
	if got := read(t, g, session, 0, false, -1); len(got) != 3 {
		t.Errorf("%d messages, want 3", len(got))
	}
	wantSound(t, s)
}

func messagesRace(t *testing.T, open OpenStore) {
	ctx, home := context.Background(), t.TempDir()
	s, g := openSessions(t, open, home)
	_, h := openSessions(t, open, home)
	session := saveSession(t, g, newSession()).ID
	var wg sync.WaitGroup
	for w := range 6 {
		wg.Go(func() {
			for done, after := 0, 0; done < 20; {
				n, err := []store.Sessions{g, h}[w%2].AddMessages(ctx, session, after, store.MessageRecord{Doc: fmt.Append(nil, w, " ", done)})
				if err == nil {
					done, after = done+1, n
					continue
				}
				if !errors.Is(err, fault.Stale) {
					t.Errorf("AddMessages: %v", err)
					return
				}
				r, err := g.Session(ctx, session.String())
				if err != nil {
					t.Errorf("Session: %v", err)
					return
				}
				after = r.Last
			}
		})
	}
	wg.Wait()
	next := map[byte]int{}
	got := read(t, g, session, 0, false, -1)
	for _, m := range got {
		if want := fmt.Append(nil, string(m.Doc[0]), " ", next[m.Doc[0]]); !bytes.Equal(m.Doc, want) {
			t.Fatalf("message %d is %q, want %q", m.Number, m.Doc, want)
		}
		next[m.Doc[0]]++
	}
	if len(got) != 120 {
		t.Errorf("%d messages, want 120", len(got))
	}
	wantSound(t, s)
}

func messagesAtOnce(t *testing.T, open OpenStore) {
	s, g := openSessions(t, open, t.TempDir())
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			r := newSession()
			if _, err := g.SaveSession(context.Background(), r); err != nil {
				t.Errorf("SaveSession: %v", err)
				return
			}
			for i := range 5 {
				if _, err := g.AddMessages(context.Background(), r.ID, i, store.MessageRecord{Doc: messageDoc(i)}); err != nil {
					t.Errorf("AddMessages: %v", err)
				}
			}
			if got := read(t, g, r.ID, 0, false, -1); len(got) != 5 || !bytes.Equal(got[4].Doc, messageDoc(4)) {
				t.Errorf("%d messages, want 5", len(got))
			}
		})
	}
	wg.Wait()
	wantSound(t, s)
}

func messagesGrow(t *testing.T, open OpenStore) {
	_, g := openSessions(t, open, t.TempDir())
	session := saveSession(t, g, newSession()).ID
	converse(t, g, session, 0, 1, 300)
	n := 0
	for m, err := range g.Messages(context.Background(), session, 0, false) {
		if n++; err != nil || m.Number != n {
			t.Fatalf("message %d, %v; want %d", m.Number, err, n)
		}
		if n == 100 || n == 200 {
			converse(t, g, session, 0, n+201, n+300)
		}
	}
	if n < 300 {
		t.Errorf("%d messages, want at least 300", n)
	}
}
