// Package app reads the configuration, builds every part, and shuts it all
// down. The tables of parts are in builtins.go; nothing registers itself.
// The command line and `serve` call the methods of [App]; start at [New].
package app

import (
	"context"
	"errors"
	"sync"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/confine/browser"
	"github.com/remitrun/remit/internal/confine/egress"
	"github.com/remitrun/remit/internal/confine/placement"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/agents"
	"github.com/remitrun/remit/internal/service/apis"
	"github.com/remitrun/remit/internal/service/approvals"
	"github.com/remitrun/remit/internal/service/backups"
	"github.com/remitrun/remit/internal/service/changes"
	"github.com/remitrun/remit/internal/service/clients"
	"github.com/remitrun/remit/internal/service/database"
	"github.com/remitrun/remit/internal/service/doctor"
	"github.com/remitrun/remit/internal/service/erasures"
	"github.com/remitrun/remit/internal/service/extensions"
	"github.com/remitrun/remit/internal/service/grants"
	"github.com/remitrun/remit/internal/service/history"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/images"
	"github.com/remitrun/remit/internal/service/keys"
	"github.com/remitrun/remit/internal/service/models"
	"github.com/remitrun/remit/internal/service/modules"
	"github.com/remitrun/remit/internal/service/notify"
	"github.com/remitrun/remit/internal/service/people"
	"github.com/remitrun/remit/internal/service/policies"
	"github.com/remitrun/remit/internal/service/policyreview"
	"github.com/remitrun/remit/internal/service/queue"
	"github.com/remitrun/remit/internal/service/replays"
	"github.com/remitrun/remit/internal/service/runs"
	"github.com/remitrun/remit/internal/service/secrets"
	"github.com/remitrun/remit/internal/service/servers"
	"github.com/remitrun/remit/internal/service/slash"
	"github.com/remitrun/remit/internal/service/witnesses"
	"github.com/remitrun/remit/internal/service/workers"
	"github.com/remitrun/remit/internal/tools/model"
)

// App is a built Remit. Parts that cost time to open (the ledger, the sandbox)
// are opened when first needed.
type App struct {
	Home         *home.Home
	Backups      *backups.Backups
	Policies     *policies.Policies
	Secrets      *secrets.Secrets
	Grants       *grants.Grants
	People       *people.People
	Approvals    *approvals.Approvals
	Changes      *changes.Changes
	Erasures     *erasures.Erasures
	Runs         *runs.Runs
	Queue        *queue.Queue
	History      *history.History
	Replays      *replays.Replays
	PolicyReview *policyreview.Reviewer
	APIs         *apis.APIs
	Extensions   *extensions.Extensions
	Servers      *servers.Servers
	Modules      *modules.Modules
	Images       *images.Images
	Models       *models.Models
	Agents       *agents.Agents
	Slash        *slash.Commands
	Clients      *clients.Clients
	Notifier     *notify.Notifier
	node         *workers.Node // takes workers; nil: no process of this App does
	Witnesses    *witnesses.Witnesses
	Doctor       *doctor.Doctor
	Keys         *keys.Keys
	Workers      *workers.Workers
	recovery     *database.Recovery
	catalog      *catalog.Catalog
	own          Own
	box          *placement.Box
	browsers     *browser.Browsers

	mu      sync.Mutex
	store   store.Backend
	release func() error // closes store
}

// Own holds the additions of the program that the App is part of.
type Own struct {
	Tools     []permit.Tool
	Models    []model.Provider
	Sandboxes *linux.Sandboxes // shared with other Apps of the process; nil: the App has its own
	Signer    *egress.Signer   // for the inspected connections of agents' sessions; nil: each command has a certificate of its own
	Ledger    *database.Shared // stays open when the App is closed; nil: the App opens the ledger for itself
}

// Shared makes the parts that several Apps share. The Sandboxes must be closed, after the Apps.
func Shared(l *database.Shared) Own { return Own{nil, nil, linux.NewSandboxes(), &egress.Signer{}, l} }

