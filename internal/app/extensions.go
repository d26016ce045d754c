package app

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/remitrun/remit/internal/agents/chat"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/tools/extension"
	extsource "github.com/remitrun/remit/internal/tools/source/extension"
)

// Extension is an installed extension, as extensions.json has it.
type Extension struct {
	ID          string                 `json:"id"`
	Name        string                 `json:"name"`
	Version     string                 `json:"version"`
	Description string                 `json:"description"`
	Author      string                 `json:"author"`
	License     string                 `json:"license"`
	Permissions []extension.Permission `json:"permissions"`
	Platforms   []string               `json:"platforms,omitempty"`
	Enabled     bool                   `json:"enabled"`
	Digest      string                 `json:"digest"` // of all its files
	Signer      string                 `json:"signer,omitempty"`
	Commands    []ExtensionCommand     `json:"commands"`
	Tools       []tool.ID              `json:"tools"`
	From        string                 `json:"from"` // the folder or archive that it was read from
	Installed   time.Time              `json:"installed"`
	By          string                 `json:"by"`
}

// ExtensionCommand is a slash command, as lists show it.
type ExtensionCommand struct {
	Name    string `json:"name"` // with its slash
	Summary string `json:"summary"`
}

const (
	extensionsFile   = "extensions.json"
	extensionsFolder = "extensions"
	maxExtensions    = 4 << 20 // bytes of extensions.json
)

// extensions are what is known of the installed extensions in this process.
type extensions struct {
	mu     sync.Mutex
	stamp  stamp // of extensions.json, as it was read for what follows
	read   bool
	router *chat.Router
	bounds map[string]extensionBounds // by ID; of those that can be used
	added  map[string]string          // digests of those whose tools the catalog has, by ID
}

// stamp tells whether a file is still the same: every change makes a new one.
type stamp struct {
	size  int64
	mod   time.Time
	inode uint64
}

func (a *App) extensionsStamp() stamp {
	fi, err := os.Stat(filepath.Join(a.Home.Dir, extensionsFile))
	if err != nil {
		return stamp{}
	}
	s := stamp{size: fi.Size(), mod: fi.ModTime()}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		s.inode = st.Ino
	}
	return s
}

// Extensions lists the installed extensions, by ID.
func (a *App) Extensions() ([]Extension, error) {
	m, err := a.readExtensions()
	if err != nil {
		return nil, err
	}
	return slices.SortedFunc(maps.Values(m), func(x, y Extension) int { return strings.Compare(x.ID, y.ID) }), nil
}

// Extension finds one by its ID (ExtensionUnknown).
func (a *App) Extension(id string) (Extension, error) {
	m, err := a.readExtensions()
	if err != nil {
		return Extension{}, err
	}
	if e, ok := m[id]; ok {
		return e, nil
	}
	return Extension{}, fault.New(fault.ExtensionUnknown, "no extension is called %.80q", id).WithHint("remit ext list lists them")
}

func (a *App) readExtensions() (map[string]Extension, error) {
	out := map[string]Extension{}
	err := a.Home.Read(extensionsFile, &out)
	if err == nil {
		for id, e := range out {
			if e.ID != id || extension.CheckID(id) != nil {
				err = fmt.Errorf("an entry of it is called %q", id)
			}
		}
	}
	if err != nil {
		return nil, fault.Wrap(fault.StoreCorrupt, err, "%s cannot be read: %v", extensionsFile, wholefile.Cause(err)).
			WithHint("restore it from a copy, or remove it and install the extensions again")
	}
	return out, nil
}

// changeExtensions changes the list while no other process does. The change is
// recorded by its caller.
func (a *App) changeExtensions(change func(map[string]Extension) error) error {
	folder := filepath.Join(a.Home.Dir, extensionsFolder)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fault.Wrap(fault.StoreReadOnly, err, "%s cannot be made: %v", folder, wholefile.Cause(err))
	}
	return a.Home.Locked("extensions.lock", func() error {
		list, err := a.readExtensions()
		if err == nil {
			err = a.mendExtensions(list)
		}
		if err == nil {
			err = change(list)
		}
		if err == nil {
			err = a.Home.Write(extensionsFile, list)
		}
		return err
	})
}

