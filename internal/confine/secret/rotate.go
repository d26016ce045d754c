package secret

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"filippo.io/age"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
)

// Rotate encrypts the file for a new key, and removes the old one. Until the file is
// replaced, the file of keys has both, so that a process that is killed loses nothing: the
// next Rotate finishes. It returns a name for the new key.
func (s *Store) Rotate() (string, error) {
	unlock, err := s.lock()
	if err != nil {
		return "", err
	}
	defer unlock()
	list, err := s.read()
	if err != nil {
		return "", err
	}
	old, err := s.identities()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	id, err := age.GenerateX25519Identity()
	if err != nil {
		return "", fault.Wrap(fault.Internal, err, "no random numbers")
	}
	if err := s.writeIdentities(append([]*age.X25519Identity{id}, old...)); err != nil {
		return "", err
	}
	if _, err := os.Lstat(s.path(valuesFile)); err == nil {
		if err := s.write(list); err != nil { // encrypts for the first key
			return "", err
		}
	}
	return keyName(id), s.writeIdentities([]*age.X25519Identity{id})
}

// Keys names the keys of the file, the newest first, and says when their file was written.
// More than one remain after a rotation that was interrupted.
func (s *Store) Keys() (names []string, at time.Time, err error) {
	list, err := s.identities()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, at, nil
	}
	for _, id := range list {
		names = append(names, keyName(id))
	}
	if info, serr := os.Stat(s.path(identityFile)); serr == nil {
		at = info.ModTime()
	}
	return names, at, err
}

func keyName(id *age.X25519Identity) string {
	sum := sha256.Sum256([]byte(id.Recipient().String()))
	return hex.EncodeToString(sum[:8])
}

func (s *Store) writeIdentities(list []*age.X25519Identity) error {
	name := s.path(identityFile)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return failed(err, "cannot be given a key")
	}
	var text strings.Builder
	fmt.Fprintf(&text, "# The key of %s. Who has both has every secret.\n", valuesFile)
	for _, id := range list {
		fmt.Fprintf(&text, "%s\n", id)
	}
	if err := wholefile.Replace(name, []byte(text.String())); err != nil {
		return failed(err, "cannot be given a key")
	}
	return nil
}
