package tables

import (
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/record/ledger"
)

// The key files of a ledger whose signing key was rotated.
const (
	RotationsFile = "ledger.rotations" // the rotations as signed notes, oldest first
	StateFile     = "state.key"        // the secret of the MACs' keys, since the first signing key is gone
	NextFile      = "ledger.key.next"  // a new signing key and its rotation, while they are put in place
)

const maxRotations = 1 << 20 // bytes of RotationsFile: about a thousand rotations

// ring is the key that signs, and those that signed before.
type ring struct {
	text      string // of the private key, as in its file
	pair      *keyPair
	rotations []string
	epochs    []string // of the keys, oldest first: what distinguishes the log's states; the first one's is empty
}

// newRing makes the ring of a signing key. The last rotation must lead to it. One that leads
// on from it was written by a process that was killed before it put the next key in place.
func newRing(text string, rotations []string) (*ring, error) {
	pair, err := parseKeyPair(text)
	if err != nil {
		return nil, err
	}
	r := &ring{text: text, pair: pair, epochs: []string{""}}
	for i, signed := range rotations {
		rot, err := ledger.OpenRotation(signed)
		if err != nil {
			return nil, err
		}
		old, oerr := note.NewVerifier(rot.Old)
		next, nerr := note.NewVerifier(rot.New)
		if err := errors.Join(oerr, nerr); err != nil {
			return nil, err
		}
		if i == len(rotations)-1 && next.KeyHash() != pair.KeyHash() {
			if old.KeyHash() != pair.KeyHash() {
				return nil, errors.New("the last rotation is of another key")
			}
			break
		}
		r.rotations = append(r.rotations, signed)
		r.epochs = append(r.epochs, fmt.Sprintf("\x00key %d %08x", i+1, next.KeyHash()))
	}
	return r, nil
}

// epoch is that of the newest key.
func (r *ring) epoch() string { return r.epochs[len(r.epochs)-1] }

// pair is the key that signs.
func (k *Keys) pair() *keyPair { return k.ring.Load().pair }

// public are the public keys.
func (k *Keys) public() ledger.PublicKeys {
	r := k.ring.Load()
	if len(r.rotations) == 0 {
		return ledger.KeysOf(r.pair)
	}
	text, err := r.pair.public()
	if err != nil {
		return ledger.KeysOf(r.pair)
	}
	keys, err := ledger.FollowKeys(text, r.rotations)
	if err != nil {
		return ledger.KeysOf(r.pair) // signatures of the older keys do not verify then
	}
	return keys
}

// wrote reports whether the ledger wrote a state: with the newest key, or an earlier one. If
// another process rotated the key, the new one is read from its file.
func (k *Keys) wrote(l *logState) bool {
	fits := func(r *ring) bool {
		return slices.ContainsFunc(r.epochs, func(epoch string) bool { return hmac.Equal(l.mac, l.sumIn(k, epoch)) })
	}
	if fits(k.ring.Load()) {
		return true
	}
	if now, err := k.read(SignFile); err == nil && fits(now) {
		k.ring.Store(now)
		return true
	}
	if next, err := k.readNext(); err == nil && fits(next) { // a process was killed before it put the key in place
		k.ring.Store(next)
		_ = k.promote(next) // the next process tries again
		return true
	}
	return false
}

// read reads the signing key of this ledger.
func (k *Keys) read(name string) (*ring, error) {
	text, err := readKey(filepath.Join(k.dir, name))
	if err != nil {
		return nil, err
	}
	rotations, err := readRotations(k.dir)
	if err != nil {
		return nil, err
	}
	r, err := newRing(text, rotations)
	if err == nil && r.pair.Name() != k.origin {
		err = errors.New("the key is of another ledger")
	}
	return r, err
}

// readNext reads a key that is being put in place.
func (k *Keys) readNext() (*ring, error) {
	b, err := wholefile.ReadRegular(filepath.Join(k.dir, NextFile), 64<<10)
	if err != nil {
		return nil, err
	}
	text, rotation, _ := strings.Cut(string(b), "\n")
	now := k.ring.Load()
	return newRing(text, append(now.rotations[:len(now.rotations):len(now.rotations)], rotation))
}

// readRotations reads the rotations of the key in its file.
func readRotations(dir string) ([]string, error) {
	b, err := wholefile.ReadRegular(filepath.Join(dir, RotationsFile), maxRotations)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Wrap(fault.StoreFailed, err, "the key file %q cannot be read", Clean(filepath.Join(dir, RotationsFile))).WithHint("restore it from a copy")
	}
	var out []string
	for i, one := range strings.Split(strings.TrimRight(string(b), "\n"), "\n\n"+ledger.RotationHead) {
		if i > 0 {
			one = ledger.RotationHead + one
		}
		out = append(out, one+"\n")
	}
	return out, nil
}

