package sqlite

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

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/note"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
)

// The key files in the home folder.
const (
	keyFolder  = "keys"
	signFile   = "ledger.key" // Ed25519, as package note encodes it
	publicFile = "ledger.pub"
	blobFile   = "blob.key" // 32 bytes in base64

	stagedFile = "ledger.key.new" // becomes signFile once the ledger's file is complete
)

// originPrefix and a UUID name a ledger.
const originPrefix = "remit.local/"

// keys are the secret keys of a ledger. Their owner can forge its history.
type keys struct {
	origin string
	pair   *keyPair
	blob   []byte // addresses blobs
	mac    []byte // authenticates the log's newest state
	tag    []byte // authenticates single events
	row    []byte // authenticates rows of tables that change

	logMACs sync.Pool // of hash.Hash under mac
}

// loadKeys reads the keys. It refuses key files that others can read.
func loadKeys(home string) (*keys, error) { return loadKeysWith(home, signFile) }

func loadKeysWith(home, signFile string) (*keys, error) {
	dir := filepath.Join(home, keyFolder)
	sign, err := readKey(filepath.Join(dir, signFile))
	if err != nil {
		return nil, err
	}
	blob, err := readKey(filepath.Join(dir, blobFile))
	if err != nil {
		return nil, err
	}
	bad := func(name string, err error) error {
		return fault.Wrap(fault.StoreFailed, err, "the key file %q is damaged", clean(filepath.Join(dir, name))).
			WithHint("restore it from a copy: without it the ledger can neither be extended nor checked")
	}
	k := &keys{}
	k.logMACs.New = func() any { return hmac.New(sha256.New, k.mac) }
	if k.pair, err = parseKeyPair(sign); err != nil {
		return nil, bad(signFile, err)
	}
	if k.blob, err = base64.StdEncoding.DecodeString(blob); err != nil || len(k.blob) != 32 {
		return nil, bad(blobFile, err)
	}
	k.origin = k.pair.Name()
	if k.mac, err = hkdf.Key(sha256.New, []byte(sign), k.blob, "remit log state v1", 32); err != nil {
		return nil, bad(signFile, err)
	}
	if k.tag, err = hkdf.Key(sha256.New, []byte(sign), k.blob, "remit event tag v1", 32); err != nil {
		return nil, bad(signFile, err)
	}
	k.row, err = hkdf.Key(sha256.New, []byte(sign), k.blob, "remit table row v1", 32)
	return k, err
}

func readKey(path string) (string, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fault.Wrap(fault.StoreFailed, err, "the ledger's key %q is missing", clean(path)).
			WithHint("restore it from a copy; to begin a new ledger, move the whole folder %q away", clean(filepath.Dir(filepath.Dir(path))))
	}
	if err != nil {
		return "", fault.Wrap(fault.StoreFailed, err, "the ledger's key %q cannot be read", clean(path)).
			WithHint("check its owner and mode")
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return "", fault.Wrap(fault.StoreFailed, err, "the ledger's key %q is not a regular file", clean(path))
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", fault.New(fault.StoreFailed, "the ledger's key %q can be read or written by others (mode %04o)", clean(path), info.Mode().Perm()).
			WithHint("if no one else has read it: chmod 600 %q", clean(path))
	}
	b := make([]byte, 1024)
	n, err := f.Read(b)
	if err != nil {
		return "", fault.Wrap(fault.StoreFailed, err, "the ledger's key %q cannot be read", clean(path))
	}
	return strings.TrimSpace(string(b[:n])), nil
}

// makeKeys makes the keys of a new ledger, or those still missing after an
// interrupted call. The signing key keeps its staged name until the ledger's file
// is complete. The caller holds the setup lock.
func makeKeys(home string) error {
	dir := filepath.Join(home, keyFolder)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	staged, blob := filepath.Join(dir, stagedFile), filepath.Join(dir, blobFile)
	if !exists(staged) {
		sign, _, err := note.GenerateKey(rand.Reader, originPrefix+uuid.NewString())
		if err != nil {
			return err
		}
		if err := wholefile.Replace(staged, []byte(sign+"\n")); err != nil {
			return err
		}
	}
	if !exists(blob) {
		key := make([]byte, 32)
		_, _ = rand.Read(key) // never fails
		if err := wholefile.Replace(blob, []byte(base64.StdEncoding.EncodeToString(key)+"\n")); err != nil {
			return err
		}
	}
	k, err := loadKeysWith(home, stagedFile)
	if err != nil {
		return err
	}
	public, err := k.pair.public()
	if err != nil {
		return err
	}
	return wholefile.Replace(filepath.Join(dir, publicFile), []byte(public+"\n"))
}

// address returns a blob's address: a MAC of its bytes, so that a copy of the
// file does not reveal which known contents it holds.
func (k *keys) address(b []byte) [32]byte {
	m := hmac.New(sha256.New, k.blob)
	m.Write(b)
	var a [32]byte
	m.Sum(a[:0])
	return a
}
