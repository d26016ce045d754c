package storetest

import (
	"context"
	"encoding/binary"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/record/store"
)

// CostOfAQuestion counts the rows that a new process reads to file, list, answer, use and close one
// question. The number must not grow with the questions that were closed or lapsed before.
func CostOfAQuestion(t *testing.T, open OpenStore) {
	home := t.TempDir()
	f := &costFixture{t: t, at: time.Now(), open: func() store.Backend { b, _ := open(t, home).(store.Backend); return b }}
	f.add(24)
	few := f.costs()
	f.add(200)
	if many := f.costs(); !maps.Equal(few, many) {
		t.Errorf("rows read beside 24 questions: %v; beside 224: %v", few, many)
	}
	for step, n := range few {
		if n < 1 || n > 40 {
			t.Errorf("%s read %d rows", step, n)
		}
	}
}

type costFixture struct {
	t    *testing.T
	at   time.Time
	open func() store.Backend
	made uint64
}

func (f *costFixture) check(_ any, err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// question makes a new question that was asked some time ago, and may be answered for an hour.
func (f *costFixture) question(ago time.Duration) store.Approval {
	f.made++
	q := store.Approval{ID: uuid.Must(uuid.NewV7()), Holder: "agent:x", Needs: 2, Asked: f.at.Add(-ago), Until: f.at.Add(time.Hour - ago), GoodFor: time.Hour, Body: []byte(`{}`)}
	binary.BigEndian.PutUint64(q.Binding[:], f.made)
	return q
}

// add adds n questions: used, refused, withdrawn, or lapsed with an answer.
func (f *costFixture) add(n int) {
	ctx, s := context.Background(), f.open()
	vote := func(q store.Approval, by string, yes bool) {
		f.check(s.Vote(ctx, q.ID, store.Vote{By: by, Yes: yes, At: q.Asked}))
	}
	for i := range n {
		q := f.question(time.Duration(i%4/3) * 2 * time.Hour)
		f.check(s.Request(ctx, q))
		vote(q, "user:ann", true)
		switch i % 4 {
		case 0:
			vote(q, "user:bob", true)
			_, _, err := s.Claim(ctx, q.Binding, f.at)
			f.check(nil, err)
		case 1:
			vote(q, "user:bob", false)
		case 2:
			f.check(nil, s.CloseQuestion(ctx, q.ID, store.Closing{By: "user:ann", At: f.at}))
		}
	}
	q := f.question(0)
	f.check(s.Request(ctx, q))
	f.check(nil, s.Close())
	s = f.open() // lapsed questions are read once more, and then left out
	vote(q, "user:ann", false)
	f.check(nil, s.Close())
}

// costs counts the rows that each step of a question reads in a new process.
func (f *costFixture) costs() map[string]int64 {
	ctx, out := context.Background(), map[string]int64{}
	one, two := f.question(0), f.question(0)
	yes := func(by string) func(s store.Backend) error {
		return func(s store.Backend) error {
			_, err := s.Vote(ctx, one.ID, store.Vote{By: by, Yes: true, At: f.at})
			return err
		}
	}
	for _, step := range []struct {
		name string
		do   func(s store.Backend) error
	}{
		{"file", func(s store.Backend) error { _, err := s.Request(ctx, one); return err }},
		{"file another", func(s store.Backend) error { _, err := s.Request(ctx, two); return err }},
		{"find the filed one", func(s store.Backend) error { _, err := s.Request(ctx, one); return err }},
		{"list", func(s store.Backend) error {
			_, err := s.Questions(ctx, store.QuestionFilter{State: store.Waiting, Limit: 2})
			return err
		}},
		{"answer", yes("user:ann")},
		{"approve", yes("user:bob")},
		{"use", func(s store.Backend) error { _, _, err := s.Claim(ctx, one.Binding, f.at); return err }},
		{"close", func(s store.Backend) error {
			return s.CloseQuestion(ctx, two.ID, store.Closing{By: "user:ann", At: f.at})
		}},
	} {
		s := f.open()
		counter, _ := s.(interface{ Scanned() int64 })
		before := counter.Scanned()
		f.check(nil, step.do(s))
		out[step.name] = counter.Scanned() - before
		f.check(nil, s.Close())
	}
	return out
}

// SealedListsInMotion lists questions while they are asked, answered and closed. No list is refused.
func SealedListsInMotion(t *testing.T, open OpenStore) {
	ctx, home := context.Background(), t.TempDir()
	f := &costFixture{t: t, at: time.Now(), open: func() store.Backend { b, _ := open(t, home).(store.Backend); return b }}
	s := f.open()
	over := make(chan struct{})
	moved := make(chan error, 1)
	go func() {
		for {
			select {
			case <-over:
				moved <- nil
				return
			default:
			}
			q := f.question(0)
			_, err := s.Request(ctx, q)
			if err == nil {
				_, err = s.Vote(ctx, q.ID, store.Vote{By: "user:ann", Yes: true, At: f.at})
			}
			if err == nil {
				err = s.CloseQuestion(ctx, q.ID, store.Closing{By: "user:ann", At: f.at})
			}
			if err != nil {
				moved <- err
				return
			}
		}
	}()
	for range 100 {
		_, err := s.Questions(ctx, store.QuestionFilter{State: store.Waiting, Sealed: true})
		if err != nil {
			t.Error(err)
			break
		}
	}
	close(over)
	f.check(nil, <-moved)
}

// movingContext calls move each time that a statement begins or waits.
type movingContext struct {
	context.Context
	move func()
}

// Done implements context.Context.
func (c movingContext) Done() <-chan struct{} {
	c.move()
	return c.Context.Done()
}

// AgentsInMotion reads an agent that another process saves at each moment. Once that process is
// done, the agent is read; it was never damaged.
func AgentsInMotion(t *testing.T, open OpenStore) {
	home := t.TempDir()
	s, _ := open(t, home).(store.Backend)
	other, _ := open(t, home).(store.Backend)
	save := func(a store.AgentRecord) store.AgentRecord {
		a.Doc, a.By, a.Saved = []byte(`{}`), "user:ann", time.Now()
		a, err := other.SaveAgent(context.Background(), a)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	a := save(store.AgentRecord{ID: uuid.Must(uuid.NewV7()), Name: "a"})
	var mu sync.Mutex // statements wait in goroutines of their own
	left, calls := 60, 0
	got, err := s.Agent(movingContext{t.Context(), func() {
		mu.Lock()
		defer mu.Unlock()
		if calls++; left > 0 && calls%8 == 0 {
			left--
			a = save(a)
		}
	}}, a.ID.String())
	mu.Lock()
	defer mu.Unlock()
	if err != nil || got.Version != a.Version || left > 0 {
		t.Errorf("version %d was read, %v; want %d, with %d changes left", got.Version, err, a.Version, left)
	}
}
