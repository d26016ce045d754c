package tables

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
)

// keysLock is the lock of processes that change the key files.
const keysLock = "ledger.lock"

// CheckPublicKey implements store.Backend.
func (s *Store) CheckPublicKey(ctx context.Context) (repaired string, err error) {
	if s.keys.publicFault() == "" {
		return "", nil
	}
	if _, err := s.readLog(ctx, s.read); err != nil { // the signing key may be the wrong one, or not the newest one
		return "", s.fault(err, "the public key cannot be checked")
	}
	if s.readOnly {
		return "", s.keys.errPublic(nil)
	}
	repaired, err = s.keys.repairPublic()
	if err != nil {
		return "", s.keys.errPublic(err)
	}
	return repaired, nil
}

// publicFault returns the fault of the public key file; "": none. Whole keys are compared: a key with
// the same name and 32-bit hash can be made.
func (k *Keys) publicFault() string {
	b, err := wholefile.ReadRegular(filepath.Join(k.dir, PublicFile), 64<<10)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "is missing"
	case errors.Is(err, wholefile.ErrNotRegular):
		return "is not a regular file"
	case err != nil:
		return "cannot be read"
	case len(strings.TrimSpace(string(b))) == 0:
		return "is empty"
	}
	text := strings.TrimSpace(string(b))
	if _, err := note.NewVerifier(text); err != nil {
		return "is damaged"
	}
	if public, err := k.pair().public(); err != nil || text != public {
		return "does not belong to the ledger's signing key"
	}
	return ""
}

// repairPublic writes the public key file anew, and returns its fault. It changes nothing while
// another process puts a new signing key in place.
func (k *Keys) repairPublic() (was string, err error) {
	public, err := k.pair().public()
	if err != nil {
		return "", err
	}
	unlock, err := wholefile.Lock(filepath.Join(k.dir, keysLock))
	if err != nil {
		return "", err
	}
	defer unlock()
	now, err := readKey(filepath.Join(k.dir, SignFile))
	if err != nil || now != k.ring.Load().text {
		return "", err
	}
	if was = k.publicFault(); was == "" {
		return "", nil
	}
	return was, k.writePublic(public)
}

// writePublic writes the public key file. It replaces an empty folder, too: container runtimes
// make one for a mount whose source is missing.
func (k *Keys) writePublic(public string) error {
	name := filepath.Join(k.dir, PublicFile)
	if info, err := os.Lstat(name); err == nil && info.IsDir() {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	return wholefile.Replace(name, []byte(public+"\n"))
}

// errPublic is the error of a public key file that is not repaired: because of err, or, if that is
// nil, because the ledger is open for reading only.
func (k *Keys) errPublic(err error) error {
	file := filepath.Join(k.dir, PublicFile)
	msg, code := "the public key file %q %s, and this process may not repair it", fault.StoreReadOnly
	if err != nil {
		msg, code = "the public key file %q %s, and cannot be repaired", fault.StoreFailed
	}
	hint := "as the owner of the folder, remove the file, and run remit keys"
	if public, perr := k.pair().public(); perr == nil {
		hint += "; its content must be " + public
	}
	if err != nil {
		return fault.Wrap(code, err, msg+": %v", Clean(file), k.publicFault(), wholefile.Cause(err)).WithHint("%s", hint)
	}
	return fault.New(code, msg, Clean(file), k.publicFault()).WithHint("%s", hint)
}

// RepairedNote is the notice of a public key file that was wrong.
func RepairedNote(was string) string {
	return KeyFolder + "/" + PublicFile + " " + was + "; it was written anew from the signing key"
}
