package devices

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/redact"
)

// newSecret makes a code or cookie of 256 bits.
func newSecret() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// NewHost makes the name of the web UI's host, for one start of the service. Cookies are
// shared by all ports of a host, so no other server may have this name.
func NewHost() string { return "remit-" + strings.ToLower(rand.Text()) + ".localhost" }

// sealer encrypts with a key that is derived from a cookie.
func sealer(cookie string) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, []byte(cookie), nil, "remit web ui device 1", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

func seal(cookie, token string) ([]byte, error) {
	a, err := sealer(cookie)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the token of a device cannot be encrypted")
	}
	return a.Seal(nil, nil, []byte(token), nil), nil
}

func open(cookie string, sealed []byte) (string, error) {
	a, err := sealer(cookie)
	if err != nil {
		return "", err
	}
	b, err := a.Open(nil, nil, sealed, nil)
	return string(b), err
}

// cleanLabel makes a browser's description safe to show.
func cleanLabel(label string) string {
	if label = strings.TrimSpace(redact.Show(label)); label == "" {
		return "browser"
	}
	return clip.Text(label, maxLabel)
}
