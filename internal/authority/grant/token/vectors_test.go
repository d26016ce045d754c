package token_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/grant/token"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

var update = flag.Bool("update", false, "write testdata")

const vectorFile = "testdata/vectors.json"

// vectors holds the test vectors of docs/tokens.md. All bytes are hexadecimal.
type vectors struct {
	About   string             `json:"about"`
	Keys    map[string]vecKey  `json:"keys"`
	Ledger  string             `json:"ledger"`
	At      string             `json:"at"`
	Tokens  map[string]vecOK   `json:"tokens"`
	Proof   vecProof           `json:"proof"`
	Refused map[string]vecGone `json:"refused"`
}

type vecKey struct {
	Seed   string `json:"seed"`
	Public string `json:"public"`
	ID     string `json:"id"`
}

type vecOK struct {
	Token   string     `json:"token"`
	Digest  string     `json:"digest"`
	Blocks  []vecBlock `json:"blocks"`
	End     string     `json:"end"` // the last seed, or the seal
	Sealed  bool       `json:"sealed"`
	Seal    string     `json:"seal_message,omitempty"`
	Holder  string     `json:"holder"`
	Expires string     `json:"expires"`
	Calls   int64      `json:"calls"`
}

type vecBlock struct {
	Payload   string `json:"payload"`
	Next      string `json:"next"`
	Handover  string `json:"handover,omitempty"`
	Message   string `json:"message"`
	Signature string `json:"signature"`
	Hash      string `json:"hash"`
	Grant     string `json:"grant"`
}

type vecProof struct {
	Of      string `json:"of"`
	Proof   string `json:"proof"`
	Message string `json:"message"`
	Request string `json:"request"`
	ID      string `json:"id"`
}

type vecGone struct {
	Token string `json:"token"`
	Code  string `json:"code"`
}

func vecKeyOf(name string) vecKey {
	id := token.KeyID(public(name))
	return vecKey{hex.EncodeToString(key(name).Seed()), hex.EncodeToString(public(name)), hex.EncodeToString(id[:])}
}

func vecOf(t *testing.T, s string) vecOK {
	p := apart(t, s)
	c, err := token.Decode(s)
	if err != nil {
		t.Fatal(err)
	}
	sum := c.Digest()
	v := vecOK{Token: s, Digest: hex.EncodeToString(sum[:]), End: hex.EncodeToString(p.Proof.Value), Sealed: p.Proof.Kind == 1,
		Holder: c.Holder(), Expires: c.Expires().Format(time.RFC3339), Calls: c.Budgets().Calls}
	if v.Sealed {
		v.Seal = hex.EncodeToString(p.seal(t))
	}
	for i, b := range p.Blocks {
		l := c.Links()[i]
		v.Blocks = append(v.Blocks, vecBlock{hex.EncodeToString(b.Payload), hex.EncodeToString(b.Next), hex.EncodeToString(b.Handover),
			hex.EncodeToString(p.message(t, i)), hex.EncodeToString(b.Sig), hex.EncodeToString(l.Hash[:]), l.Grant.String()})
	}
	return v
}

// makeVectors makes the vectors from fixed keys and fixed randomness.
func makeVectors(t *testing.T) vectors {
	small := "version: 1\nname: docs\nfiles: {read: {allow: [\"docs/**\"]}}\n"
	r := root()
	r.Policies, r.Budgets, r.Pins = []token.Policy{{File: "docs.yaml", Source: small}}, grant.Budgets{Calls: 100}, nil
	one := issue(t, r)
	full := r
	full.HolderKey, full.NotBefore, full.Audience, full.Workspace, full.Delegate = public("ann"), start, "gateway", "/srv/docs", []string{"agent:*"}
	full.Pins = map[tool.ID]tool.Digest{"fs.read": sha256.Sum256([]byte("fs.read"))}
	full.Budgets = grant.Budgets{Calls: 100, PerTool: []grant.ToolBudget{{Tool: "http.*", Calls: 0}}, EachTool: 50, BytesIn: 1 << 20, BytesOut: 1 << 16, Tokens: 10_000,
		Money: 2_500_000, Time: 5 * time.Minute, Children: number(3), Depth: number(2)}
	all := issue(t, full)
	narrowed := add(t, one, token.Block{Expires: start.Add(2 * time.Hour), Budgets: grant.Budgets{Calls: 20}})
	given, err := token.HandOn(all, token.Block{Holder: "agent:docs", HolderKey: public("bob")}, key("ann"), source("vectors"))
	if err != nil {
		t.Fatal(err)
	}
	v := vectors{
		About:  "Test vectors of Remit's tokens, as docs/tokens.md describes them. Bytes are in hexadecimal. The tokens under \"refused\" are judged at the time \"at\" with the ledger's key.",
		Keys:   map[string]vecKey{"ledger": vecKeyOf("ledger"), "ann": vecKeyOf("ann"), "bob": vecKeyOf("bob")},
		Ledger: hex.EncodeToString(ledgerID[:]), At: noon.Format(time.RFC3339),
		Tokens: map[string]vecOK{"one block": vecOf(t, one), "narrowed": vecOf(t, narrowed), "every field": vecOf(t, all),
			"handed on": vecOf(t, given), "sealed": vecOf(t, seal(t, narrowed))},
		Refused: map[string]vecGone{},
	}
	request := sha256.Sum256([]byte("a request"))
	pf := prove(t, given, "bob", token.Proving{At: noon, Audience: "gateway", Request: request})
	v.Proof = vecProofOf(t, "handed on", pf, request)
	for _, group := range [][]forgery{encodedWrong[:4], signedWrong, handedWrong} {
		for _, f := range group {
			v.Refused[f.name] = vecGone{f.make(t), f.want.Error()}
		}
	}
	return v
}

