package approval_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/record/store"
)

// model is what is expected of one binding's questions: at most one waits, none
// where an approval holds that nobody has used, and that one is used once.
type model struct {
	now      time.Duration
	waits    bool
	until    time.Duration // of the one that waits
	yes      map[string]bool
	approved []time.Duration // until when each unused approval holds
}

const (
	waitsFor = 10 * time.Second
	goodFor  = 20 * time.Second
)

// step carries one operation out on the model and says whether it succeeds.
func (m *model) step(op byte) bool {
	open := m.waits && m.now < m.until
	switch op {
	case 'A':
		if !open && !slices.ContainsFunc(m.approved, func(end time.Duration) bool { return m.now < end }) {
			m.waits, m.until, m.yes = true, m.now+waitsFor, map[string]bool{}
		}
		return true
	case 'a', 'b':
		if !open || m.yes[string(op)] {
			return false
		}
		if m.yes[string(op)] = true; len(m.yes) == 2 {
			m.waits = false
			m.approved = append(m.approved, m.now+goodFor)
		}
		return true
	case 'n':
		m.waits = m.waits && !open
		return open
	case 'x':
		m.waits = false
		return true
	case 'c':
		for i, end := range m.approved {
			if m.now < end {
				m.approved = append(m.approved[:i:i], m.approved[i+1:]...)
				return true
			}
		}
		return false
	case 't':
		m.now += waitsFor
		return true
	}
	return false
}

// TestNoInterleavingGivesACallWithoutItsApproval goes through every order of a
// few operations on the questions of one binding, two of which must agree: ask
// (A), Ann's and Bob's yes (a, b), Cat's no (n), withdrawal of what waits (x), a
// claim (c), time that passes (t). The store does what the model does.
func TestNoInterleavingGivesACallWithoutItsApproval(t *testing.T) {
	s := openStore(t)
	const ops = "Aabnxct"
	length := 4
	if racetest.On() {
		length = 3
	}
	claims, total := 0, 0
	for n := range pow(len(ops), length) {
		order := []byte("A")
		for i := n; len(order) <= length; i /= len(ops) {
			order = append(order, ops[i%len(ops)])
		}
		if strings.Count(string(order), "c") == 0 {
			order = append(order, 'c')
		}
		m := &model{}
		var waiting uuid.UUID
		binding := [32]byte{1, byte(n), byte(n >> 8), byte(n >> 16)}
		for i, op := range order {
			at := time.UnixMicro(1_700_000_000_000_000).Add(m.now)
			want, got := m.step(op), perform(t, s, op, binding, &waiting, at)
			total++
			if got != want {
				t.Fatalf("%s: operation %d (%c): %v, not %v", order, i, op, got, want)
			}
			if op == 'c' && got {
				claims++
			}
		}
	}
	if claims < 10 || claims > total/2 {
		t.Errorf("%d claims in %d operations: the test shows little", claims, total)
	}
}

func pow(b, n int) int {
	out := 1
	for range n {
		out *= b
	}
	return out
}

func perform(t *testing.T, s store.Approvals, op byte, binding [32]byte, waiting *uuid.UUID, at time.Time) bool {
	t.Helper()
	unexpected := func(err error) {
		if err != nil && !errors.Is(err, fault.ApprovalGone) && !errors.Is(err, fault.Conflict) {
			t.Fatalf("%c: %v", op, err)
		}
	}
	vote := func(by string, yes bool) bool {
		_, err := s.Vote(t.Context(), *waiting, store.Vote{By: by, Yes: yes, At: at})
		unexpected(err)
		return err == nil
	}
	switch op {
	case 'A':
		q, err := s.Request(t.Context(), store.Approval{
			ID: uuid.New(), Binding: binding, Needs: 2, Asked: at, Until: at.Add(waitsFor), GoodFor: goodFor,
		})
		unexpected(err)
		*waiting = q.ID
		return err == nil
	case 'a':
		return vote("user:ann", true)
	case 'b':
		return vote("user:bob", true)
	case 'n':
		return vote("user:cat", false)
	case 'x':
		q, err := s.Question(t.Context(), waiting.String())
		unexpected(err)
		if q.State == store.Waiting {
			unexpected(s.CloseQuestion(t.Context(), *waiting, store.Closing{By: "test", At: at}))
		}
	case 'c':
		_, ok, err := s.Claim(t.Context(), binding, at)
		unexpected(err)
		return ok
	}
	return true
}