// extensionRoot is the folder that an extension is installed in, without links.
func (a *App) extensionRoot(id string) string {
	return filepath.Join(home.RealPath(a.Home.Dir), extensionsFolder, id)
}

// taken reports whether a command of the trusted PATH has a name.
func (a *App) taken(name string) bool {
	_, _, err := sandbox.Lookup(a.Home.Path, name, "/")
	return fault.CodeOf(err) != fault.NotFound
}

// loadExtension reads an installed extension. One whose files are not those that
// were installed is refused.
func (a *App) loadExtension(e Extension) (*extension.Package, error) {
	root := a.extensionRoot(e.ID)
	files, err := readExtensionFolder(root, extension.WorkFolder)
	if err != nil {
		return nil, err
	}
	p, err := extension.Read(root, files)
	if err != nil {
		return nil, err
	}
	p.Name(a.taken)
	if p.Digest.String() != e.Digest {
		return nil, fault.New(fault.ExtensionChecksum, "the files of the extension %s are not those that were installed", e.ID).
			WithHint("look at what changed in %s, or install it again", root)
	}
	return p, nil
}

// extSources are the sources of the extensions that have tools of their own and are
// switched on.
func (a *App) extSources() []catalog.Source {
	list, err := a.Extensions()
	if err != nil {
		return []catalog.Source{catalog.Broken("ext", err)}
	}
	a.exts.mu.Lock()
	defer a.exts.mu.Unlock()
	a.exts.added = map[string]string{}
	var out []catalog.Source
	for _, e := range list {
		if e.Enabled && len(e.Tools) > 0 {
			a.exts.added[e.ID] = e.Digest
			out = append(out, a.extSource(e))
		}
	}
	return out
}

func (a *App) extSource(e Extension) catalog.Source {
	return catalog.From(extsource.New(extsource.Config{
		ID: e.ID, Root: a.extensionRoot(e.ID), Box: a.box, WASM: a.extensionModule,
		Load: func() (*extension.Package, error) { return a.loadExtension(e) },
	}))
}

// Router gives the router of the slash commands as they are now: the same until an
// extension is installed, updated, switched on or off, or removed, by whichever
// process.
func (a *App) Router() (*chat.Router, error) {
	a.exts.mu.Lock()
	defer a.exts.mu.Unlock()
	if err := a.refreshExtensions(); err != nil {
		return nil, err
	}
	return a.exts.router, nil
}

// SyncExtensions takes in what other processes changed of the extensions: for those
// that live long. It costs next to nothing where nothing was.
func (a *App) SyncExtensions() error {
	_, err := a.Router()
	return err
}

// following is the catalog as calls look tools up in it: what another process did
// to an extension holds for the next call.
type following struct{ app *App }

// Lookup implements runner.Catalog.
func (f following) Lookup(id tool.ID) (runner.Entry, error) {
	if strings.HasPrefix(string(id), "ext:") {
		if err := f.app.SyncExtensions(); err != nil {
			return runner.Entry{}, err
		}
	}
	return f.app.catalog.Lookup(id)
}

// refreshExtensions reads the extensions if they changed. exts.mu is held.
func (a *App) refreshExtensions() error {
	now := a.extensionsStamp()
	if a.exts.read && now == a.exts.stamp {
		return nil
	}
	list, err := a.Extensions()
	if err != nil {
		return err
	}
	known := make([]chat.Extension, len(list))
	bounds := map[string]extensionBounds{}
	for i, e := range list {
		known[i] = a.known(e, bounds)
	}
	router, err := chat.NewRouter(known, a.ExtensionUsage)
	if err != nil {
		return err
	}
	if err := a.syncCatalog(list); err != nil {
		return err
	}
	a.exts.router, a.exts.bounds, a.exts.stamp, a.exts.read = router, bounds, now, true
	return nil
}

