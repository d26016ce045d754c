package sqlite_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
)

func none(string) error { return nil }

// sound fails the test unless the ledger verifies, against an older checkpoint if there is
// one.
func sound(t *testing.T, s *sqlite.Store, older []byte) {
	t.Helper()
	rep, err := s.Verify(context.Background(), store.VerifyOptions{Checkpoint: older})
	if err != nil || !rep.OK {
		t.Errorf("%+v, %v", rep.Problems, err)
	}
}

func TestTheKeyOfALedgerIsRotated(t *testing.T) {
	ctx, home := context.Background(), t.TempDir()
	s := openWith(t, sqlite.Options{Home: home})
	neighbour := openWith(t, sqlite.Options{Home: home}) // another process, with the old key in memory
	first := s.PublicKey()
	run := begin(s)
	older := must(s.Checkpoint(ctx))
	for range 3 {
		announced := ""
		r := must(s.RotateKey(ctx, func(public string) error {
			announced = public
			return nil
		}))
		if r.New != announced || r.New != s.PublicKey() || r.Old == r.New {
			t.Fatalf("%+v", r)
		}
		begin(neighbour)
		must(neighbour.Checkpoint(ctx)) // with the new key
		if neighbour.PublicKey() != r.New {
			t.Fatal("a neighbour signs with the old key")
		}
		begin(s)
	}
	if got := s.Rotations(); len(got) != 3 || got[0].Old != first {
		t.Fatalf("%+v", got)
	}
	sound(t, s, older)
	sound(t, openWith(t, sqlite.Options{Home: home}), older)
	var proof bytes.Buffer
	if err := s.Prove(ctx, run, &proof); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{first, s.Rotations()[1].Old, s.PublicKey()} { // who knows one key follows
		if _, _, err := ledger.CheckProof(proof.Bytes(), key); err != nil {
			t.Errorf("with %s: %v", key, err)
		}
	}
	stranger := openWith(t, sqlite.Options{Home: t.TempDir()})
	if _, _, err := ledger.CheckProof(proof.Bytes(), stranger.PublicKey()); !errors.Is(err, fault.VerifyFailed) {
		t.Errorf("%v", err)
	}
	for _, name := range []string{"ledger.key.next"} {
		if _, err := os.Stat(filepath.Join(home, "keys", name)); err == nil {
			t.Errorf("%s is left", name)
		}
	}
}

// TestAnOldKeySignsNothingMore has a thief of the old private key.
func TestAnOldKeySignsNothingMore(t *testing.T) {
	ctx, home := context.Background(), t.TempDir()
	s := openWith(t, sqlite.Options{Home: home})
	stolen := must(note.NewSigner(strings.TrimSpace(string(must(os.ReadFile(filepath.Join(home, "keys", "ledger.key")))))))
	begin(s)
	r := must(s.RotateKey(ctx, none))
	begin(s)
	head := must(s.Head(ctx))
	forged := must(note.Sign(&note.Note{Text: ledger.Checkpoint{Origin: head.Origin, Size: head.Size, Root: head.Root, Prev: r.Size}.String()}, stolen))
	if _, err := s.OpenCheckpoint(forged); !errors.Is(err, fault.VerifyFailed) {
		t.Errorf("%v", err)
	}
	if b := must(os.ReadFile(filepath.Join(home, "keys", "state.key"))); bytes.Contains(b, []byte("PRIVATE")) {
		t.Error("the old private key is kept")
	}
}

