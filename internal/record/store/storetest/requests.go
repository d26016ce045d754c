package storetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/record/store"
)

// Requests checks a store against the contract of store.Requests.
func Requests(t *testing.T, open OpenStore) {
	t.Helper()
	for name, run := range map[string]func(t *testing.T, open OpenStore){
		"a request is made once, and comes back":             requestsOnce,
		"of many at once, in two stores on one home, one is": requestsRace,
		"of one holder the newest are kept":                  requestsBounded,
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

// beganAs begins a request and says whether it may be made.
func beganAs(t *testing.T, s store.Requests, r store.RequestRecord, want bool) store.RequestRecord {
	t.Helper()
	was, fresh, err := s.BeginRequest(context.Background(), r, 100)
	if err != nil || fresh != want {
		t.Fatalf("BeginRequest of %s %x = %v, %v; want %v", r.Holder, r.Key[:1], fresh, err, want)
	}
	return was
}

func requestsOnce(t *testing.T, open OpenStore) {
	ctx, home := context.Background(), t.TempDir()
	s, a := openRequests(t, open, home)
	first := requestNamed("ann", 1)
	beganAs(t, a, first, true)
	other := first
	other.Print[0] = 99
	if was := beganAs(t, a, other, false); was.Print != first.Print || was.Status != 0 {
		t.Errorf("of one under way comes back %+v", was)
	}
	beganAs(t, a, requestNamed("bob", 1), true) // another's key is another one
	beganAs(t, a, requestNamed("ann", 2), true)
	first.Status, first.Place = 201, "/v1/agents/1"
	for _, err := range []error{a.EndRequest(ctx, first), a.EndRequest(ctx, requestNamed("ann", 2)), a.EndRequest(ctx, requestNamed("eve", 9)), s.Close()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	s, a = openRequests(t, open, home)
	if was := beganAs(t, a, other, false); was.Status != 201 || was.Place != first.Place || was.Print != first.Print || !was.Until.Equal(first.Until) {
		t.Errorf("it comes back as %+v, want %+v", was, first)
	}
	beganAs(t, a, requestNamed("ann", 2), true) // it was forgotten
	past := requestNamed("ann", 3)
	past.Until = time.Now().Add(-time.Minute)
	beganAs(t, a, past, true)
	beganAs(t, a, requestNamed("ann", 3), true) // it was over
	other.Status = 500
	if err := a.EndRequest(ctx, other); err != nil {
		t.Fatal(err)
	}
	if was := beganAs(t, a, first, false); was.Status != 201 {
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
				_, fresh, err := []store.Requests{a, b}[j%2].BeginRequest(context.Background(), requestNamed("ann", key), 100)
				if err != nil {
					t.Errorf("BeginRequest: %v", err)
				}
				if fresh {
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
	s, a := openRequests(t, open, t.TempDir())
	beganAs(t, a, requestNamed("bob", 1), true)
	begin := func(key byte) bool {
		t.Helper()
		r := requestNamed("ann", key)
		r.Until = r.Until.Add(time.Duration(key) * time.Second)
		_, fresh, err := a.BeginRequest(context.Background(), r, 5)
		if err != nil {
			t.Fatal(err)
		}
		return fresh
	}
	for key := range byte(12) {
		begin(key)
	}
	kept := ""
	for key := byte(11); key < 12; key-- {
		if begin(key) {
			break // from here on each takes another's place
		}
		kept += fmt.Sprint(key, " ")
	}
	if kept != "11 10 9 8 7 " {
		t.Errorf("kept are %s, want the newest 5", kept)
	}
	beganAs(t, a, requestNamed("bob", 1), false)
	sound(t, s)
}

func requestsClosed(t *testing.T, open OpenStore) {
	s, a := openRequests(t, open, t.TempDir())
	r := requestNamed("ann", 1)
	beganAs(t, a, r, true)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, fresh, err := a.BeginRequest(context.Background(), requestNamed("ann", 2), 5); err == nil || fresh {
		t.Errorf("BeginRequest of a closed store: %v, %v", fresh, err)
	}
	if err := a.EndRequest(context.Background(), r); err == nil {
		t.Error("EndRequest of a closed store gives no error")
	}
}