// known is what the router knows of an extension. Of one that cannot be used it
// knows the names of its commands, and why.
func (a *App) known(e Extension, bounds map[string]extensionBounds) chat.Extension {
	out := chat.Extension{ID: e.ID, Name: e.Name}
	if e.Enabled {
		p, err := a.loadExtension(e)
		if err == nil {
			var b extensionBounds
			if b.calls, err = p.Bounds(a.extensionRoot(e.ID)); err == nil {
				b.analyses, err = p.AnalysisBounds()
			}
			bounds[e.ID], out.Commands = b, p.Commands
		}
		if err == nil {
			return out
		}
		out.Off, out.Hint = "cannot be used: "+fault.Message(err), "remit ext show "+e.ID+" tells more"
	} else {
		out.Off, out.Hint = "is switched off", "remit ext enable "+e.ID
	}
	out.Commands = nil
	for _, c := range e.Commands {
		out.Commands = append(out.Commands, extension.Command{Name: strings.TrimPrefix(c.Name, "/"), Summary: c.Summary})
	}
	return out
}

// syncCatalog gives the catalog the sources of the extensions as they are. exts.mu
// is held.
func (a *App) syncCatalog(list []Extension) error {
	want := map[string]Extension{}
	for _, e := range list {
		if e.Enabled && len(e.Tools) > 0 {
			want[e.ID] = e
		}
	}
	for id, digest := range a.exts.added {
		if want[id].Digest != digest {
			if err := a.catalog.Remove("ext:" + id); err != nil {
				return err
			}
			delete(a.exts.added, id)
		}
	}
	for id, e := range want {
		if a.exts.added[id] == "" {
			a.catalog.Add(a.extSource(e))
			a.exts.added[id] = e.Digest
		}
	}
	return nil
}

// extensionBounds are the policies that bound what an extension's commands do.
type extensionBounds struct {
	calls    *policy.Policy
	analyses *policy.Policy // analyses of the last response, which are calls of Remit's own
}

// boundsOf is the policies that bound an extension's calls.
func (a *App) boundsOf(id string) (extensionBounds, error) {
	a.exts.mu.Lock()
	defer a.exts.mu.Unlock()
	if err := a.refreshExtensions(); err != nil {
		return extensionBounds{}, err
	}
	if b := a.exts.bounds[id]; b.analyses != nil {
		return b, nil
	}
	return extensionBounds{}, fault.New(fault.ExtensionUnknown, "the extension %.80q cannot be used", id).WithHint("remit ext show tells more")
}

// ExtensionUsage is an extension's usage document, "" if it has none.
func (a *App) ExtensionUsage(id string) (string, error) {
	const most = 256 << 10
	b, err := wholefile.ReadRegular(filepath.Join(a.extensionRoot(id), filepath.FromSlash(extension.UsageFile)), most)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fault.Wrap(fault.ExtensionInvalid, err, "the usage document of %s cannot be read: %v", id, wholefile.Cause(err))
	}
	return strings.ToValidUTF8(string(b), "\uFFFD"), nil
}

// EnableExtension switches an extension on or off.
func (a *App) EnableExtension(id string, on bool) (Extension, error) {
	if _, err := a.Extension(id); err != nil {
		return Extension{}, err
	}
	var out Extension
	err := a.changeExtensions(func(m map[string]Extension) error {
		e, ok := m[id]
		if !ok {
			return fault.New(fault.ExtensionUnknown, "no extension is called %q any more", id)
		}
		if on {
			if _, err := a.loadExtension(e); err != nil {
				return err
			}
		}
		e.Enabled = on
		action := "ext.disable"
		if on {
			action = "ext.enable"
		}
		return a.Home.Recorded(action, ledger.OperatorAction{Target: id, Digest: e.Digest}, func() error {
			m[id], out = e, e
			return a.Home.Write(extensionsFile, m)
		})
	})
	if err != nil {
		return out, err
	}
	return out, a.SyncExtensions()
}

// RemoveExtension forgets an extension and removes its files, those in its work
// folder too.
func (a *App) RemoveExtension(id string) error {
	if _, err := a.Extension(id); err != nil {
		return err
	}
	err := a.changeExtensions(func(m map[string]Extension) error {
		was := m[id].Digest
		delete(m, id)
		err := a.Home.Recorded("ext.remove", ledger.OperatorAction{Target: id, Was: was}, func() error { return a.Home.Write(extensionsFile, m) })
		if err != nil {
			return err
		}
		if err := removeAll(a.extensionRoot(id)); err != nil {
			return fault.Wrap(fault.StoreFailed, err, "the extension %s is forgotten, and its files cannot be removed: %v", id, wholefile.Cause(err))
		}
		return nil
	})
	if err != nil {
		return err
	}
	return a.SyncExtensions()
}
