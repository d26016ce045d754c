package witnesses

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"net/http"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/witness"
)

// The files of a service that is a witness, below $REMIT_HOME.
const (
	keyFile      = "keys/witness.key"
	keyLock      = "witness.lock"
	servedFolder = "witnessed" // the newest checkpoint of each ledger
)

// Service returns the witness of other ledgers that this $REMIT_HOME is, nil if the settings
// name none.
func (s *Witnesses) Service() (http.Handler, error) {
	if len(s.Home.Settings.WitnessOf) == 0 {
		return nil, nil
	}
	key, err := s.key()
	if err != nil {
		return nil, err
	}
	return witness.NewService(filepath.Join(s.Home.Dir, servedFolder), key, s.Home.Settings.WitnessOf, time.Now)
}

// PublicKey is the key of the witness that this $REMIT_HOME is.
func (s *Witnesses) PublicKey() (string, error) {
	key, err := s.key()
	if err != nil {
		return "", err
	}
	return key.CosignKey.String(), nil
}

// key reads the witness's key. It is made on first use.
func (s *Witnesses) key() (key *ledger.Cosigner, err error) {
	file := filepath.Join(s.Home.Dir, keyFile)
	err = s.Home.Locked(keyLock, func() error {
		b, err := wholefile.ReadRegular(file, 1024)
		if err == nil {
			if key, err = ledger.ParseCosigner(string(b)); err != nil {
				err = fault.Wrap(fault.StoreFailed, err, "%s is damaged", file).WithHint("restore it from a copy")
			}
			return err
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return fault.Wrap(fault.StoreFailed, err, "%s cannot be read: %v", file, wholefile.Cause(err))
		}
		seed := make([]byte, 32)
		_, _ = rand.Read(seed) // never fails
		if key, err = ledger.NewCosigner("remit.local/witness/"+uuid.NewString(), seed); err != nil {
			return err
		}
		return s.Home.WriteFile(keyFile, []byte(key.Private()+"\n"))
	})
	return key, err
}
