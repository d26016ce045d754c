package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
)

// Ephemera checks a store against the contract of store.Ephemera.
func Ephemera(t *testing.T, open OpenStore) {
	t.Helper()
	for name, run := range map[string]func(t *testing.T, open OpenStore){
		"a record is seen by another store on the home":        ephemeraShared,
		"a record is replaced only by one who knows it":        ephemeraVersions,
		"of many at once, in two stores on one home, one wins": ephemeraRace,
		"an expired record is missing":                         ephemeraExpire,
		"records are bounded":                                  ephemeraBounded,
		"a closed store refuses":                               ephemeraClosed,
	} {
		t.Run(name, func(t *testing.T) { run(t, open) })
	}
}

func openEphemera(t *testing.T, open OpenStore, home string) (store.Store, store.Ephemera) {
	t.Helper()
	s := open(t, home)
	e, ok := s.(store.Ephemera)
	if !ok {
		t.Fatalf("%T keeps no ephemera", s)
	}
	return s, e
}

func ephemeralNamed(owner string, key byte) store.Ephemeral {
	return store.Ephemeral{Kind: "code", Key: [32]byte{key}, Owner: owner, Data: []byte{key, 0, 'x'}, Until: time.Now().Add(time.Hour).Truncate(time.Microsecond).UTC()}
}

// savedAs saves a record and checks whether it was saved.
func savedAs(t *testing.T, s store.Ephemera, e store.Ephemeral, want bool) {
	t.Helper()
	if got, err := s.SaveEphemeral(context.Background(), e, store.EphemeralBounds{}); err != nil || got != want {
		t.Fatalf("SaveEphemeral of %x, version %d = %v, %v; want %v", e.Key[:1], e.Version, got, err, want)
	}
}

// thereIs finds a record that must be there, or must not.
func thereIs(t *testing.T, s store.Ephemera, key byte, want bool) store.Ephemeral {
	t.Helper()
	e, there, err := s.Ephemeral(context.Background(), "code", [32]byte{key})
	if err != nil || there != want {
		t.Fatalf("Ephemeral %x = %v, %v; want %v", key, there, err, want)
	}
	return e
}

func droppedAs(t *testing.T, s store.Ephemera, e store.Ephemeral, want bool) {
	t.Helper()
	if got, err := s.DropEphemeral(context.Background(), e); err != nil || got != want {
		t.Fatalf("DropEphemeral of %x, version %d = %v, %v; want %v", e.Key[:1], e.Version, got, err, want)
	}
}