// EndSession ends the sandboxes of an agent's session.
func (a *App) EndSession(session string) {
	if a.own.Sandboxes != nil {
		a.own.Sandboxes.EndSession(session)
	}
}

// New builds an App. It must be closed.
func New(cfg home.Config, own Own) (*App, error) {
	registry, err := models.NewRegistry(cfg.Settings.Models, own.Models)
	if err != nil {
		return nil, err
	}
	a := &App{Home: &home.Home{Config: cfg}, own: own}
	a.Workers = &workers.Workers{Home: a.Home, Store: a.Store}
	a.Backups = &backups.Backups{Home: a.Home}
	a.Policies = &policies.Policies{Home: a.Home}
	a.Secrets = secrets.New(a.Home, a.Policies)
	database.Resolve(a.Home, a.Secrets)
	a.Grants = grants.New(a.Home, a.Policies)
	a.People = people.New(a.Home, a.Grants, a.storedSecret)
	a.Grants.Roles = a.People.Bound
	a.Home.Ledger, a.Home.Changed = a.Store, func() { servers.ForgetFailures(a.Home) }
	a.Images = &images.Images{Home: a.Home}
	a.box = &placement.Box{Box: linux.New(linux.Config{Getenv: cfg.Lookup, Secret: a.Secrets.Value, State: cfg.Dir, Image: a.Images.Image, Egress: egressOf(a.Secrets.Value, cfg.Lookup, own.Signer), Sandboxes: own.Sandboxes})}
	a.browsers = browser.New(a.box.Box, a.Secrets.Value)
	a.Modules = modules.New(a.Home, a.Secrets)
	a.Models = &models.Models{Home: a.Home, Secrets: a.Secrets, Registry: registry}
	a.Servers = &servers.Servers{Home: a.Home, Secrets: a.Secrets, Box: a.box, BuiltIn: a.builtIn}
	a.APIs = &apis.APIs{Home: a.Home, Secrets: a.Secrets}
	a.Extensions = &extensions.Extensions{Home: a.Home, Modules: a.Modules, Box: a.box, BuiltIn: a.builtIn}
	a.Changes = &changes.Changes{Home: a.Home, Box: a.box}
	a.recovery = &database.Recovery{Home: a.Home, Changes: a.Changes.Recover, Recovered: func(runs int, owners uint64) { a.Notifier.Recovered(runs, owners) }}
	a.Erasures = &erasures.Erasures{Home: a.Home, Changes: a.Changes}
	if a.catalog, err = a.openCatalog(); err != nil {
		return nil, err
	}
	a.Grants.Tools, a.Extensions.Tools = a.catalog, a.catalog
	a.Notifier = a.notifier()
	a.Home.Tell = a.Notifier.Operated
	a.Witnesses = &witnesses.Witnesses{Home: a.Home, Notifier: a.Notifier, Secret: a.storedSecret}
	a.Approvals = &approvals.Approvals{Home: a.Home, Grants: a.Grants, Tools: a.catalog, Notifier: a.Notifier, Policies: a.Policies, Role: a.People.Role}
	a.Runs = &runs.Runs{
		Home: a.Home, Policies: a.Policies, Secrets: a.Secrets, Grants: a.Grants, Approvals: a.Approvals, Changes: a.Changes,
		Box: a.box, Tools: a.catalog, Catalog: a.Extensions, Limits: tierLimits(cfg.Settings.Tiers), Reader: a.Reader, Notifier: a.Notifier,
		Hooks: a.hooks(), Ended: a.browsers.End,
	}
	a.Changes.Carry = a.Runs.Carry
	if own.Sandboxes != nil {
		a.Runs.Renew = own.Sandboxes.Renew
	}
	a.Queue = &queue.Queue{Home: a.Home, Policies: a.Policies, Grants: a.Grants, Runs: a.Runs}
	a.History = &history.History{Home: a.Home, Reader: a.Reader}
	a.Agents = &agents.Agents{
		Home: a.Home, Policies: a.Policies, Secrets: a.Secrets, Grants: a.Grants, Approvals: a.Approvals, Runs: a.Runs, Models: a.Models,
		Tools: a.catalog, Synced: a.Extensions, BuiltIn: a.capabilities(), Reader: a.Reader,
	}
	a.Replays = &replays.Replays{Home: a.Home, Catalog: a.catalog, Reader: a.Reader, Agents: a.Agents}
	a.PolicyReview = &policyreview.Reviewer{
		Home: a.Home, Policies: a.Policies, Replays: a.Replays, Catalog: a.catalog, Servers: a.Servers, APIs: a.APIs, Modules: a.Modules,
		Facts: a.Runs.Facts(), BuiltIn: a.builtIn, Models: a.Models.Registry, Capabilities: a.Agents.Capabilities, Reader: a.Reader,
	}
	a.Clients = a.clientsOf()
	a.Keys = &keys.Keys{Home: a.Home, Grants: a.Grants, Secrets: a.Secrets}
	a.Doctor = &doctor.Doctor{Home: a.Home, Changes: a.Changes, Clients: a.Clients, Witnesses: a.Witnesses}
	a.Slash = &slash.Commands{Home: a.Home, Runs: a.Runs, Extensions: a.Extensions}
	a.APIs.Runs, a.Servers.Runs, a.Extensions.Runs = a.Runs, a.Runs, a.Runs
	return a, nil
}

