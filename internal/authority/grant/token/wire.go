package token

import (
	"bytes"
	"crypto/ed25519"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"io"
	"strings"

	"github.com/fxamacker/cbor/v2"

	"github.com/remitrun/remit/internal/base/fault"
)

const (
	nonceSize = 16
	// The kinds of proof at a token's end.
	open   = 0 // the last block's private key, used to append blocks
	sealed = 1 // a signature with that key, which was discarded
)

// The modes are fixed at start and safe for concurrent use.
var (
	encMode = func() cbor.EncMode {
		o := cbor.CoreDetEncOptions()
		o.NilContainers = cbor.NilContainerAsEmpty
		return must(o.EncMode())
	}()
	decMode = must(cbor.DecOptions{
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		IndefLength:       cbor.IndefLengthForbidden,
		TagsMd:            cbor.TagsForbidden,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		MaxMapPairs:       32,
		MaxArrayElements:  256,
		MaxNestedLevels:   4,
	}.DecMode())
	text64 = base64.RawURLEncoding.Strict()
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // the options above are wrong: a bug, found by any test
	}
	return v
}

// wireToken is the encoded form of a token: [version, [block, ...], proof].
type wireToken struct {
	_       struct{} `cbor:",toarray"`
	Version uint64
	Blocks  []wireBlock
	Proof   wireProof

	messages [][]byte // of a decoded token: the message that each block's signature covers
}

// wireBlock is one block: [payload, next public key, handover, signature]. The
// handover is empty except where a bound token is given to another key.
type wireBlock struct {
	_        struct{} `cbor:",toarray"`
	Payload  []byte
	Next     []byte
	Handover []byte
	Sig      []byte
}

// wireProof is a token's end: [open, seed] or [sealed, signature].
type wireProof struct {
	_     struct{} `cbor:",toarray"`
	Kind  uint64
	Value []byte
}

// text encodes the token.
func (t *wireToken) text() (string, error) {
	t.Version = version
	b, err := encMode.Marshal(t)
	if err != nil {
		return "", fault.Wrap(fault.Internal, err, "a token cannot be encoded")
	}
	s := Prefix + text64.EncodeToString(b)
	if len(s) > MaxSize {
		return "", fault.New(fault.GrantTooLarge, "the token would have %d bytes, it may have %d", len(s), MaxSize).
			WithHint("use shorter policies, or ask its issuer for a new one")
	}
	return s, nil
}

// append signs a payload as the next block with key. It draws the key that will
// sign the block after it. holder signs too, if given.
func (t *wireToken) append(w *wirePayload, key, holder ed25519.PrivateKey, rand io.Reader) error {
	payload, err := encMode.Marshal(w)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "a token's block cannot be encoded")
	}
	seed := make([]byte, ed25519.SeedSize)
	if err := draw(rand, seed); err != nil {
		return err
	}
	b := wireBlock{Payload: payload, Next: publicOf(seed)}
	i, prev := len(t.Blocks), t.lastSig()
	if holder != nil {
		b.Handover = ed25519.Sign(holder, handoverMessage(i, &b, prev))
	}
	b.Sig = ed25519.Sign(key, blockMessage(i, &b, prev))
	t.Blocks = append(t.Blocks, b)
	t.Proof = wireProof{Kind: open, Value: seed}
	return nil
}

func (t *wireToken) lastSig() []byte {
	if len(t.Blocks) == 0 {
		return nil
	}
	return t.Blocks[len(t.Blocks)-1].Sig
}

// lastKey returns the private key that signs the next block.
func (t *wireToken) lastKey() (ed25519.PrivateKey, error) {
	if t.Proof.Kind == sealed {
		return nil, fault.New(fault.GrantSealed, "the token is sealed: nothing can be appended to it").
			WithHint("ask for a token that is not sealed")
	}
	if err := t.ownsLast(); err != nil {
		return nil, err
	}
	return ed25519.NewKeyFromSeed(t.Proof.Value), nil
}

// ownsLast checks the private key at the end of an unsealed token.
func (t *wireToken) ownsLast() error {
	if subtle.ConstantTimeCompare(publicOf(t.Proof.Value), t.Blocks[len(t.Blocks)-1].Next) != 1 {
		return forged("its end does not belong to its last block")
	}
	return nil
}

func publicOf(seed []byte) []byte {
	pub, _ := ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey) // always of this type
	return pub
}

