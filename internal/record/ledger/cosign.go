package ledger

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/remitrun/remit/internal/base/fault"
)

// A cosignature is a witness's signature of a checkpoint, with the time, as
// c2sp.org/tlog-cosignature defines it (cosignature/v1).

// cosignAlgorithm is the number of cosignature/v1 with Ed25519 in keys of notes.
const cosignAlgorithm = 4

// Cosigner is a witness's private key.
type Cosigner struct {
	CosignKey

	key ed25519.PrivateKey
}

// CosignKey is a witness's public key. It implements note.Verifier.
type CosignKey struct {
	name string
	hash uint32
	key  ed25519.PublicKey
}

var _ note.Verifier = (*CosignKey)(nil)

// NewCosigner makes a witness's key from a name and the 32 bytes of a seed.
func NewCosigner(name string, seed []byte) (*Cosigner, error) {
	if !isKeyName(name) || len(seed) != ed25519.SeedSize {
		return nil, fault.New(fault.Internal, "not a name or a seed of a witness")
	}
	priv := ed25519.NewKeyFromSeed(seed)
	pub, _ := priv.Public().(ed25519.PublicKey)
	return &Cosigner{newCosignKey(name, pub), priv}, nil
}

// isKeyName reports whether notes can have a key of this name.
func isKeyName(name string) bool {
	return name != "" && len(name) <= 200 && !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == '+' || r == 0x7f || r > 0x7e })
}

func newCosignKey(name string, pub ed25519.PublicKey) CosignKey {
	h := sha256.Sum256(append([]byte(name+"\n\x04"), pub...))
	return CosignKey{name, binary.BigEndian.Uint32(h[:4]), pub}
}

// ParseCosigner reads the text of [Cosigner.Private].
func ParseCosigner(text string) (*Cosigner, error) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), "PRIVATE+KEY+")
	name, hash, seed, err := parseKeyText(rest)
	if !ok || err != nil || len(seed) != ed25519.SeedSize {
		return nil, fault.New(fault.Usage, "not the private key of a witness")
	}
	c, err := NewCosigner(name, seed)
	if err == nil && c.hash != hash {
		err = fault.New(fault.Usage, "the private key of a witness is damaged")
	}
	return c, err
}

// ParseCosignKey reads a witness's public key, as NAME+HASH+KEY.
func ParseCosignKey(text string) (*CosignKey, error) {
	name, hash, pub, err := parseKeyText(strings.TrimSpace(text))
	if err != nil || len(pub) != ed25519.PublicKeySize {
		return nil, fault.New(fault.Usage, "not a witness's public key; expected NAME+HASH+KEY with an Ed25519 key of cosignatures (type 4)")
	}
	k := newCosignKey(name, pub)
	if k.hash != hash {
		return nil, fault.New(fault.Usage, "the hash in a witness's public key is not that of the key")
	}
	return &k, nil
}

func parseKeyText(text string) (name string, hash uint32, key []byte, err error) {
	bad := fault.New(fault.Usage, "not a key")
	fields := strings.SplitN(text, "+", 3)
	if len(fields) != 3 || !isKeyName(fields[0]) || len(fields[1]) != 8 {
		return "", 0, nil, bad
	}
	h, err := strconv.ParseUint(fields[1], 16, 32)
	raw, berr := base64.StdEncoding.DecodeString(fields[2])
	if err != nil || berr != nil || len(raw) < 1 || raw[0] != cosignAlgorithm {
		return "", 0, nil, bad
	}
	return fields[0], uint32(h), raw[1:], nil
}

// Private returns the text of the private key.
func (c *Cosigner) Private() string {
	return fmt.Sprintf("PRIVATE+KEY+%s+%08x+%s", c.name, c.hash, base64.StdEncoding.EncodeToString(append([]byte{cosignAlgorithm}, c.key.Seed()...)))
}

// String returns the text of the public key.
func (k *CosignKey) String() string {
	return fmt.Sprintf("%s+%08x+%s", k.name, k.hash, base64.StdEncoding.EncodeToString(append([]byte{cosignAlgorithm}, k.key...)))
}

// Name implements note.Verifier.
func (k *CosignKey) Name() string { return k.name }

// KeyHash implements note.Verifier.
func (k *CosignKey) KeyHash() uint32 { return k.hash }

// Verify implements note.Verifier.
func (k *CosignKey) Verify(msg, sig []byte) bool {
	if len(sig) != 8+ed25519.SignatureSize {
		return false
	}
	at := binary.BigEndian.Uint64(sig)
	return at <= math.MaxInt64 && ed25519.Verify(k.key, cosigned(at, msg), sig[8:])
}

func cosigned(at uint64, msg []byte) []byte {
	return append(fmt.Appendf(nil, "cosignature/v1\ntime %d\n", at), msg...)
}

// Cosign returns the line of a note with the witness's signature of a checkpoint's text.
func (c *Cosigner) Cosign(text string, at time.Time) string {
	t := uint64(max(at.Unix(), 0))
	sig := binary.BigEndian.AppendUint32(nil, c.hash)
	sig = binary.BigEndian.AppendUint64(sig, t)
	sig = append(sig, ed25519.Sign(c.key, cosigned(t, []byte(text)))...)
	return "— " + c.name + " " + base64.StdEncoding.EncodeToString(sig) + "\n"
}

// CosignedAt finds the time of a witness's cosignature among the verified signatures of a
// note.
func CosignedAt(n *note.Note, k *CosignKey) (time.Time, bool) {
	for _, s := range n.Sigs {
		raw, err := base64.StdEncoding.DecodeString(s.Base64)
		if err == nil && s.Name == k.name && s.Hash == k.hash && len(raw) == 4+8+ed25519.SignatureSize {
			return time.Unix(int64(binary.BigEndian.Uint64(raw[4:])), 0), true
		}
	}
	return time.Time{}, false
}
