package grants

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/remitrun/remit/internal/authority/dpop"
	"github.com/remitrun/remit/internal/authority/grant/token"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/record/ledger"
)

// The keys of grants in $REMIT_HOME: the private key that signs, and all public
// keys that ever did. The first one's hash is what tokens know the ledger by.
const (
	PrivateKeyFile = "keys/grant.key"
	PublicKeysFile = "keys/grant.json"
)

// Key is a public key that signs, or signed, this ledger's grants.
type Key struct {
	Public   string    `json:"public"` // base64 of the 32 bytes
	ID       string    `json:"id"`     // its SHA-256
	Made     time.Time `json:"made"`
	NotAfter time.Time `json:"not_after,omitzero"` // from then on nothing that it signed is accepted; zero: it signs now
}

type keyList struct {
	Keys []Key `json:"keys"` // oldest first; the last one signs
}

// trust is whose tokens are accepted here.
func (k keyList) trust() (token.Trust, error) {
	var t token.Trust
	for i, key := range k.Keys {
		pub, err := base64.StdEncoding.DecodeString(key.Public)
		if err != nil || len(pub) != ed25519.PublicKeySize {
			return token.Trust{}, fault.New(fault.GrantInvalid, "the list of this ledger's grant keys is damaged: key %d", i+1).
				WithHint("restore %s from a copy", PublicKeysFile)
		}
		if i == 0 {
			t.Ledger = token.KeyID(pub)
		}
		t.Keys = append(t.Keys, token.Key{Public: pub, NotAfter: key.NotAfter})
	}
	return t, nil
}

// verifier verifies tokens with the keys of one state of the list, and keeps what it verified.
type verifier struct {
	*token.Cache
	list     []byte // the file's content
	audience string
}

// maxVerified is how many bytes of verified tokens are kept.
const maxVerified = 32 << 20

// verifier reads the list of keys. Tokens that were verified with another list are verified anew.
func (s *Grants) verifier() (*verifier, error) {
	list, err := s.home.ReadFile(PublicKeysFile)
	if v := s.verifies.Load(); err == nil && v != nil && bytes.Equal(v.list, list) {
		return v, nil
	}
	keys, err := decodeKeys(list, err)
	if err != nil {
		return nil, err
	}
	trust, err := keys.trust()
	if err != nil {
		return nil, err
	}
	v := &verifier{token.NewCache(trust, maxVerified), list, trust.Ledger.String()}
	s.verifies.Store(v)
	return v, nil
}

func (s *Grants) keys() (keyList, error) { return decodeKeys(s.home.ReadFile(PublicKeysFile)) }

// decodeKeys decodes the list of keys as it was read; nil: there is none.
func decodeKeys(list []byte, err error) (k keyList, _ error) {
	if err == nil && list != nil {
		err = json.Unmarshal(list, &k)
	}
	if err != nil {
		return k, fault.Wrap(fault.GrantInvalid, err, "the list of this ledger's grant keys cannot be read: %v", err).WithHint("restore %s from a copy", PublicKeysFile)
	}
	return k, nil
}

// Keys lists the keys that this ledger's grants are signed with, oldest
// first.
func (s *Grants) Keys() ([]Key, error) {
	k, err := s.keys()
	return k.Keys, err
}

// grantLock keeps the list of keys and the key that signs together.
const grantLock = "grants.lock"