func TestVectors(t *testing.T) {
	v := makeVectors(t)
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(vectorFile, b.Bytes(), 0o644); err != nil { //nolint:gosec // not secret
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(vectorFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), want) {
		t.Error("tokens are no longer written as the test vectors say: the format may not change")
	}
}

// TestTheVectorsByTheBook verifies the vectors by the steps in docs/tokens.md,
// without code of the package.
func TestTheVectorsByTheBook(t *testing.T) {
	v := readVectors(t)
	for name, tok := range v.Tokens {
		p := apart(t, tok.Token)
		k := unhex(t, v.Keys["ledger"].Public)
		for i, b := range p.Blocks {
			if !ed25519.Verify(k, p.message(t, i), b.Sig) || hex.EncodeToString(p.message(t, i)) != tok.Blocks[i].Message {
				t.Errorf("%s: the signature of block %d does not hold", name, i)
			}
			if h := sha256.Sum256(append(p.message(t, i), b.Sig...)); hex.EncodeToString(h[:]) != tok.Blocks[i].Hash {
				t.Errorf("%s: the hash of block %d is %x", name, i, h)
			}
			k = b.Next
		}
		if p.Proof.Kind == 1 && !ed25519.Verify(k, p.seal(t), p.Proof.Value) {
			t.Errorf("%s: the seal does not hold", name)
		}
		if p.Proof.Kind == 0 && !bytes.Equal(ed25519.NewKeyFromSeed(p.Proof.Value).Public().(ed25519.PublicKey), k) { //nolint:forcetypeassert // always of this type
			t.Errorf("%s: its end is not the last key", name)
		}
		if len(p.Blocks[len(p.Blocks)-1].Handover) > 0 && !ed25519.Verify(unhex(t, v.Keys["ann"].Public), p.handover(t, 1), p.Blocks[1].Handover) {
			t.Errorf("%s: the handover does not hold", name)
		}
	}
}

// TestTheVectorsAreJudgedAsTheySay reads the file as another implementation
// would. Each token is accepted or refused as listed.
func TestTheVectorsAreJudgedAsTheySay(t *testing.T) {
	v := readVectors(t)
	own := token.Trust{Ledger: tool.Digest(unhex(t, v.Ledger)), Keys: []token.Key{{Public: unhex(t, v.Keys["ledger"].Public)}}}
	at, err := time.Parse(time.RFC3339, v.At)
	if err != nil {
		t.Fatal(err)
	}
	for name, tok := range v.Tokens {
		c, err := token.Authentic(tok.Token, own, at)
		if err != nil || c.Holder() != tok.Holder || c.Expires().Format(time.RFC3339) != tok.Expires || c.Budgets().Calls != tok.Calls {
			t.Errorf("%s: %v", name, err)
		}
	}
	given := v.Tokens["handed on"].Token
	held := token.Held{Proof: v.Proof.Proof, Request: tool.Digest(unhex(t, v.Proof.Request)), Seen: token.NewReplay(1).Use}
	if _, err := token.Verify(given, own, token.Use{At: at, Audience: "gateway", Workspace: "/srv/docs", Held: held}); err != nil {
		t.Errorf("the proof: %v", err)
	}
	for name, f := range v.Refused {
		if _, err := token.Authentic(f.Token, own, at); fault.CodeOf(err).Error() != f.Code {
			t.Errorf("%s: got %v, want %s", name, err, f.Code)
		}
	}
	if len(v.Refused) < 30 {
		t.Errorf("only %d refused vectors", len(v.Refused))
	}
}

// TestTheDocumentShowsTheVectors keeps the worked example true.
func TestTheDocumentShowsTheVectors(t *testing.T) {
	b, err := os.ReadFile("../../../../docs/tokens.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := strings.Join(strings.Fields(string(b)), "")
	v := readVectors(t)
	one := v.Tokens["one block"]
	for name, want := range map[string]string{
		"the ledger's seed": v.Keys["ledger"].Seed, "the ledger's public key": v.Keys["ledger"].Public, "the ledger's ID": v.Ledger,
		"the token": one.Token, "the payload": one.Blocks[0].Payload, "the message": one.Blocks[0].Message, "the signature": one.Blocks[0].Signature,
		"the next key": one.Blocks[0].Next, "the end": one.End, "the hash": one.Blocks[0].Hash,
	} {
		if !strings.Contains(doc, want) {
			t.Errorf("the worked example does not show %s, %s", name, want)
		}
	}
}

func readVectors(t *testing.T) vectors {
	t.Helper()
	b, err := os.ReadFile(vectorFile)
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
