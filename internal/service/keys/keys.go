// Package keys lists the keys of $REMIT_HOME, and rotates those of the ledger and of the
// file of secrets. Keys of grants are rotated by package grants. Start at [Keys].
package keys

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/tables"
	"github.com/remitrun/remit/internal/service/grants"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/secrets"
)

// Keys are those of one $REMIT_HOME.
type Keys struct {
	Home    *home.Home
	Grants  *grants.Grants
	Secrets *secrets.Secrets
}

// Key is one key. Nothing in it is secret.
type Key struct {
	Of     string    `json:"of"`              // "ledger", "grants" or "secrets"
	ID     string    `json:"id"`              // a digest, shortened
	State  string    `json:"state"`           // "signs", "encrypts", or "verifies": what an older key made
	Since  time.Time `json:"since,omitzero"`  // as far as it is known
	Events int64     `json:"events,omitzero"` // of an older key of the ledger: the size of its last checkpoint
	Public string    `json:"public,omitempty"`

	Warning string `json:"warning,omitempty"` // about keys/ledger.pub
}

// List lists the keys, of each kind the oldest first.
func (s *Keys) List(ctx context.Context, st store.Backend) ([]Key, error) {
	out := []Key{}
	for _, r := range st.Rotations() {
		out = append(out, Key{Of: "ledger", ID: ledger.KeyID(r.Old), State: "verifies", Events: r.Size, Public: r.Old})
	}
	dir := filepath.Join(s.Home.Dir, tables.KeyFolder)
	signs := Key{Of: "ledger", State: "signs", Since: changed(filepath.Join(dir, tables.SignFile))}
	if was, err := st.CheckPublicKey(ctx); err != nil {
		signs.Warning = fault.Message(err)
	} else if was != "" {
		signs.Warning = tables.RepairedNote(was)
	}
	signs.Public = st.PublicKey()
	signs.ID = ledger.KeyID(signs.Public)
	out = append(out, signs)
	list, err := s.Grants.Keys()
	if err != nil {
		return nil, err
	}
	for _, k := range list {
		one := Key{Of: "grants", ID: k.ID[:min(16, len(k.ID))], State: "signs", Since: k.Made, Public: k.Public}
		if !k.NotAfter.IsZero() {
			one.State = "verifies"
		}
		out = append(out, one)
	}
	names, at, err := s.Secrets.Store.Keys()
	for i := len(names) - 1; i >= 0; i-- {
		one := Key{Of: "secrets", ID: names[i], State: "encrypts", Since: at}
		if i > 0 {
			one.State = "left by an interrupted rotation"
		}
		out = append(out, one)
	}
	return out, err
}

// CheckPublic repairs the file of the ledger's public key, and logs its fault.
func (s *Keys) CheckPublic(ctx context.Context, st store.Backend) {
	was, err := st.CheckPublicKey(ctx)
	if was == "" && err == nil {
		return
	}
	log, lerr := s.Home.Log()
	switch {
	case lerr != nil: // remit keys and remit verify say it too
	case err != nil:
		log.Logger().Error("public_key_wrong", "error", err.Error())
	default:
		log.Logger().Warn("public_key_repaired", "was", was)
	}
}

func changed(file string) time.Time {
	info, err := os.Stat(file)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// RotateLedger replaces the key that signs checkpoints.
func (s *Keys) RotateLedger(ctx context.Context) (ledger.Rotation, error) {
	st, err := s.Home.Ledger(ctx)
	if err != nil {
		return ledger.Rotation{}, err
	}
	var about ledger.OperatorAction
	rot, err := st.RotateKey(ctx, func(public string) error {
		about = ledger.OperatorAction{Target: public, Digest: ledger.KeyID(public)}
		return home.Operated(ctx, st, ledger.RotateAction, about, 0)
	})
	if err != nil && about.Target != "" {
		if rerr := home.Operated(ctx, st, ledger.RotateAction, about, fault.CodeOf(err)); rerr != nil {
			return rot, rerr
		}
	}
	if err == nil && s.Home.Tell != nil {
		s.Home.Tell(ledger.RotateAction, about.Digest)
	}
	return rot, err
}

// RotateSecrets replaces the key that the file of secrets is encrypted for.
func (s *Keys) RotateSecrets() (string, error) {
	return s.Secrets.Rotate()
}
