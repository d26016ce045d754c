package secret

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"filippo.io/age"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
)

// The files, below the store's folder.
const (
	valuesFile   = "secrets.age"
	identityFile = "keys/secrets.key" // an age identity, as age-keygen writes it
	lockFile     = "secrets.lock"
)

// maxFile bounds the encrypted file: all values as JSON, and what age adds.
const maxFile = 2*MaxNames*MaxValue + 1<<20

// record is a kept value as the file has it.
type record struct {
	Entry

	Value string `json:"value,omitempty"` // "" if it is in the keyring
}

// content is the text before encryption.
type content struct {
	Version int      `json:"version"`
	Secrets []record `json:"secrets"` // by name
}

func (s *Store) path(name string) string { return filepath.Join(s.dir, name) }

// read returns the content of the file; nothing if there is no file.
func (s *Store) read() ([]record, error) {
	src, err := wholefile.Read(s.path(valuesFile), maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, failed(err, "cannot be read")
	}
	list, err := s.identities()
	if err != nil {
		return nil, err
	}
	var ids []age.Identity
	for _, id := range list {
		ids = append(ids, id)
	}
	r, err := age.Decrypt(bytes.NewReader(src), ids...)
	if err != nil {
		return nil, failed(err, "cannot be decrypted with "+identityFile)
	}
	plain, err := io.ReadAll(io.LimitReader(r, maxFile))
	if err != nil {
		return nil, failed(err, "is damaged")
	}
	return decode(plain)
}

func decode(plain []byte) ([]record, error) {
	var c content
	dec := json.NewDecoder(bytes.NewReader(plain))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil {
		return nil, failed(nil, "is damaged") // the decoder's words may hold a value
	}
	if c.Version != 1 {
		return nil, fault.New(fault.StoreVersion, "%s was written by a newer Remit: it has version %d", valuesFile, c.Version)
	}
	for _, r := range c.Secrets {
		if CheckName(r.Name) != nil || r.In != Keyring && (r.In != File || CheckValue(r.Value) != nil) {
			return nil, failed(nil, "is damaged")
		}
	}
	return c.Secrets, nil
}

// write replaces the file, whole or not at all.
func (s *Store) write(list []record) error {
	ids, err := s.identities()
	if errors.Is(err, fs.ErrNotExist) {
		ids, err = s.newIdentity()
	}
	if err != nil {
		return err
	}
	slices.SortFunc(list, func(a, b record) int { return strings.Compare(a.Name, b.Name) })
	plain, err := json.Marshal(content{1, list})
	if err != nil {
		return failed(err, "cannot be written")
	}
	var out bytes.Buffer
	w, err := age.Encrypt(&out, ids[0].Recipient())
	if err == nil {
		_, err = w.Write(plain)
		err = errors.Join(err, w.Close())
	}
	if err == nil {
		err = wholefile.Replace(s.path(valuesFile), out.Bytes())
	}
	if err != nil {
		return failed(err, "cannot be written")
	}
	return nil
}

// identities reads the keys of the file: one, or also the one before it while it is rotated.
// A missing file is also fs.ErrNotExist.
func (s *Store) identities() ([]*age.X25519Identity, error) {
	name := s.path(identityFile)
	st, err := os.Stat(name)
	if err == nil && (!st.Mode().IsRegular() || st.Mode().Perm()&0o077 != 0) {
		return nil, fault.New(fault.StoreFailed, "the key %q can be read by others (mode %04o)", name, st.Mode().Perm()).
			WithHint("if nobody else can have read it: chmod 600 %q; else set every secret anew", name)
	}
	var src []byte
	if err == nil {
		src, err = wholefile.Read(name, 4<<10)
	}
	if err != nil {
		return nil, fault.Wrap(fault.StoreFailed, err, "the key of %s cannot be read: %q", valuesFile, name).
			WithHint("restore it from a copy, or move %s away and set the secrets again", valuesFile)
	}
	var out []*age.X25519Identity
	for line := range strings.Lines(string(src)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		id, err := age.ParseX25519Identity(line)
		if err != nil {
			out = nil
			break
		}
		out = append(out, id)
	}
	if len(out) > 0 {
		return out, nil
	}
	return nil, fault.New(fault.StoreFailed, "%q holds no age identity", name).WithHint("restore it from a copy")
}

// newIdentity makes the key. While there is a file that an older key opens, there
// is none to make.
func (s *Store) newIdentity() ([]*age.X25519Identity, error) {
	if _, err := os.Lstat(s.path(valuesFile)); !errors.Is(err, fs.ErrNotExist) {
		return nil, failed(err, "has no key any more: "+identityFile+" is missing")
	}
	id, err := age.GenerateX25519Identity()
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "no random numbers")
	}
	list := []*age.X25519Identity{id}
	return list, s.writeIdentities(list)
}

// lock keeps other processes from changing the file until unlock is called.
func (s *Store) lock() (unlock func(), err error) {
	unlock, err = wholefile.Lock(s.path(lockFile))
	if err != nil {
		return nil, failed(err, "cannot be written")
	}
	return unlock, nil
}

func failed(err error, what string) error {
	return fault.Wrap(fault.StoreFailed, err, "%s %s", valuesFile, what)
}
