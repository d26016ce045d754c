package token_test

import (
	"crypto/ed25519"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/authority/grant/token"
)

// BenchmarkVerify verifies a token of three blocks. It compares that with the
// three Ed25519 verifications alone.
func BenchmarkVerify(b *testing.B) {
	s := three(b)
	b.Run("token", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := verify(s); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("ed25519", func(b *testing.B) {
		p := apart(b, s)
		keys := []ed25519.PublicKey{public("ledger"), p.Blocks[0].Next, p.Blocks[1].Next}
		var messages [][]byte
		for i := range p.Blocks {
			messages = append(messages, p.message(b, i))
		}
		for b.Loop() {
			for i, k := range keys {
				if !ed25519.Verify(k, messages[i], p.Blocks[i].Sig) {
					b.Fatal("a signature does not hold")
				}
			}
		}
	})
}

func BenchmarkIssueAndAppend(b *testing.B) {
	for b.Loop() {
		s := issue(b, root())
		add(b, s, token.Block{Expires: start.Add(time.Hour)})
	}
}
