package app

import (
	"context"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store/sqlite"
	"github.com/remitrun/remit/internal/service/grants"
	"github.com/remitrun/remit/internal/service/home"
)

// Begun is a ledger that Init made or found.
type Begun struct {
	Origin  string // names the ledger in its checkpoints
	Home    string
	Retired sqlite.Retired // with InitRequest.NewLedger: the remains of the old ledger
}

// LedgerPresent reports a ledger that is missing although its keys are there.
func (a *App) LedgerPresent() error {
	if a.Home.Database != "" {
		return nil // the database tells when it is opened
	}
	return sqlite.Present(a.Home.Dir)
}

// Init makes the ledger if there is none yet. With anew it starts over after the
// ledger was lost: the new ledger has an origin and keys of its own, and takes no
// grant of the old one.
func (a *App) Init(ctx context.Context, anew bool) (Begun, error) {
	out := Begun{Home: a.Home.Dir}
	if anew && a.Home.Database != "" {
		return out, fault.New(fault.Usage, "--new-ledger is for a ledger in a file").WithHint("name an empty database with REMIT_DB, and another REMIT_HOME")
	}
	if anew {
		var err error
		// Grants go too: whether they were revoked, or spent, is not known any more.
		if out.Retired, err = sqlite.Retire(ctx, a.Home.Dir, grants.AdminFile, grants.PrivateKeyFile, grants.PublicKeysFile, home.SettingsSeen); err != nil {
			return out, err
		}
	}
	st, err := a.Store(ctx)
	if err != nil {
		return out, err
	}
	if s, err := a.open(ctx, false); err == nil {
		out.Origin = s.Origin()
	}
	if out.Retired.Folder == "" {
		return out, nil
	}
	return out, home.Operated(ctx, st, "ledger.new", ledger.OperatorAction{Target: out.Retired.Origin}, 0)
}
