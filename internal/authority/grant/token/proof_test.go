package token_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/remitrun/remit/internal/authority/grant/token"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

func prove(t testing.TB, s, holder string, p token.Proving) string {
	t.Helper()
	out, err := token.Prove(s, key(holder), p, source(fmt.Sprint(s, p)))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestOnlyTheHolderUsesABoundToken(t *testing.T) {
	s := issueWith(t, func(r *token.Root) { r.HolderKey = public("ann") })
	other := add(t, s, token.Block{})
	mallorys := issueWith(t, func(r *token.Root) { r.HolderKey = public("mallory") })
	given, err := token.HandOn(s, token.Block{Holder: "agent:bob", HolderKey: public("bob")}, key("ann"), source("given"))
	if err != nil {
		t.Fatal(err)
	}
	request := tool.Digest{1, 2, 3}
	good := token.Proving{At: noon, Audience: "gateway", Request: request}
	proof := prove(t, s, "ann", good)
	none := token.Proving{At: noon, Audience: "gateway"}
	far := token.Proving{At: noon.Add(-31 * time.Second), Audience: "gateway", Request: request}
	soon := token.Proving{At: noon.Add(31 * time.Second), Audience: "gateway", Request: request}
	elsewhere := token.Proving{At: noon, Audience: "other", Request: request}
	tests := []struct {
		name, token, proof string
		request            tool.Digest
		want               fault.Code
	}{
		{"the holder's", s, proof, request, 0},
		{"for any request, where none is asked for", s, prove(t, s, "ann", none), tool.Digest{}, 0},
		{"at the edge of the window", s, prove(t, s, "ann", token.Proving{At: noon.Add(-30 * time.Second), Audience: "gateway", Request: request}), request, 0},
		{"after it was handed on", given, prove(t, given, "bob", good), request, 0},
		{"none", s, "", request, fault.GrantHolder},
		{"none, after it was handed on", given, "", request, fault.GrantHolder},
		{"the holder's before, after it was handed on", given, strings.Clone(proof), request, fault.GrantHolder},
		{"somebody else's", s, prove(t, mallorys, "mallory", good), request, fault.GrantHolder},
		{"for the token before", other, proof, request, fault.GrantHolder},
		{"for another request", s, proof, tool.Digest{9}, fault.GrantHolder},
		{"for a request, where none is asked for", s, proof, tool.Digest{}, fault.GrantHolder},
		{"for any request, where one is asked for", s, prove(t, s, "ann", none), request, fault.GrantHolder},
		{"for another audience", s, prove(t, s, "ann", elsewhere), request, fault.GrantAudience},
		{"made long ago", s, prove(t, s, "ann", far), request, fault.GrantReplayed},
		{"made in the future", s, prove(t, s, "ann", soon), request, fault.GrantReplayed},
		{"cut off", s, proof[:len(proof)-2], request, fault.GrantInvalid},
		{"with a space", s, proof + " ", request, fault.GrantInvalid},
		{"a token", s, s, request, fault.GrantInvalid},
		{"of a later version", s, strings.Replace(proof, "remitp1_", "remitp2_", 1), request, fault.GrantVersion},
		{"far too long", s, proof + strings.Repeat("A", token.MaxProof), request, fault.GrantTooLarge},
		{"for a token that is bound to no one", issue(t, root()), proof, request, fault.GrantHolder},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			use := token.Use{At: noon, Audience: "gateway", Held: token.Held{Proof: tt.proof, Request: tt.request, Seen: token.NewReplay(8).Use}}
			c, err := token.Verify(tt.token, trust, use)
			if tt.want == 0 && err != nil || tt.want != 0 && (fault.CodeOf(err) != tt.want || c != token.Claims{}) {
				t.Fatalf("got %v, want %v", err, tt.want)
			}
			quiet(t, tt.token, err)
			quiet(t, tt.proof+strings.Repeat(" ", 20), err)
			if _, err := token.Verify(tt.token, trust, use); err == nil && tt.proof != "" {
				t.Error("the proof is accepted twice")
			}
		})
	}
	use := token.Use{At: noon, Audience: "gateway", Held: token.Held{Proof: proof, Request: request}}
	if _, err := token.Verify(s, trust, use); !errors.Is(err, fault.Internal) {
		t.Errorf("with nothing to remember proofs: %v", err)
	}
	use.Held.Seen = func([32]byte, time.Time, time.Time) (bool, error) {
		return true, fault.New(fault.StoreFailed, "no ledger")
	}
	if c, err := token.Verify(s, trust, use); !errors.Is(err, fault.StoreFailed) || c != (token.Claims{}) {
		t.Errorf("where proofs cannot be remembered: %v", err)
	}
	if _, err := token.Authentic(s, trust, noon); err != nil {
		t.Errorf("it may be shown without a proof: %v", err)
	}
}

