package ledger_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/remitrun/remit/internal/record/ledger"
)

func TestCosignatures(t *testing.T) {
	c, err := ledger.NewCosigner("witness.example/w1", bytes.Repeat([]byte{7}, ed25519.SeedSize))
	if err != nil {
		t.Fatal(err)
	}
	text, at := "example.com/log\n1\nAAAA\n", time.Unix(1679315147, 0)
	line := c.Cosign(text, at)
	// By the specification alone: key ID, time and signature.
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(strings.TrimPrefix(line, "— witness.example/w1 "), "\n"))
	if err != nil || len(raw) != 4+8+64 {
		t.Fatalf("%q: %v", line, err)
	}
	pub := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32)).Public().(ed25519.PublicKey)
	if !ed25519.Verify(pub, []byte("cosignature/v1\ntime 1679315147\n"+text), raw[12:]) {
		t.Error("the signature is not of the specified message")
	}
	key, err := ledger.ParseCosignKey(c.CosignKey.String())
	if err != nil {
		t.Fatal(err)
	}
	n, err := note.Open([]byte(text+"\n"+line), note.VerifierList(key))
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := ledger.CosignedAt(n, key); !ok || !got.Equal(at) {
		t.Errorf("signed at %v", got)
	}
	if _, err := note.Open([]byte("x"+text+"\n"+line), note.VerifierList(key)); err == nil {
		t.Error("another text verifies")
	}
	again, err := ledger.ParseCosigner(c.Private())
	if err != nil || again.Cosign(text, at) != line {
		t.Errorf("the private key does not survive its text: %v", err)
	}
}

func TestKeysOfWitnessesThatAreNone(t *testing.T) {
	c, err := ledger.NewCosigner("w", bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	good := c.CosignKey.String()
	for _, bad := range []string{"", "w", "w+00000000+", strings.Replace(good, "w+", "v+", 1), good + "A", strings.ToUpper(good), "a b" + good[1:], c.Private()} {
		if _, err := ledger.ParseCosignKey(bad); err == nil {
			t.Errorf("%q is taken for a key", bad)
		}
	}
	if _, err := ledger.ParseCosigner(good); err == nil {
		t.Error("a public key is taken for a private one")
	}
}
