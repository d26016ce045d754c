package token_test

import (
	"crypto/ed25519"
	"io"
	"math/big"
	"slices"
	"testing"

	"github.com/remitrun/remit/internal/authority/grant/token"
)

// said is a block's payload as a map. It can hold values that the package would
// not write.
type said map[any]any

// rootSaid is the encoded form of [root].
func rootSaid() said {
	r := root()
	id := token.KeyID(public("ledger"))
	return said{
		1: r.Ledger[:], 2: id[:], 3: r.ID[:], 4: make([]byte, 16), 5: r.Holder, 7: [][]string{{"wide.yaml", wide}},
		8: start.UnixMilli(), 10: r.Expires.UnixMilli(),
	}
}

// but returns the payload with one key changed; nil removes the key.
func (s said) but(k, v any) said {
	out := said{}
	for a, b := range s {
		out[a] = b
	}
	if out[k] = v; v == nil {
		delete(out, k)
	}
	return out
}

// rogue is a block that an attacker signs with any available key.
type rogue struct {
	payload  []byte
	next     []byte // replaces the next block's public key
	handover ed25519.PrivateKey
}

// forge signs blocks into a token: the first with the given key, each later one
// with the key that the previous block names.
func forge(t testing.TB, issuer ed25519.PrivateKey, blocks ...rogue) string {
	t.Helper()
	p := parts{Version: 1}
	k := issuer
	for i, r := range blocks {
		seed := make([]byte, ed25519.SeedSize)
		if _, err := io.ReadFull(source("forge"+string(rune('a'+i))), seed); err != nil {
			t.Fatal(err)
		}
		next := ed25519.NewKeyFromSeed(seed)
		b := part{Payload: r.payload, Next: next.Public().(ed25519.PublicKey)} //nolint:forcetypeassert // always of this type
		if r.next != nil {
			b.Next = r.next
		}
		p.Blocks = append(p.Blocks, b)
		if r.handover != nil {
			p.Blocks[i].Handover = ed25519.Sign(r.handover, p.handover(t, i))
		}
		p.Blocks[i].Sig = ed25519.Sign(k, p.message(t, i))
		k, p.Proof = next, proof{Kind: 0, Value: seed}
	}
	return p.text(t)
}

// handover returns the message that a holder signs to hand on block i, built from
// the format's description.
func (p parts) handover(t testing.TB, i int) []byte {
	t.Helper()
	b := p.Blocks[i]
	return encode(t, []any{"remit.run/token/handover", 1, i, b.Payload, b.Next, p.Blocks[i-1].Sig})
}

// says returns a token of the ledger with one block of the given payload.
func says(t testing.TB, s said) string {
	t.Helper()
	return forge(t, key("ledger"), rogue{payload: encode(t, s)})
}

// appends returns a valid token to which a holder has appended the given payload.
func appends(t testing.TB, s ...said) string {
	t.Helper()
	blocks := []rogue{{payload: encode(t, rootSaid())}}
	for _, b := range s {
		blocks = append(blocks, rogue{payload: encode(t, b)})
	}
	return forge(t, key("ledger"), blocks...)
}

// payload returns a token whose valid root payload had its bytes changed by hand.
func payload(t testing.TB, change func([]byte) []byte) string {
	t.Helper()
	return forge(t, key("ledger"), rogue{payload: change(encode(t, rootSaid()))})
}

// changed is the three-block token with its parts changed by hand.
func changed(t testing.TB, change func(*parts)) string {
	t.Helper()
	p := apart(t, three(t))
	change(&p)
	return p.text(t)
}

// plusOrder adds the order of the group to the second half of a signature, which
// gives another spelling of it.
func plusOrder(sig []byte) []byte {
	order, _ := new(big.Int).SetString("7237005577332262213973186563042994240857116359379907606001950938285454250989", 10)
	s := slices.Clone(sig[32:])
	slices.Reverse(s)
	sum := new(big.Int).Add(new(big.Int).SetBytes(s), order).FillBytes(make([]byte, 32))
	slices.Reverse(sum)
	return append(slices.Clone(sig[:32]), sum...)
}

// smallPoint is the neutral element of the curve, as a public key: under it, a
// signature of this very point and a zero holds for every message.
func smallPoint() []byte {
	k := make([]byte, 32)
	k[0] = 1
	return k
}

func TestTheForgersToolsMakeWhatTheyCopy(t *testing.T) {
	for name, s := range map[string]string{
		"a root": says(t, rootSaid()), "an appended block": appends(t, said{10: noon.UnixMilli() + 1}),
		"taken apart and put together": changed(t, func(*parts) {}),
	} {
		if _, err := verify(s); err != nil {
			t.Errorf("%s is refused, so its forgeries show nothing: %v", name, err)
		}
	}
	if !ed25519.Verify(smallPoint(), []byte("anything"), append(smallPoint(), make([]byte, 32)...)) {
		t.Error("a key of small order is refused by package ed25519 already")
	}
}