func TestAnyBitOfAProofCounts(t *testing.T) {
	s := issueWith(t, func(r *token.Root) { r.HolderKey = public("ann") })
	good, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(prove(t, s, "ann", token.Proving{At: noon}), token.ProofPrefix))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 8 * len(good) {
		b := append([]byte{}, good...)
		b[i/8] ^= 1 << (i % 8)
		held := token.Held{Proof: token.ProofPrefix + base64.RawURLEncoding.EncodeToString(b), Seen: token.NewReplay(8).Use}
		if _, err := token.Verify(s, trust, token.Use{At: noon, Held: held}); err == nil {
			t.Fatalf("bit %d changes nothing", i)
		}
	}
}

func TestWhatIsNotProven(t *testing.T) {
	s := issueWith(t, func(r *token.Root) { r.HolderKey = public("ann") })
	for name, f := range map[string]func() (string, error){
		"another's key":  func() (string, error) { return token.Prove(s, key("bob"), token.Proving{At: noon}, source("")) },
		"no key":         func() (string, error) { return token.Prove(s, nil, token.Proving{At: noon}, source("")) },
		"an unbound one": func() (string, error) { return token.Prove(three(t), key("ann"), token.Proving{At: noon}, source("")) },
		"no time":        func() (string, error) { return token.Prove(s, key("ann"), token.Proving{}, source("")) },
		"a bad audience": func() (string, error) {
			return token.Prove(s, key("ann"), token.Proving{At: noon, Audience: "\n"}, source(""))
		},
		"no token": func() (string, error) { return token.Prove("", key("ann"), token.Proving{At: noon}, source("")) },
		"no randomness": func() (string, error) {
			return token.Prove(s, key("ann"), token.Proving{At: noon}, strings.NewReader(""))
		},
	} {
		if p, err := f(); err == nil || p != "" {
			t.Errorf("%s: %q, %v", name, p, err)
		}
	}
}

func TestReplay(t *testing.T) {
	id := func(n byte) [32]byte { return [32]byte{n} }
	r := token.NewReplay(2)
	type step struct {
		n         byte
		at, until int // seconds
		fresh     bool
		code      fault.Code
	}
	for i, s := range []step{
		{1, 0, 10, true, 0},
		{1, 0, 10, false, 0},
		{2, 1, 11, true, 0},
		{3, 2, 12, false, fault.GrantReplayed}, // no room
		{1, 10, 10, false, 0},                  // the last moment
		{3, 11, 21, true, 0},                   // the first is forgotten
		{1, 12, 10, false, 0},                  // and stays used
		{1, 3, 10, false, 0},                   // also when the clock is set back
		{2, 12, 22, true, 0},
	} {
		fresh, err := r.Use(id(s.n), noon.Add(time.Duration(s.at)*time.Second), noon.Add(time.Duration(s.until)*time.Second))
		if fresh != s.fresh || (err == nil) != (s.code == 0) || s.code != 0 && fault.CodeOf(err) != s.code {
			t.Errorf("step %d: %v, %v", i, fresh, err)
		}
	}
}

func TestAProofCountsOnceHoweverManyTry(t *testing.T) {
	r := token.NewReplay(1000)
	var wg sync.WaitGroup
	var mu sync.Mutex
	fresh := 0
	for range 32 {
		wg.Go(func() {
			for n := range byte(50) {
				ok, err := r.Use([32]byte{n}, noon, noon.Add(time.Minute))
				if err != nil {
					t.Error(err)
				}
				if ok {
					mu.Lock()
					fresh++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if fresh != 50 {
		t.Errorf("50 proofs were accepted %d times", fresh)
	}
}

// vecProofOf decodes a proof for the vectors.
func vecProofOf(t *testing.T, of, proof string, request tool.Digest) vecProof {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(proof, token.ProofPrefix))
	if err != nil {
		t.Fatal(err)
	}
	var w []any
	if err := cbor.Unmarshal(b, &w); err != nil {
		t.Fatal(err)
	}
	message := encode(t, append([]any{"remit.run/token/proof"}, w[:6]...))
	if !ed25519.Verify(public("bob"), message, w[6].([]byte)) { //nolint:forcetypeassert // else the test fails anyhow
		t.Error("the signature of the proof does not cover what its description says")
	}
	id := sha256.Sum256(message)
	return vecProof{of, proof, hex.EncodeToString(message), hex.EncodeToString(request[:]), hex.EncodeToString(id[:])}
}
