package database

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store/postgres"
	"github.com/remitrun/remit/internal/record/store/tables"
	"github.com/remitrun/remit/internal/service/home"
)

// passwordFile has the password of a tenant's role, below $REMIT_HOME: as secret as the keys.
const passwordFile = tables.KeyFolder + "/database.pass"

// tenantAction is what the ledger of a tenant records of its beginning.
const tenantAction = "ledger.tenant"

// Tenant makes a tenant on the server of the home's database, which names a role that may make
// others, and its ledger with the keys in $REMIT_HOME. It then has nothing to do with that role.
func Tenant(ctx context.Context, h *home.Home, name string) (postgres.Tenant, postgres.Status, error) {
	none := func(err error) (postgres.Tenant, postgres.Status, error) {
		return postgres.Tenant{}, postgres.Status{}, err
	}
	admin, err := Options(h)
	if err != nil {
		return none(err)
	}
	file, err := filepath.Abs(filepath.Join(h.Dir, passwordFile))
	if err != nil {
		return none(fault.Wrap(fault.StoreFailed, err, "$REMIT_HOME has no absolute path"))
	}
	for _, there := range []string{file, filepath.Join(h.Dir, tables.KeyFolder, tables.SignFile)} {
		if wholefile.Exists(there) {
			return none(fault.New(fault.Conflict, "%q belongs to a ledger already", there).WithHint("a tenant has a $REMIT_HOME of its own: set REMIT_HOME to a new folder"))
		}
	}
	t, err := postgres.MakeTenant(ctx, admin.URL, name)
	if err != nil {
		return none(err)
	}
	content := t.WithPassfile(file)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), wholefile.Replace(file, []byte(content))); err != nil {
		return none(fault.Wrap(fault.StoreFailed, err, "the password of the role %q cannot be written: %v", t.Role, wholefile.Cause(err)).WithHint("remove the role and its database, and try again"))
	}
	s, err := postgres.Open(ctx, postgres.Options{Home: h.Dir, URL: t.URL, Lease: admin.Lease})
	if err != nil {
		return none(err)
	}
	err = home.Operated(ctx, s, tenantAction, ledger.OperatorAction{Target: t.Database}, 0)
	if err = errors.Join(err, s.Close()); err != nil {
		return none(err)
	}
	st, err := postgres.ReadStatus(ctx, t.URL)
	return t, st, err
}