// TestARotationThatWasKilled has the files as they are at each moment of a rotation.
func TestARotationThatWasKilled(t *testing.T) {
	ctx, home := context.Background(), t.TempDir()
	s := must(sqlite.Open(ctx, sqlite.Options{Home: home}))
	begin(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before := filesOf(t, home)
	s = must(sqlite.Open(ctx, sqlite.Options{Home: home}))
	r := must(s.RotateKey(ctx, none))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	after := filesOf(t, home)
	next := string(after["keys/ledger.key"]) + string(after["keys/ledger.rotations"])
	for at, tt := range map[string]struct {
		changed []string // files as they are after the rotation
		key     string
	}{
		"before the commit":                 {nil, r.Old},
		"after the commit":                  {[]string{"remit.db"}, r.New},
		"the rotations are in place":        {[]string{"remit.db", "keys/ledger.rotations"}, r.New},
		"the public key is in place":        {[]string{"remit.db", "keys/ledger.rotations", "keys/ledger.pub"}, r.New},
		"the private key is in place":       {[]string{"remit.db", "keys/ledger.rotations", "keys/ledger.key"}, r.New},
		"all is in place, the stage is not": {[]string{"remit.db", "keys/ledger.rotations", "keys/ledger.pub", "keys/ledger.key"}, r.New},
	} {
		t.Run(at, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name string, b []byte) {
				if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700), os.WriteFile(filepath.Join(dir, name), b, 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			for name, b := range before {
				write(name, b)
			}
			write("keys/state.key", after["keys/state.key"])
			write("keys/ledger.key.next", []byte(next))
			for _, name := range tt.changed {
				write(name, after[name])
			}
			s := openWith(t, sqlite.Options{Home: dir})
			begin(s)
			must(s.Checkpoint(ctx))
			if s.PublicKey() != tt.key {
				t.Errorf("the key %s signs", s.PublicKey())
			}
			sound(t, s, nil)
			must(s.CheckPublicKey(ctx))
			if b := must(os.ReadFile(filepath.Join(dir, "keys", "ledger.pub"))); strings.TrimSpace(string(b)) != tt.key {
				t.Errorf("the public key is %s", b)
			}
			must(s.RotateKey(ctx, none))
			again := openWith(t, sqlite.Options{Home: dir})
			begin(again)
			sound(t, again, nil)
		})
	}
}

// filesOf reads the files of a ledger that is closed.
func filesOf(t *testing.T, home string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for _, name := range []string{"remit.db", "keys/ledger.key", "keys/ledger.pub", "keys/blob.key", "keys/ledger.rotations", "keys/state.key"} {
		b, err := os.ReadFile(filepath.Join(home, name))
		if err == nil {
			out[name] = b
		} else if !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	return out
}

// TestRotationsAreComparedWithTheirEvents: a key that no event announces is named, and so is an
// announced one that keys/ lacks.
func TestRotationsAreComparedWithTheirEvents(t *testing.T) {
	ctx := context.Background()
	s := openWith(t, sqlite.Options{Home: t.TempDir()})
	say := func(public string, failed fault.Code) error {
		doc := must(json.Marshal(ledger.OperatorAction{Target: public}))
		_, err := s.Append(ctx, ledger.Entry{Payload: ledger.Payload{ledger.PartDoc: doc}, Durable: true,
			Event: ledger.Event{Kind: ledger.Operated, At: 1, Name: ledger.RotateAction, Principal: "ann", Code: failed}})
		return err
	}
	told := func(want ...string) {
		t.Helper()
		rep := must(s.Verify(ctx, store.VerifyOptions{}))
		if !rep.OK || len(rep.Rotations) != len(want) {
			t.Fatalf("%v, told %q, want %q", rep.Problems, rep.Rotations, want)
		}
		for i, w := range want {
			if !strings.Contains(rep.Rotations[i], w) {
				t.Errorf("told %q, want %q", rep.Rotations[i], w)
			}
		}
	}
	begin(s)
	must(s.RotateKey(ctx, func(public string) error { return say(public, 0) }))
	told()
	must(0, say("announced", 0))
	must(0, say("announced", fault.StoreFailed))
	told() // the event says that it failed
	must(0, say("other", 0))
	told("announces the key " + ledger.KeyID("other") + ", which keys/ledger.rotations lacks")
	must(0, say("other", fault.StoreFailed))
	r := must(s.RotateKey(ctx, func(string) error { return nil }))
	must(0, say(r.New, 0)) // too late
	told("announces the key " + ledger.KeyID(r.New) + "; unless an older backup was restored")
}
