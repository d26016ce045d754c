package tables

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/note"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
)

// The key files in the home folder.
const (
	KeyFolder  = "keys"
	SignFile   = "ledger.key" // Ed25519, as package note encodes it
	PublicFile = "ledger.pub"
	BlobFile   = "blob.key" // 32 bytes in base64

	StagedFile = "ledger.key.new" // becomes SignFile once the ledger's database is complete
)

// originPrefix and a UUID name a ledger.
const originPrefix = "remit.local/"

// Keys are the secret keys of a ledger. Their owner can forge its history.
type Keys struct {
	origin string
	dir    string // of the key files
	ring   atomic.Pointer[ring]
	blob   []byte // addresses blobs
	mac    []byte // authenticates the log's newest state
	tag    []byte // authenticates single events
	row    []byte // authenticates rows of tables that change
	token  []byte // encrypts the tokens of queued runs

	logMACs sync.Pool // of hash.Hash under mac
}

// LoadKeys reads the keys. It refuses key files that others can read.
func LoadKeys(home string) (*Keys, error) { return loadKeys(home, SignFile) }

// LoadStagedKeys reads the keys of a ledger that is being made.
func LoadStagedKeys(home string) (*Keys, error) { return loadKeys(home, StagedFile) }

func loadKeys(home, signFile string) (*Keys, error) {
	dir := filepath.Join(home, KeyFolder)
	sign, err := readKey(filepath.Join(dir, signFile))
	if err != nil {
		return nil, err
	}
	blob, err := readKey(filepath.Join(dir, BlobFile))
	if err != nil {
		return nil, err
	}
	rotations, err := readRotations(dir)
	if err != nil {
		return nil, err
	}
	bad := func(name string, err error) error {
		return fault.Wrap(fault.StoreFailed, err, "the key file %q is damaged", Clean(filepath.Join(dir, name))).
			WithHint("restore it from a copy: without it the ledger can neither be extended nor checked")
	}
	k := &Keys{dir: dir}
	k.logMACs.New = func() any { return hmac.New(sha256.New, k.mac) }
	now, err := newRing(sign, rotations)
	if err != nil {
		return nil, bad(signFile, err)
	}
	k.ring.Store(now)
	if k.blob, err = base64.StdEncoding.DecodeString(blob); err != nil || len(k.blob) != 32 {
		return nil, bad(BlobFile, err)
	}
	k.origin = now.pair.Name()
	root, err := stateKey(dir, sign, k.blob)
	if err != nil {
		return nil, bad(StateFile, err)
	}
	if k.mac, err = hkdf.Expand(sha256.New, root, "remit log state v1", 32); err != nil {
		return nil, bad(signFile, err)
	}
	if k.tag, err = hkdf.Expand(sha256.New, root, "remit event tag v1", 32); err != nil {
		return nil, bad(signFile, err)
	}
	if k.row, err = hkdf.Expand(sha256.New, root, "remit table row v1", 32); err != nil {
		return nil, bad(signFile, err)
	}
	k.token, err = hkdf.Expand(sha256.New, root, "remit queue token v1", 32)
	return k, err
}

func readKey(path string) (string, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fault.Wrap(fault.StoreFailed, err, "the ledger's key %q is missing", Clean(path)).
			WithHint("restore it from a copy; to begin a new ledger, move the whole folder %q away", Clean(filepath.Dir(filepath.Dir(path))))
	}
	if err != nil {
		return "", fault.Wrap(fault.StoreFailed, err, "the ledger's key %q cannot be read", Clean(path)).
			WithHint("check its owner and mode")
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return "", fault.Wrap(fault.StoreFailed, err, "the ledger's key %q is not a regular file", Clean(path))
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", fault.New(fault.StoreFailed, "the ledger's key %q can be read or written by others (mode %04o)", Clean(path), info.Mode().Perm()).
			WithHint("if no one else has read it: chmod 600 %q", Clean(path))
	}
	b := make([]byte, 1024)
	n, err := f.Read(b)
	if err != nil {
		return "", fault.Wrap(fault.StoreFailed, err, "the ledger's key %q cannot be read", Clean(path))
	}
	text := strings.TrimSpace(string(b[:n]))
	if encrypted(text) {
		return "", fault.New(fault.StoreFailed, "the ledger's key %q is encrypted; Remit needs it unencrypted", Clean(path)).
			WithHint("decrypt it in place, and encrypt the disk instead")
	}
	return text, nil
}

// encrypted reports whether the text of a key file is the output of a common tool: age, PEM and GnuPG,
// OpenSSL, Ansible or SOPS.
func encrypted(text string) bool {
	for _, head := range []string{"age-encryption.org/", "-----BEGIN ", "Salted__", "U2FsdGVkX1", "$ANSIBLE_VAULT;"} {
		if strings.HasPrefix(text, head) {
			return true
		}
	}
	return strings.Contains(text, "ENC[AES256_GCM,")
}

// MakeKeys makes the keys of a new ledger, or those still missing after an
// interrupted call. The signing key keeps its staged name until the ledger's database
// is complete. The caller holds the setup lock.
func MakeKeys(home string) error {
	dir := filepath.Join(home, KeyFolder)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	staged, blob := filepath.Join(dir, StagedFile), filepath.Join(dir, BlobFile)
	if !wholefile.Exists(staged) {
		sign, _, err := note.GenerateKey(rand.Reader, originPrefix+uuid.NewString())
		if err != nil {
			return err
		}
		if err := wholefile.Replace(staged, []byte(sign+"\n")); err != nil {
			return err
		}
	}
	if !wholefile.Exists(blob) {
		key := make([]byte, 32)
		_, _ = rand.Read(key) // never fails
		if err := wholefile.Replace(blob, []byte(base64.StdEncoding.EncodeToString(key)+"\n")); err != nil {
			return err
		}
	}
	k, err := LoadStagedKeys(home)
	if err != nil {
		return err
	}
	public, err := k.pair().public()
	if err != nil {
		return err
	}
	return wholefile.Replace(filepath.Join(dir, PublicFile), []byte(public+"\n"))
}

// Origin is the ledger's name.
func (k *Keys) Origin() string { return k.origin }

// address returns a blob's address: a MAC of its bytes, so that a copy of the
// file does not reveal which known contents it holds.
func (k *Keys) address(b []byte) [32]byte {
	m := hmac.New(sha256.New, k.blob)
	m.Write(b)
	var a [32]byte
	m.Sum(a[:0])
	return a
}

// Verifiers check what the ledger's keys signed.
func (k *Keys) Verifiers() note.Verifiers { return k.public() }
