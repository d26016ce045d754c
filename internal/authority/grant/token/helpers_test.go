package token_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/grant/token"
	"github.com/remitrun/remit/internal/base/tool"
)

// chance is reproducible randomness: successive SHA-256 hashes of a label and a
// counter.
type chance struct {
	label string
	n     uint32
	rest  []byte
}

func (c *chance) Read(b []byte) (int, error) {
	for len(c.rest) < len(b) {
		h := sha256.Sum256(binary.BigEndian.AppendUint32([]byte(c.label), c.n))
		c.n++
		c.rest = append(c.rest, h[:]...)
	}
	n := copy(b, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

func source(label string) io.Reader { return &chance{label: label} }

// key is the private key of a name.
func key(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte("key of " + name))
	return ed25519.NewKeyFromSeed(seed[:])
}

func public(name string) ed25519.PublicKey {
	k, _ := key(name).Public().(ed25519.PublicKey)
	return k
}

var (
	start    = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	noon     = start.Add(time.Hour)
	ledgerID = token.KeyID(public("ledger"))
	trust    = token.Trust{Ledger: ledgerID, Keys: []token.Key{{Public: public("ledger")}}}
)

const (
	wide   = "version: 1\nname: wide\nfiles:\n  read: {allow: [\"**\"]}\n  write: {allow: [\"out/**\"]}\ncommands: {allow: [\"git status **\"]}\nlimits: {calls: 200}\n"
	narrow = "version: 1\nname: narrow\nfiles:\n  read: {allow: [\"docs/**\"]}\n"
)

func number(n int) *int { return &n }

// root returns a valid root block.
func root() token.Root {
	return token.Root{
		Ledger: ledgerID, ID: uuid.MustParse("01946b6e-8f00-7000-8000-000000000001"),
		Block: token.Block{
			Policies: []token.Policy{{File: "wide.yaml", Source: wide}}, Holder: "user:ann", Issued: start, Expires: start.Add(24 * time.Hour),
			Budgets: grant.Budgets{Calls: 200, Money: 1_500_000},
			Pins:    map[tool.ID]tool.Digest{"fs.read": {1, 2, 3}},
		},
	}
}

func issue(t testing.TB, r token.Root) string {
	t.Helper()
	s, err := token.Issue(r, key("ledger"), source("issue"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func add(t testing.TB, s string, b token.Block) string {
	t.Helper()
	out, err := token.Append(s, b, source("append "+s))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func narrowing() token.Block {
	return token.Block{Policies: []token.Policy{{File: "narrow.yaml", Source: narrow}}, Expires: start.Add(2 * time.Hour)}
}

// three returns an ordinary token of three blocks.
func three(t testing.TB) string {
	s := add(t, issue(t, root()), narrowing())
	return add(t, s, token.Block{Holder: "agent:docs", Budgets: grant.Budgets{Calls: 20, Depth: number(0)}})
}

func verify(s string) (token.Claims, error) {
	return token.Verify(s, trust, token.Use{At: noon})
}

// parts is a token taken apart by hand. Tests reassemble it in ways that the
// package itself would not.
type parts struct {
	_       struct{} `cbor:",toarray"`
	Version uint64
	Blocks  []part
	Proof   proof
}

type part struct {
	_                            struct{} `cbor:",toarray"`
	Payload, Next, Handover, Sig []byte
}

type proof struct {
	_     struct{} `cbor:",toarray"`
	Kind  uint64
	Value []byte
}

var canonical = func() cbor.EncMode {
	o := cbor.CoreDetEncOptions()
	o.NilContainers = cbor.NilContainerAsEmpty
	m, err := o.EncMode()
	if err != nil {
		panic(err)
	}
	return m
}()

func raw(t testing.TB, s string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(s, token.Prefix))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func text(b []byte) string { return token.Prefix + base64.RawURLEncoding.EncodeToString(b) }

func apart(t testing.TB, s string) parts { t.Helper(); return decoded(t, s) }

// fataler is the common interface of testing.TB and rapid.T.
type fataler interface{ Fatal(args ...any) }

func decoded(t fataler, s string) parts {
	b, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(s, token.Prefix))
	if err != nil {
		t.Fatal(err)
	}
	var p parts
	if err := cbor.Unmarshal(b, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	b, err := canonical.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (p parts) text(t testing.TB) string { t.Helper(); return text(encode(t, p)) }

// message returns the message that the signature of block i covers, built from
// the format's description.
func (p parts) message(t testing.TB, i int) []byte {
	t.Helper()
	prev := []byte{}
	if i > 0 {
		prev = p.Blocks[i-1].Sig
	}
	b := p.Blocks[i]
	return encode(t, []any{"remit.run/token/block", 1, i, b.Payload, b.Next, prev, b.Handover})
}