// stateKey returns the secret from which the MACs' keys are derived: a file once the signing key
// was rotated, else the first signing key.
func stateKey(dir, sign string, blob []byte) ([]byte, error) {
	text, err := readKey(filepath.Join(dir, StateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return hkdf.Extract(sha256.New, []byte(sign), blob)
	}
	if err != nil {
		return nil, err
	}
	key, err := base64.StdEncoding.DecodeString(text)
	if err == nil && len(key) != sha256.Size {
		err = errors.New("not 32 bytes")
	}
	return key, err
}

// next makes a signing key that follows the newest one.
func (k *Keys) next() (private, public string, err error) {
	private, public, err = note.GenerateKey(rand.Reader, k.origin)
	if err == nil {
		private = strings.TrimSpace(private)
	}
	return private, public, err
}

// stage writes the files of a new key beside those of the present one.
func (k *Keys) stage(private, public string, size int64) (*ring, error) {
	now := k.ring.Load()
	if err := k.promote(now); err != nil { // else the rotation to it would be lost
		return nil, err
	}
	old, err := now.pair.public()
	if err != nil {
		return nil, err
	}
	next, err := parseKeyPair(private)
	if err != nil {
		return nil, err
	}
	rot := ledger.Rotation{Origin: k.origin, Old: old, New: public, Size: size}
	signed, err := note.Sign(&note.Note{Text: rot.String()}, now.pair, next)
	if err != nil {
		return nil, err
	}
	if file := filepath.Join(k.dir, StateFile); !wholefile.Exists(file) {
		root, err := stateKey(k.dir, now.text, k.blob)
		if err == nil {
			err = wholefile.Replace(file, []byte(base64.StdEncoding.EncodeToString(root)+"\n"))
		}
		if err != nil {
			return nil, err
		}
	}
	if err := wholefile.Replace(filepath.Join(k.dir, NextFile), []byte(private+"\n"+string(signed))); err != nil {
		return nil, err
	}
	return k.readNext()
}

// promote puts the files of a staged key in place, and then its public key. Without that file
// the ledger works, so its error is told by [Store.CheckPublicKey].
func (k *Keys) promote(r *ring) error {
	public, err := r.pair.public()
	if err != nil {
		return err
	}
	unlock, err := wholefile.Lock(filepath.Join(k.dir, keysLock))
	if err != nil {
		return err
	}
	defer unlock()
	now, err := readKey(filepath.Join(k.dir, SignFile))
	if err != nil || now == r.text { // another process was first
		return err
	}
	for _, f := range []struct{ name, text string }{
		{RotationsFile, strings.Join(r.rotations, "\n")}, {SignFile, r.text + "\n"},
	} {
		if err := wholefile.Replace(filepath.Join(k.dir, f.name), []byte(f.text)); err != nil {
			return err
		}
	}
	_ = k.writePublic(public)
	return os.Remove(filepath.Join(k.dir, NextFile))
}

// RotateKey implements store.Backend.
func (s *Store) RotateKey(ctx context.Context, announce func(public string) error) (ledger.Rotation, error) {
	if s.readOnly {
		return ledger.Rotation{}, s.ErrReadOnly()
	}
	private, public, err := s.keys.next()
	if err == nil {
		err = announce(public)
	}
	if err != nil {
		return ledger.Rotation{}, err
	}
	if s.shared == nil {
		err = s.rotateAlone(ctx, private, public)
	} else {
		err = s.rotateShared(ctx, private, public)
	}
	if err != nil {
		return ledger.Rotation{}, s.fault(err, "the ledger's key cannot be rotated")
	}
	list := s.keys.ring.Load().rotations
	return ledger.OpenRotation(list[len(list)-1])
}

// rotateAlone rotates the key in the turn of the writer.
func (s *Store) rotateAlone(ctx context.Context, private, public string) error {
	s.w.turn <- struct{}{}
	defer func() { <-s.w.turn }()
	release, err := s.db.Turn()
	defer release()
	if err == nil {
		err = s.w.reconnect(ctx)
	}
	if err == nil {
		err = s.rotate(ctx, s.w.conn, private, public)
	}
	s.w.forgetAll()
	if err == nil {
		err = s.db.Sync()
	}
	return err
}

// rotateShared rotates the key of a ledger that other nodes use. The other nodes stop writing until
// they have the new one.
func (s *Store) rotateShared(ctx context.Context, private, public string) error {
	conn, err := s.shared.Durable(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return s.rotate(ctx, conn, private, public)
}

// rotate signs a last checkpoint with the old key, and writes the log's state for the new
// one. The commit decides: files that are staged without it are never used.
func (s *Store) rotate(ctx context.Context, conn *sql.Conn, private, public string) error {
	if err := begin(ctx, conn, s.dialect.Begin); err != nil {
		return err
	}
	defer conn.ExecContext(context.WithoutCancel(ctx), rollback) //nolint:errcheck // after the commit it does nothing
	l, err := s.lockLog(ctx, conn, false)
	if err == nil && s.shared != nil {
		err = s.shared.Present(ctx, conn)
	}
	if err != nil {
		return err
	}
	for more := s.shared != nil; more; {
		if more, err = s.extend(ctx, conn, &l); err != nil {
			return err
		}
	}
	if _, err := s.checkpoint(ctx, conn, &l); err != nil {
		return err
	}
	next, err := s.keys.stage(private, public, l.Size)
	if err != nil {
		return err
	}
	l.mac = l.sumIn(s.keys, next.epoch())
	if _, err := conn.ExecContext(ctx, updateLog, l.Size, l.Bytes(), l.signed, l.mac); err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, commit); err != nil {
		return err
	}
	s.keys.ring.Store(next)
	return s.keys.promote(next)
}

// Rotations implements store.Backend.
func (s *Store) Rotations() []ledger.Rotation {
	var out []ledger.Rotation
	for _, signed := range s.keys.ring.Load().rotations {
		if r, err := ledger.OpenRotation(signed); err == nil { // newRing has checked them
			out = append(out, r)
		}
	}
	return out
}
