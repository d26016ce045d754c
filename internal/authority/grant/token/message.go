package token

import (
	"crypto/ed25519"

	"github.com/remitrun/remit/internal/base/tool"
)

// Every signed message begins with one of these, so that a signature serves one
// purpose only.
const (
	blockDomain    = "remit.run/token/block"
	handoverDomain = "remit.run/token/handover"
	sealDomain     = "remit.run/token/seal"
	proofDomain    = "remit.run/token/proof"
)

// signedBlock is the message that a block's signature covers: the block's position
// and content, and, through the previous signature, all previous blocks.
type signedBlock struct {
	_        struct{} `cbor:",toarray"`
	Domain   string
	Version  uint64
	Index    uint64
	Payload  []byte
	Next     []byte
	Previous []byte // signature; empty for the root
	Handover []byte
}

// signedHandover is the message that a holder signs to bind a token to another key.
type signedHandover struct {
	_        struct{} `cbor:",toarray"`
	Domain   string
	Version  uint64
	Index    uint64
	Payload  []byte
	Next     []byte
	Previous []byte
}

// signedSeal is the message that the last key signs before it is discarded.
type signedSeal struct {
	_        struct{} `cbor:",toarray"`
	Domain   string
	Version  uint64
	Blocks   uint64
	Previous []byte
}

// signedProof is the message that a holder signs for each use of a token.
type signedProof struct {
	_        struct{} `cbor:",toarray"`
	Domain   string
	Version  uint64
	Token    []byte
	Audience string
	Time     uint64
	Nonce    []byte
	Request  []byte
}

// encoded returns the encoding of a value that can always be encoded.
func encoded(v any) []byte { return must(encMode.Marshal(v)) }

func blockMessage(index int, b *wireBlock, previous []byte) []byte {
	return encoded(&signedBlock{
		Domain: blockDomain, Version: version, Index: uint64(index), //nolint:gosec // an index
		Payload: b.Payload, Next: b.Next, Previous: previous, Handover: b.Handover,
	})
}

func handoverMessage(index int, b *wireBlock, previous []byte) []byte {
	return encoded(&signedHandover{
		Domain: handoverDomain, Version: version, Index: uint64(index), //nolint:gosec // an index
		Payload: b.Payload, Next: b.Next, Previous: previous,
	})
}

func sealMessage(blocks []wireBlock) []byte {
	return encoded(&signedSeal{Domain: sealDomain, Version: version, Blocks: uint64(len(blocks)), Previous: blocks[len(blocks)-1].Sig})
}

func (p *wireHeld) message() []byte {
	return encoded(&signedProof{
		Domain: proofDomain, Version: version, Token: p.Token, Audience: p.Audience, Time: p.Time, Nonce: p.Nonce, Request: p.Request,
	})
}

// smallOrder lists the y coordinates, without the sign bit, of the small-order
// points on the Ed25519 curve, in all their spellings. For such a key a signature
// can be made without a private key, or can be valid for many messages.
var smallOrder = [...]tool.Digest{
	{}, // 0
	{1},
	edgeDigest(0xec, 0x7f), // -1
	edgeDigest(0xed, 0x7f), // 0, not reduced
	edgeDigest(0xee, 0x7f), // 1, not reduced
	{0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0,
		0xd5, 0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05},
	{0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f,
		0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a},
}

// edgeDigest returns 32 bytes: 0xff, except the first and the last.
func edgeDigest(first, last byte) tool.Digest {
	d := tool.Digest{}
	for i := range d {
		d[i] = 0xff
	}
	d[0], d[len(d)-1] = first, last
	return d
}

// usableKey reports whether k can be a public key with a known private key.
func usableKey(k []byte) bool {
	if len(k) != ed25519.PublicKeySize {
		return false
	}
	y := tool.Digest(k)
	y[len(y)-1] &= 0x7f
	for _, s := range smallOrder {
		if y == s {
			return false
		}
	}
	return true
}