// signingKey gives the private key that signs grants, making it on first use.
func (s *Grants) signingKey() (priv ed25519.PrivateKey, k keyList, err error) {
	err = s.home.Locked(grantLock, func() error {
		if k, err = s.keys(); err == nil && len(k.Keys) == 0 {
			k, err = s.addKey(k, time.Time{})
		}
		if err == nil {
			priv, err = readPrivateKey(filepath.Join(s.home.Dir, PrivateKeyFile))
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, k, fault.New(fault.GrantInvalid, "%s is missing", PrivateKeyFile).WithHint("restore it from a copy, or make a new one: remit grant keys rotate")
	}
	if err != nil {
		return nil, k, err
	}
	pub, _ := priv.Public().(ed25519.PublicKey)
	if last := k.Keys[len(k.Keys)-1]; base64.StdEncoding.EncodeToString(pub) != last.Public {
		return nil, k, fault.New(fault.GrantInvalid, "%s is not the newest of this ledger's grant keys", PrivateKeyFile).
			WithHint("make a new one: remit grant keys rotate")
	}
	return priv, k, nil
}

// RotateKey makes a new key for grants. Tokens that the old one signed are accepted until the last
// of them has expired.
func (s *Grants) RotateKey(until time.Time) (keys []Key, err error) {
	err = s.home.Locked(grantLock, func() error {
		k, err := s.keys()
		if err != nil {
			return err
		}
		return s.home.Recorded("grant.rotate", ledger.OperatorAction{Target: PrivateKeyFile}, func() (err error) {
			k, err = s.addKey(k, until)
			keys = k.Keys
			return err
		})
	})
	return keys, err
}

func (s *Grants) addKey(k keyList, until time.Time) (keyList, error) {
	pub, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return k, fault.Wrap(fault.Internal, err, "no random numbers")
	}
	now := time.Now().UTC().Truncate(time.Second)
	k.Keys = slices.Clone(k.Keys)
	if n := len(k.Keys); n > 0 {
		if until.IsZero() || until.After(now.Add(token.MaxLife)) {
			until = now.Add(token.MaxLife)
		}
		k.Keys[n-1].NotAfter = until.UTC().Truncate(time.Second).Add(time.Second)
	}
	k.Keys = append(k.Keys, Key{Public: base64.StdEncoding.EncodeToString(pub), ID: token.KeyID(pub).String(), Made: now})
	// The list first: a key that is not in it signs nothing that is accepted.
	if err := s.home.Write(PublicKeysFile, k); err != nil {
		return k, err
	}
	text, err := encodePrivateKey(priv)
	if err != nil {
		return k, err
	}
	return k, s.home.WriteFile(PrivateKeyFile, text)
}

func encodePrivateKey(k ed25519.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "a key cannot be encoded")
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// NewHolderKey makes a key for a holder in a new file that only its owner can
// read, and gives the public key, in base64, to issue grants to.
func NewHolderKey(file string) (string, error) {
	pub, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", fault.Wrap(fault.Internal, err, "no random numbers")
	}
	text, err := encodePrivateKey(priv)
	if err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(pub), WriteSecret(file, string(text))
}

// WriteSecret writes a new file that only its owner can read.
func WriteSecret(file, text string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fault.New(fault.Usage, "%q is there already", file).WithHint("name a new file; its old content would be lost")
	}
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Sync(), f.Close())
	}
	if err != nil {
		return fault.Wrap(fault.Usage, err, "%q cannot be written: %v", file, wholefile.Cause(err))
	}
	return nil
}

// readPrivateKey reads an Ed25519 key in PKCS #8 form. The file must be readable by its
// owner only.
func readPrivateKey(file string) (ed25519.PrivateKey, error) {
	bad := func(err error, why string) error {
		return fault.Wrap(fault.GrantHolder, err, "the key file %q %s", file, why).WithHint("make one with remit grant keygen FILE")
	}
	st, err := os.Stat(file)
	if err != nil {
		return nil, bad(err, "cannot be read")
	}
	if !st.Mode().IsRegular() || st.Mode().Perm()&0o077 != 0 {
		return nil, fault.New(fault.GrantHolder, "the key file %q can be read by others (mode %04o)", file, st.Mode().Perm()).
			WithHint("if nobody else can have read it: chmod 600 %q", file)
	}
	b, err := wholefile.Read(file, 64<<10)
	if err != nil {
		return nil, bad(err, "cannot be read")
	}
	block, _ := pem.Decode(b)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, bad(nil, "holds no private key")
	}
	k, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, bad(err, "holds no private key")
	}
	priv, ok := k.(ed25519.PrivateKey)
	if !ok {
		return nil, bad(nil, "holds a key that is not Ed25519")
	}
	return priv, nil
}

// RequestProof makes the proof of RFC 9449 for one HTTP request under a grant that is bound to
// a key. It needs no ledger.
func RequestProof(p Presented, method, address string) (string, error) {
	key, err := readPrivateKey(p.KeyFile)
	if err != nil {
		return "", err
	}
	c, err := token.Decode(p.Token)
	if err != nil {
		return "", err
	}
	if c.HolderKey() == nil || !c.HolderKey().Equal(key.Public()) {
		return "", fault.New(fault.GrantHolder, "the grant is not bound to this key").WithHint("use the private key that the grant was issued for; a grant without a key needs no proof")
	}
	return dpop.Make(key, dpop.Use{Method: method, URL: address, Token: p.Token, At: time.Now(), ID: rand.Text()})
}

// parsePublicKey reads an Ed25519 public key in base64.
func parsePublicKey(text string) (ed25519.PublicKey, error) {
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(b) != ed25519.PublicKeySize {
		return nil, fault.New(fault.Usage, "%q is not a public key", text).WithHint("remit grant keygen FILE creates a key pair and prints the public key")
	}
	return b, nil
}
