package witness_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store/sqlite"
	"github.com/remitrun/remit/internal/record/witness"
)

var now = time.Unix(1_700_000_000, 0)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// open opens a ledger until close, or until the end of the test.
func open(t testing.TB, home string) *sqlite.Store {
	t.Helper()
	s := must(sqlite.Open(context.Background(), sqlite.Options{Home: home, Durability: sqlite.Process}))
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// grow appends n events.
func grow(t testing.TB, s *sqlite.Store, n int) {
	t.Helper()
	for range n {
		id := uuid.Must(uuid.NewV7())
		must(s.Append(context.Background(), ledger.Entry{Event: ledger.Event{Kind: ledger.RunStarted, At: 1, ID: id[:], Mode: ledger.Live, Name: "run"}}))
	}
}

// copyHome copies a ledger that is closed.
func copyHome(t testing.TB, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ledger.key", "blob.key"} {
		if err := os.Chmod(filepath.Join(to, "keys", name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

func cosigner(t testing.TB, name string, b byte) *ledger.Cosigner {
	t.Helper()
	return must(ledger.NewCosigner(name, bytes.Repeat([]byte{b}, 32)))
}

// serve runs a witness of a ledger. It returns its address.
func serve(t testing.TB, key *ledger.Cosigner, publicKeys ...string) string {
	t.Helper()
	s := must(witness.NewService(t.TempDir(), key, publicKeys, func() time.Time { return now }))
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	return srv.URL
}

func cosigning(key *ledger.CosignKey, url string) *witness.Cosigning {
	return &witness.Cosigning{Key: key, Now: func() time.Time { return now }, Do: post(url)}
}

func post(url string) witness.Poster {
	return witness.Client(http.DefaultClient, url, func(http.Header) error { return nil })
}

// disagreement fails the test unless err is one.
func disagreement(t testing.TB, err error) *witness.Disagreement {
	t.Helper()
	var d *witness.Disagreement
	if !errors.As(err, &d) {
		t.Fatalf("%v, want a disagreement", err)
	}
	return d
}

func TestAWitnessCosignsALedgerThatGrows(t *testing.T) {
	ctx, home := context.Background(), t.TempDir()
	s := open(t, home)
	key := cosigner(t, "w.example", 1)
	w := cosigning(&key.CosignKey, serve(t, key, s.PublicKey()))
	if kept, err := w.Send(ctx, s, nil); kept != nil || err != nil {
		t.Fatalf("an empty log: %q, %v", kept, err)
	}
	var kept []byte
	for i := range 5 {
		grow(t, s, 1+i*100) // over the blocks of 256 events
		kept = must(w.Send(ctx, s, kept))
		if c := must(s.OpenCheckpoint(kept)); c.Size != must(s.Head(ctx)).Size {
			t.Fatalf("kept %d events", c.Size)
		}
		if i%2 == 0 {
			kept = must(w.Send(ctx, s, kept)) // the same again
		}
	}
	// Who does not know what the witness has finds out.
	if again := must(w.Send(ctx, s, nil)); !strings.Contains(string(again), "— w.example ") {
		t.Errorf("%q", again)
	}
}

func TestARolledBackLedgerIsFoundOut(t *testing.T) {
	ctx, home := context.Background(), t.TempDir()
	s := open(t, home)
	grow(t, s, 300)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	older := copyHome(t, home)
	s = open(t, home)
	grow(t, s, 10)
	file := witness.File{Path: filepath.Join(t.TempDir(), "witness")}
	key := cosigner(t, "w.example", 1)
	w := cosigning(&key.CosignKey, serve(t, key, s.PublicKey()))
	notes := &noteServer{}
	n := &witness.Notes{Do: post(notes.start(t))}
	for _, one := range []witness.Witness{file, w, n} {
		must(one.Send(ctx, s, nil))
	}
	old := open(t, older)
	for name, one := range map[string]witness.Witness{"file": file, "cosigning": w, "notes": n} {
		_, err := one.Send(ctx, old, nil)
		if d := disagreement(t, err); d.Size != 310 || d.Ledger.Size != 300 || d.Signed != (name != "cosigning") {
			t.Errorf("%s: %+v", name, d)
		}
		if err := one.Check(ctx, old); name != "cosigning" {
			disagreement(t, err)
		}
	}
	// The older copy goes on, past what was witnessed: a fork.
	grow(t, old, 40)
	for name, one := range map[string]witness.Witness{"file": file, "cosigning": w, "notes": n} {
		_, err := one.Send(ctx, old, nil)
		if d := disagreement(t, err); d.Size != 310 || !strings.Contains(d.Error(), "are not the first 310 of the ledger's 340") {
			t.Errorf("%s: %+v %v", name, d, d)
		}
	}
	for _, one := range []witness.Witness{file, w, n} { // the true one goes on
		grow(t, s, 1)
		must(one.Send(ctx, s, nil))
	}
}

// TestAForkOfTheSameSize has the same number of events as what was witnessed.
func TestAForkOfTheSameSize(t *testing.T) {
	ctx, home := context.Background(), t.TempDir()
	s := open(t, home)
	grow(t, s, 3)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	other := open(t, copyHome(t, home))
	s = open(t, home)
	key := cosigner(t, "w.example", 1)
	w := cosigning(&key.CosignKey, serve(t, key, s.PublicKey()))
	grow(t, s, 2)
	grow(t, other, 2)
	must(w.Send(ctx, s, nil))
	_, err := w.Send(ctx, other, nil)
	disagreement(t, err)
}

// noteServer keeps the newest note that it was sent.
type noteServer struct{ newest []byte }

func (n *noteServer) start(t testing.TB) string {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			n.newest, _ = io.ReadAll(r.Body)
		case n.newest == nil:
			w.WriteHeader(http.StatusNotFound)
		default:
			_, _ = w.Write(n.newest)
		}
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestAWitnessThatLies(t *testing.T) {
	ctx := context.Background()
	s := open(t, t.TempDir())
	grow(t, s, 5)
	right, wrong := cosigner(t, "w.example", 1), cosigner(t, "w.example", 2)
	text, _, _ := strings.Cut(string(must(s.Checkpoint(ctx))), "\n\n")
	text += "\n"
	late := right.Cosign(text, now.Add(-time.Hour))
	for name, tt := range map[string]struct {
		status int
		answer string
		want   error
	}{
		"nothing":           {200, "", fault.VerifyFailed},
		"garbage":           {200, "— w.example AAAA\n", fault.VerifyFailed},
		"another key":       {200, wrong.Cosign(text, now), fault.VerifyFailed},
		"another log":       {200, right.Cosign("x\n", now), fault.VerifyFailed},
		"an old signature":  {200, late, fault.VerifyFailed},
		"a size as text":    {409, "five\n", fault.StoreFailed},
		"a size below zero": {409, "-1\n", fault.StoreFailed},
		"no size":           {409, "", fault.StoreFailed},
		"an unknown log":    {404, "", fault.StoreFailed},
		"a refusal":         {403, "", fault.StoreFailed},
		"a failure":         {500, "", fault.StoreFailed},
		"a redirect":        {302, "", fault.StoreFailed},
	} {
		t.Run(name, func(t *testing.T) {
			w := &witness.Cosigning{Key: &right.CosignKey, Now: func() time.Time { return now }, Do: func(context.Context, string, string, []byte) (int, []byte, error) {
				return tt.status, []byte(tt.answer), nil
			}}
			if kept, err := w.Send(ctx, s, nil); !errors.Is(err, tt.want) || kept != nil {
				t.Errorf("%q, %v", kept, err)
			}
		})
	}
	// More than the ledger has is a disagreement, but only the witness's word.
	claim := &witness.Cosigning{Key: &right.CosignKey, Now: func() time.Time { return now }, Do: func(context.Context, string, string, []byte) (int, []byte, error) {
		return 409, []byte("4000\n"), nil
	}}
	_, err := claim.Send(ctx, s, nil)
	if d := disagreement(t, err); d.Signed || d.Size != 4000 {
		t.Errorf("%+v", d)
	}
	// A note that the ledger did not sign proves nothing.
	forged := &noteServer{newest: []byte("remit.local/x\n900\nAAAA\n\n— remit.local/x AAAA\n")}
	if err := (&witness.Notes{Do: post(forged.start(t))}).Check(ctx, s); !errors.Is(err, fault.VerifyFailed) {
		t.Errorf("%v", err)
	}
}

func TestAFileHasTheLargestCheckpoint(t *testing.T) {
	ctx, home := context.Background(), t.TempDir()
	s := open(t, home)
	f := witness.File{Path: filepath.Join(t.TempDir(), "witness")}
	var notes [][]byte
	for range 3 {
		grow(t, s, 2)
		notes = append(notes, must(f.Send(ctx, s, nil)))
	}
	b := must(os.ReadFile(f.Path))
	if n := bytes.Count(b, []byte("\nprev ")); n != 3 {
		t.Fatalf("%d notes", n)
	}
	add := func(text string) {
		t.Helper()
		w := must(os.OpenFile(f.Path, os.O_APPEND|os.O_WRONLY, 0))
		if _, err := w.WriteString(text); err != nil {
			t.Fatal(err)
		}
		_ = w.Close()
	}
	other := open(t, t.TempDir())
	grow(t, other, 9)
	add("\n" + string(must(other.Checkpoint(ctx))))                      // another ledger's
	add("\n" + string(notes[0]))                                         // an older one again
	add("\n" + s.Origin() + "\n99\nAAAA\n")                              // not signed
	add("\n" + strings.Replace(string(notes[2]), "\n6\n", "\n600\n", 1)) // changed
	add("\n" + string(notes[2][:len(notes[2])-20]))                      // torn
	older := open(t, withKeysOf(t, home))
	if d := disagreement(t, f.Check(ctx, older)); d.Size != 6 {
		t.Errorf("%+v", d)
	}
	grow(t, s, 1)
	if kept := must(f.Send(ctx, s, nil)); must(s.OpenCheckpoint(kept)).Size != 7 {
		t.Errorf("%q", kept)
	}
	if err := f.Check(ctx, s); err != nil {
		t.Error(err)
	}
}

// withKeysOf makes a new ledger with the keys of another.
func withKeysOf(t testing.TB, home string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "new")
	if err := os.CopyFS(filepath.Join(to, "keys"), os.DirFS(filepath.Join(home, "keys"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ledger.key", "blob.key"} {
		if err := os.Chmod(filepath.Join(to, "keys", name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// A signing key that is still staged begins a ledger under these keys.
	if err := os.Rename(filepath.Join(to, "keys", "ledger.key"), filepath.Join(to, "keys", "ledger.key.new")); err != nil {
		t.Fatal(err)
	}
	return to
}

func TestAWitnessRefuses(t *testing.T) {
	s, stranger := open(t, t.TempDir()), open(t, t.TempDir())
	grow(t, s, 4)
	grow(t, stranger, 1)
	ctx := context.Background()
	key := cosigner(t, "w.example", 1)
	url := serve(t, key, s.PublicKey())
	note := string(must(s.Checkpoint(ctx)))
	hash := strings.Repeat("A", 43) + "=\n"
	send := func(body string) int {
		res, err := http.Post(url+"/add-checkpoint", "text/plain", strings.NewReader(body)) //nolint:noctx // a test
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode
	}
	for name, tt := range map[string]struct {
		body string
		want int
	}{
		"nothing":                {"", 400},
		"no old size":            {"\n\n" + note, 400},
		"a leading zero":         {"old 00\n\n" + note, 400},
		"a negative size":        {"old -1\n\n" + note, 400},
		"a hash that is none":    {"old 0\nx\n\n" + note, 400},
		"64 hashes":              {"old 0\n" + strings.Repeat(hash, 64) + "\n" + note, 400},
		"a proof from nothing":   {"old 0\n" + hash + "\n" + note, 400},
		"an old size above":      {"old 5\n\n" + note, 400},
		"an old size it has not": {"old 2\n\n" + note, 409},
		"another log":            {"old 0\n\n" + string(must(stranger.Checkpoint(ctx))), 404},
		"a changed checkpoint":   {"old 0\n\n" + strings.Replace(note, "\n4\n", "\n5\n", 1), 403},
		"too long":               {"old 0\n\n" + strings.Repeat("x", 70<<10), 413},
		"the checkpoint":         {"old 0\n\n" + note, 200},
	} {
		if name == "the checkpoint" {
			continue
		}
		if got := send(tt.body); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
	if got := send("old 0\n\n" + note); got != 200 {
		t.Errorf("the checkpoint: %d", got)
	}
	if got := send(fmt.Sprintf("old 4\n%s\n%s", hash, note)); got != 422 {
		t.Errorf("a proof where none belongs: %d", got)
	}
	grow(t, s, 1)
	if got := send(fmt.Sprintf("old 4\n%s\n%s", hash, must(s.Checkpoint(ctx)))); got != 422 {
		t.Errorf("a wrong proof: %d", got)
	}
}