// Close ends everything: sources of tools, sandboxes, logs, the ledger (which signs a last
// checkpoint).
func (a *App) Close() error {
	errs := []error{a.catalog.Close(), a.Modules.Close(), a.browsers.Close()} // before what their calls use
	a.Notifier.Close()
	a.mu.Lock()
	defer a.mu.Unlock()
	errs = append(errs, a.box.Close(), a.Grants.Close(), a.Home.Close())
	if a.store != nil {
		_ = a.Witnesses.See(context.Background(), a.store) // the next process tries again, or reports the fault
		errs = append(errs, a.release())
	}
	a.store = nil
	return errors.Join(errs...)
}

// Catalog lists the tools.
func (a *App) Catalog() *catalog.Catalog { return a.catalog }

// Layers says which parts of the confinement this machine has.
func (a *App) Layers(ctx context.Context) []sandbox.Layer { return linux.Probe(ctx) }

// Store opens the ledger, making it on first use, and closes what dead processes
// left open in it: in PostgreSQL, which is asked over the network, now and then.
func (a *App) Store(ctx context.Context) (store.Backend, error) {
	s, err := a.open(ctx, false)
	if err != nil {
		return nil, err
	}
	if a.Home.Database == "" {
		return s, a.recovery.Now(ctx, s)
	}
	return s, a.recovery.Seldom(ctx, s)
}

// Reader opens the ledger for reading: also one that cannot be written, for want of permission or space, one that was
// changed so that nothing can be added to it, so that verify can report the change, and one that was rolled back.
func (a *App) Reader(ctx context.Context) (store.Backend, error) {
	s, err := a.open(ctx, false)
	if err == nil {
		err = a.recovery.Now(ctx, s)
	}
	if err == nil || !errors.Is(err, fault.StoreReadOnly) && !errors.Is(err, fault.StoreFull) && !errors.Is(err, fault.StoreCorrupt) && !errors.Is(err, fault.RolledBack) {
		return s, err
	}
	if ro, rerr := a.open(ctx, true); rerr == nil {
		return ro, nil
	}
	return nil, err
}

func (a *App) open(ctx context.Context, readOnly bool) (store.Backend, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.store != nil {
		return a.store, nil
	}
	s, release, err := a.own.Ledger.Open(ctx, a.Home, readOnly)
	if err != nil {
		return nil, err
	}
	if !readOnly {
		if err := a.Witnesses.CheckHere(ctx, s); err != nil {
			return nil, errors.Join(err, release())
		}
		a.Keys.CheckPublic(ctx, s)
	}
	a.store, a.release = s, release
	return s, nil
}
