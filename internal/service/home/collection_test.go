package home_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
	"github.com/remitrun/remit/internal/service/home"
)

type pet struct {
	Name string `json:"name"`
	Legs int    `json:"legs"`
}

func (p pet) Key() string { return p.Name }

// pets is a collection in a folder of its own, and the path of its file.
func pets(t *testing.T) (home.Collection[pet], string) {
	t.Helper()
	dir := t.TempDir()
	ledger, err := sqlite.Open(t.Context(), sqlite.Options{Home: dir, Durability: sqlite.Process})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ledger.Close() })
	h := &home.Home{Config: home.Config{Dir: dir}, Ledger: func(context.Context) (store.Backend, error) { return ledger, nil }}
	return home.Collection[pet]{Home: h, File: "pets.json", Article: "a", One: "pet", Again: "add the pets", Command: "remit pet"}, filepath.Join(dir, "pets.json")
}

func nothing() error { return nil }

func TestACollectionKeepsItsFormat(t *testing.T) {
	list, file := pets(t)
	byName := list
	byName.Decode = func(src []byte) (out []pet, err error) {
		var legs map[string]int
		err = json.Unmarshal(src, &legs)
		for name, n := range legs {
			out = append(out, pet{name, n})
		}
		return out, err
	}
	byName.Encode = func(in []pet) any {
		legs := map[string]int{}
		for _, p := range in {
			legs[p.Name] = p.Legs
		}
		return legs
	}
	for _, k := range []struct {
		name string
		c    home.Collection[pet]
		want string
	}{
		{"list", list, "[\n  {\n    \"name\": \"ant\",\n    \"legs\": 6\n  },\n  {\n    \"name\": \"tom\",\n    \"legs\": 4\n  }\n]\n"},
		{"map", byName, "{\n  \"ant\": 6,\n  \"tom\": 4\n}\n"},
	} {
		if err := os.RemoveAll(file); err != nil {
			t.Fatal(err)
		}
		for _, p := range []pet{{"tom", 3}, {"ant", 6}, {"tom", 4}} {
			if err := k.c.Put(p, nothing); err != nil {
				t.Fatal(err)
			}
		}
		if b, err := os.ReadFile(file); err != nil || string(b) != k.want {
			t.Errorf("%s: the file is %s, %v", k.name, b, err)
		}
		got, err := k.c.List()
		if err != nil || len(got) != 2 || got[0] != (pet{"ant", 6}) || got[1] != (pet{"tom", 4}) {
			t.Errorf("%s: %v, %v", k.name, got, err)
		}
	}
}

func TestACollectionThatCannotBeReadIsNotChanged(t *testing.T) {
	c, file := pets(t)
	c.Damaged = fault.StoreCorrupt
	for _, text := range []string{"null", "", "{}", "[{"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, lerr := c.List()
		for _, err := range []error{lerr, c.Put(pet{"tom", 4}, nothing), c.Remove("tom"), c.CheckName("tom", true)} {
			if !errors.Is(err, fault.StoreCorrupt) {
				t.Errorf("%q: %v", text, err)
			}
		}
		if b, err := os.ReadFile(file); err != nil || string(b) != text {
			t.Errorf("%q became %q, %v", text, b, err)
		}
	}
}

// A change whose files cannot be put in place leaves the list as it is.
func TestAChangeIsAppliedBeforeTheListIsWritten(t *testing.T) {
	c, _ := pets(t)
	failed, swept := errors.New("failed"), false
	c.Sweep = func([]pet) error { swept = true; return nil }
	err := c.Change("add", "tom", func(list []pet) ([]pet, error) { return home.With(list, pet{"tom", 4}), nil }, func() error { return failed })
	if !errors.Is(err, failed) || swept {
		t.Errorf("%v, swept %v", err, swept)
	}
	if _, err := c.Find("tom"); !errors.Is(err, fault.NotFound) {
		t.Errorf("the entry is kept: %v", err)
	}
	c.Unknown = fault.ExtensionUnknown
	if err := c.Remove("tom"); !errors.Is(err, fault.ExtensionUnknown) {
		t.Errorf("%v", err)
	}
}
