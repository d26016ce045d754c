package sqlite_test

import (
	"context"
	"errors"
	"testing"

	"github.com/remitrun/remit/internal/record/store/sqlite"
)

// TestLongConversationsAreReadInOrder reads one whose pages are read ahead, from
// both ends, and stops at places of every kind: within a page, at its end, and
// while the next is being read.
func TestLongConversationsAreReadInOrder(t *testing.T) {
	const all = 5000
	s, _ := benchStore(t, sqlite.Process)
	session := newSession(t, s)
	addMessages(t, s, session, all)
	for _, reverse := range []bool{false, true} {
		for _, most := range []int{1, 64, 65, 320, 1344, 1345, 2368, 3000, all, all + 1} {
			n := 0
			for m, err := range s.Messages(context.Background(), session, 0, reverse) {
				if err != nil {
					t.Fatal(err)
				}
				n++
				want := n
				if reverse {
					want = all + 1 - n
				}
				if m.Number != want || string(m.Doc) != string(message(want-1).Doc) {
					t.Fatalf("reverse %v: message %d comes in place of %d: %s", reverse, m.Number, want, m.Doc)
				}
				if n == most {
					break
				}
			}
			if n != min(most, all) {
				t.Errorf("reverse %v: %d messages, not %d", reverse, n, min(most, all))
			}
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	n, failed := 0, error(nil)
	for _, err := range s.Messages(ctx, session, 0, false) {
		if failed = err; err != nil {
			break
		}
		if n++; n == 2000 {
			stop()
		}
	}
	if !errors.Is(failed, context.Canceled) || n < 2000 || n == all {
		t.Errorf("given up after 2000 messages, it ends after %d with %v", n, failed)
	}
}