// bytesOf decodes a token's text to bytes.
func bytesOf(text, prefix, what string) ([]byte, error) {
	if len(text) > MaxSize {
		return nil, fault.New(fault.GrantTooLarge, "the %s has %d bytes, it may have %d", what, len(text), MaxSize)
	}
	rest, ok := strings.CutPrefix(text, prefix)
	if !ok {
		if isLaterVersion(text, prefix) {
			return nil, newer(what)
		}
		return nil, malformed("a %s begins with %q, this does not", what, prefix).
			WithHint("give the whole text, without quotes or spaces")
	}
	if strings.ContainsAny(rest, "\r\n") { // which the decoder would ignore
		return nil, malformed("the %s contains a line break", what).WithHint("give it on one line")
	}
	b, err := text64.DecodeString(rest)
	var at base64.CorruptInputError
	if errors.As(err, &at) {
		return nil, malformed("the %s is cut off or changed at byte %d of %d", what, min(int64(at)+1+int64(len(prefix)), int64(len(text))), len(text)).
			WithHint("copy it anew, as a whole")
	}
	return b, nil
}

// isLaterVersion reports whether a text begins as one of a later version would.
func isLaterVersion(text, prefix string) bool {
	word := strings.TrimRight(prefix, "1_")
	rest, ok := strings.CutPrefix(text, word)
	if !ok {
		return false
	}
	number, _, found := strings.Cut(rest, "_")
	return found && number != "" && len(number) < 6 && strings.Trim(number, "0123456789") == "" && number[0] != '0' && number != "1"
}

func newer(what string) error {
	return fault.New(fault.GrantVersion, "the %s was made by a newer Remit", what).WithHint("update Remit, or ask for one of version %d", version)
}

func malformed(format string, args ...any) *fault.Error {
	return fault.New(fault.GrantInvalid, format, args...)
}

func forged(why string) error {
	return fault.New(fault.GrantForged, "the token was altered: %s", why).
		WithHint("the token was altered: do not use it, ask its issuer for a new one")
}

// read decodes a token. It accepts only the spelling that encoding the token
// again would give, so that a token has one identity.
func read(token string) (*wireToken, *Content, error) {
	b, err := bytesOf(token, Prefix, "token")
	if err != nil {
		return nil, nil, err
	}
	// The version is checked first, so that a later version is named as such.
	if len(b) > 1 && b[0]>>5 == 4 && b[1]>>5 == 0 && b[1]&0x1f > version && b[1]&0x1f < 24 {
		return nil, nil, newer("token")
	}
	t := &wireToken{}
	if err := decMode.Unmarshal(b, t); err != nil {
		return nil, nil, malformed("the token cannot be read: it is cut off or was changed").WithHint("copy it anew, as a whole")
	}
	if err := t.check(); err != nil {
		return nil, nil, err
	}
	again, err := encMode.Marshal(t)
	if err != nil || !bytes.Equal(again, b) {
		return nil, nil, malformed("the token is not in its canonical encoding").WithHint("copy it anew, as a whole")
	}
	var prev []byte
	for i := range t.Blocks {
		t.messages = append(t.messages, blockMessage(i, &t.Blocks[i], prev))
		prev = t.Blocks[i].Sig
	}
	c, err := contentOf(t, b)
	return t, c, err
}

// check reports parts of a token that have an invalid form.
func (t *wireToken) check() error {
	if t.Version != version {
		return malformed("the token has the version %d", t.Version)
	}
	if n := len(t.Blocks); n == 0 || n > MaxBlocks {
		return malformed("the token has %d blocks: there are 1 to %d", n, MaxBlocks)
	}
	want := ed25519.SeedSize
	if t.Proof.Kind == sealed {
		want = ed25519.SignatureSize
	}
	if t.Proof.Kind > sealed || len(t.Proof.Value) != want {
		return malformed("the token has no proper end")
	}
	for i := range t.Blocks {
		b := &t.Blocks[i]
		if len(b.Sig) != ed25519.SignatureSize || len(b.Handover) != 0 && len(b.Handover) != ed25519.SignatureSize || len(b.Payload) == 0 {
			return malformed("block %d of the token lacks a part", i)
		}
		if !usableKey(b.Next) {
			return malformed("block %d of the token names no usable key", i)
		}
	}
	return nil
}