func ephemeraShared(t *testing.T, open OpenStore) {
	home := t.TempDir()
	s, a := openEphemera(t, open, home)
	_, b := openEphemera(t, open, home)
	first, second := ephemeralNamed("ann", 1), ephemeralNamed("ann", 2)
	second.Until = second.Until.Add(-time.Minute)
	for _, e := range []store.Ephemeral{first, second, ephemeralNamed("bob", 3)} {
		savedAs(t, a, e, true)
	}
	other := ephemeralNamed("ann", 1)
	other.Kind, other.Data = "browser", nil
	savedAs(t, b, other, true) // of another kind
	first.Version, second.Version = 1, 1
	if d := cmp.Diff(first, thereIs(t, b, 1, true)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	got, err := b.Ephemerals(context.Background(), "code", "ann")
	if d := cmp.Diff([]store.Ephemeral{second, first}, got); err != nil || d != "" {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	thereIs(t, b, 9, false)
	droppedAs(t, b, first, true)
	thereIs(t, a, 1, false)
	droppedAs(t, a, first, false)
	sound(t, s)
}

func ephemeraVersions(t *testing.T, open OpenStore) {
	s, a := openEphemera(t, open, t.TempDir())
	e := ephemeralNamed("ann", 1)
	e.Version = 1
	savedAs(t, a, e, false) // there is none yet
	e.Version = 0
	savedAs(t, a, e, true)
	savedAs(t, a, e, false)
	droppedAs(t, a, e, false)
	e.Version, e.Data, e.Owner = 1, []byte("changed"), "bob"
	savedAs(t, a, e, true)
	if got := thereIs(t, a, 1, true); got.Version != 2 || string(got.Data) != "changed" || got.Owner != "bob" {
		t.Errorf("it is %+v", got)
	}
	droppedAs(t, a, e, false)
	e.Version = 2
	droppedAs(t, a, e, true)
	e.Version = 0
	savedAs(t, a, e, true)
	sound(t, s)
}

func ephemeraRace(t *testing.T, open OpenStore) {
	home := t.TempDir()
	sa, a := openEphemera(t, open, home)
	_, b := openEphemera(t, open, home)
	for key := range byte(10) {
		e := ephemeralNamed("ann", key)
		for what, do := range map[string]func(store.Ephemera) (bool, error){
			"1 saved": func(s store.Ephemera) (bool, error) {
				return s.SaveEphemeral(context.Background(), e, store.EphemeralBounds{})
			},
			"2 dropped": func(s store.Ephemera) (bool, error) { return s.DropEphemeral(context.Background(), e) },
		} {
			e.Version = 0
			if what == "2 dropped" {
				e.Key[1] = 1
				savedAs(t, a, e, true)
				e.Version = 1
			}
			var wg sync.WaitGroup
			var won atomic.Int32
			for j := range 4 {
				wg.Go(func() {
					ok, err := do([]store.Ephemera{a, b}[j%2])
					if err != nil {
						t.Errorf("%s: %v", what, err)
					}
					if ok {
						won.Add(1)
					}
				})
			}
			wg.Wait()
			if won.Load() != 1 {
				t.Errorf("%s: %d of them", what, won.Load())
			}
		}
	}
	sound(t, sa)
}

func ephemeraExpire(t *testing.T, open OpenStore) {
	s, a := openEphemera(t, open, t.TempDir())
	past := ephemeralNamed("ann", 1)
	past.Until = time.Now().Add(-time.Second)
	savedAs(t, a, past, true)
	thereIs(t, a, 1, false)
	past.Version = 1
	droppedAs(t, a, past, false)
	savedAs(t, a, past, false) // it counts as missing, which is version 0
	if got, err := a.Ephemerals(context.Background(), "code", "ann"); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
	savedAs(t, a, ephemeralNamed("ann", 1), true)
	thereIs(t, a, 1, true)
	sound(t, s)
}

func ephemeraBounded(t *testing.T, open OpenStore) {
	s, a := openEphemera(t, open, t.TempDir())
	save := func(owner string, key byte) error {
		_, err := a.SaveEphemeral(context.Background(), ephemeralNamed(owner, key), store.EphemeralBounds{All: 5, Each: 3})
		return err
	}
	past := ephemeralNamed("ann", 99)
	past.Until = time.Now().Add(-time.Hour)
	savedAs(t, a, past, true) // it does not count
	for key := range byte(8) {
		owner, full := "ann", key >= 3 && key < 5 || key == 7
		if key >= 5 {
			owner = fmt.Sprint("bob", key) // the fourth and the fifth of all, and one too many
		}
		if err := save(owner, key); errors.Is(err, fault.LimitReached) != full || err != nil && !full {
			t.Errorf("record %d: %v", key, err)
		}
	}
	again := thereIs(t, a, 1, true)
	if ok, err := a.SaveEphemeral(context.Background(), again, store.EphemeralBounds{All: 1, Each: 1}); !ok || err != nil {
		t.Errorf("one that is there: %v, %v", ok, err)
	}
	sound(t, s)
}

func ephemeraClosed(t *testing.T, open OpenStore) {
	s, a := openEphemera(t, open, t.TempDir())
	e := ephemeralNamed("ann", 1)
	savedAs(t, a, e, true)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if ok, err := a.SaveEphemeral(context.Background(), ephemeralNamed("ann", 2), store.EphemeralBounds{}); err == nil || ok {
		t.Errorf("SaveEphemeral of a closed store: %v, %v", ok, err)
	}
	e.Version = 1
	if ok, err := a.DropEphemeral(context.Background(), e); err == nil || ok {
		t.Errorf("DropEphemeral of a closed store: %v, %v", ok, err)
	}
}
