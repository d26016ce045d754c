package storetest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
)

// Requests checks a store against the contract of store.Requests.
func Requests(t *testing.T, open OpenStore) {
	t.Helper()
	for name, run := range map[string]func(t *testing.T, open OpenStore){
		"a request is made once, and comes back":             requestsOnce,
		"of many at once, in two stores on one home, one is": requestsRace,
		"of one holder the newest with an answer are kept":   requestsBounded,
		"of many claims one counts, whoever dies":            requestsModel,
		"a closed store refuses":                             requestsClosed,
	} {
		t.Run(name, func(t *testing.T) { run(t, open) })
	}
}

func openRequests(t *testing.T, open OpenStore, home string) (store.Store, store.Requests) {
	t.Helper()
	s := open(t, home)
	r, ok := s.(store.Requests)
	if !ok {
		t.Fatalf("%T keeps no requests", s)
	}
	return s, r
}

func requestNamed(holder string, key byte) store.RequestRecord {
	return store.RequestRecord{Holder: holder, Key: [32]byte{key}, Print: [32]byte{key, 1}, Until: time.Now().Add(time.Hour).Truncate(time.Microsecond).UTC()}
}

// beganAs begins a request and checks its state.
func beganAs(t *testing.T, s store.Requests, r store.RequestRecord, want store.RequestState) store.RequestRecord {
	t.Helper()
	was, state, err := s.BeginRequest(context.Background(), r, 100)
	if err != nil || state != want {
		t.Fatalf("BeginRequest of %s %x = %d, %v; want %d", r.Holder, r.Key[:1], state, err, want)
	}
	return was
}

func requestsOnce(t *testing.T, open OpenStore) {
	ctx, home := context.Background(), t.TempDir()
	s, a := openRequests(t, open, home)
	first := requestNamed("ann", 1)
	beganAs(t, a, first, store.RequestClaimed)
	other := first
	other.Print[0] = 99
	if was := beganAs(t, a, other, store.RequestUnderWay); was.Print != first.Print || was.Status != 0 {
		t.Errorf("of one under way comes back %+v", was)
	}
	beganAs(t, a, requestNamed("bob", 1), store.RequestClaimed) // another's key is another one
	beganAs(t, a, requestNamed("ann", 2), store.RequestClaimed)
	first.Status, first.Place = 201, "/v1/agents/1"
	for _, err := range []error{a.EndRequest(ctx, first), a.EndRequest(ctx, requestNamed("ann", 2)), a.EndRequest(ctx, requestNamed("eve", 9)), s.Close()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	s, a = openRequests(t, open, home)
	if was := beganAs(t, a, other, store.RequestAnswered); was.Status != 201 || was.Place != first.Place || was.Print != first.Print || !was.Until.Equal(first.Until) {
		t.Errorf("it comes back as %+v, want %+v", was, first)
	}
	beganAs(t, a, requestNamed("ann", 2), store.RequestClaimed) // it was forgotten
	past := requestNamed("ann", 3)
	past.Until = time.Now().Add(-time.Minute)
	beganAs(t, a, past, store.RequestClaimed)
	beganAs(t, a, requestNamed("ann", 3), store.RequestClaimed) // it was over
	other.Status = 500
	if err := a.EndRequest(ctx, other); err != nil {
		t.Fatal(err)
	}
	if was := beganAs(t, a, first, store.RequestAnswered); was.Status != 201 {
		t.Errorf("another request's end counts as its own: %+v", was)
	}
	sound(t, s)
}

func requestsRace(t *testing.T, open OpenStore) {
	home := t.TempDir()
	sa, a := openRequests(t, open, home)
	_, b := openRequests(t, open, home)
	for key := range byte(20) {
		var wg sync.WaitGroup
		var made atomic.Int32
		for j := range 4 {
			wg.Go(func() {
				_, state, err := []store.Requests{a, b}[j%2].BeginRequest(context.Background(), requestNamed("ann", key), 100)
				if err != nil {
					t.Errorf("BeginRequest: %v", err)
				}
				if state == store.RequestClaimed {
					made.Add(1)
				}
			})
		}
		wg.Wait()
		if made.Load() != 1 {
			t.Errorf("a request may be made %d times", made.Load())
		}
	}
	sound(t, sa)
}

func requestsBounded(t *testing.T, open OpenStore) {
	ctx := context.Background()
	s, a := openRequests(t, open, t.TempDir())
	beganAs(t, a, requestNamed("bob", 1), store.RequestClaimed)
	named := func(key byte) store.RequestRecord {
		r := requestNamed("ann", key)
		r.Until = r.Until.Add(time.Duration(key) * time.Second)
		return r
	}
	begin := func(key byte) (store.RequestState, error) {
		_, state, err := a.BeginRequest(ctx, named(key), 5)
		return state, err
	}
	claim := func(key byte, status int) {
		t.Helper()
		r := named(key)
		state, err := begin(key)
		if r.Status = status; err == nil && status != 0 {
			err = a.EndRequest(ctx, r)
		}
		if err != nil || state != store.RequestClaimed {
			t.Fatalf("key %d: %d, %v", key, state, err)
		}
	}
	claim(0, 0)   // has no answer
	claim(1, 503) // has failed
	for key := byte(2); key < 12; key++ {
		claim(key, 201)
	}
	for key, want := range map[byte]store.RequestState{0: store.RequestUnderWay, 1: store.RequestAnswered, 11: store.RequestAnswered, 10: store.RequestAnswered, 9: store.RequestAnswered} {
		if state, err := begin(key); err != nil || state != want {
			t.Errorf("key %d: %d, %v; want %d", key, state, err, want)
		}
	}
	claim(2, 0) // from here on each takes the place of an answered one
	claim(3, 0)
	claim(4, 503)
	if state, err := begin(5); !errors.Is(err, fault.LimitReached) || state != store.RequestUnderWay {
		t.Errorf("beside five without an answer: %d, %v; want a refusal", state, err)
	}
	if state, err := begin(0); err != nil || state != store.RequestUnderWay {
		t.Errorf("the one without an answer: %d, %v", state, err)
	}
	beganAs(t, a, requestNamed("bob", 1), store.RequestUnderWay)
	sound(t, s)
}

func requestsClosed(t *testing.T, open OpenStore) {
	s, a := openRequests(t, open, t.TempDir())
	r := requestNamed("ann", 1)
	beganAs(t, a, r, store.RequestClaimed)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, state, err := a.BeginRequest(context.Background(), requestNamed("ann", 2), 5); err == nil || state != store.RequestUnderWay {
		t.Errorf("BeginRequest of a closed store: %d, %v", state, err)
	}
	if err := a.EndRequest(context.Background(), r); err == nil {
		t.Error("EndRequest of a closed store gives no error")
	}
}
