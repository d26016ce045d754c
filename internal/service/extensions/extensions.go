// Package extensions installs, updates and removes extensions, and offers their commands and
// tools. Start at [Extensions.Install] and [Extensions.Sync].
package extensions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/remitrun/remit/internal/agents/chat"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/base/walk"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/modules"
	"github.com/remitrun/remit/internal/service/runs"
	"github.com/remitrun/remit/internal/tools/extension"
	extsource "github.com/remitrun/remit/internal/tools/source/extension"
)

// Extensions are the extensions of one $REMIT_HOME.
type Extensions struct {
	Home    *home.Home
	Runs    *runs.Runs
	Modules *modules.Modules
	Box     extsource.Box
	Tools   *catalog.Catalog
	BuiltIn func() []permit.Tool // the tools that are compiled in

	cached cached
}

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
)

// cached is what this process knows of the installed extensions.
type cached struct {
	mu     sync.Mutex
	stamp  stamp // of extensions.json, as it was read for what follows
	read   bool
	router *chat.Router
	bounds map[string]Bounds // by ID; of usable ones
	added  map[string]string // digests of the extensions whose tools the catalog has, by ID
}

// stamp identifies the version of a file: every change makes a new file.
type stamp struct {
	size  int64
	mod   time.Time
	inode uint64
}

func (x *Extensions) extensionsStamp() stamp {
	fi, err := os.Stat(filepath.Join(x.Home.Dir, extensionsFile))
	if err != nil {
		return stamp{}
	}
	s := stamp{size: fi.Size(), mod: fi.ModTime()}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		s.inode = st.Ino
	}
	return s
}

// Key is the extension's ID.
func (e Extension) Key() string { return e.ID }

func (x *Extensions) installed() home.Collection[Extension] {
	return home.Collection[Extension]{
		Home: x.Home, File: extensionsFile, Article: "an", One: "extension", Again: "install the extensions", Command: "remit ext",
		Unknown: fault.ExtensionUnknown, Damaged: fault.StoreCorrupt,
		Digest: func(e Extension) string { return e.Digest },
		Decode: func(src []byte) (list []Extension, err error) {
			var byID map[string]Extension
			if err = json.Unmarshal(src, &byID); err != nil {
				return nil, err
			}
			for id, e := range byID {
				if e.ID != id || extension.CheckID(id) != nil {
					return nil, fmt.Errorf("an entry of it is called %q", id)
				}
				list = append(list, e)
			}
			return list, nil
		},
		Encode: func(list []Extension) any {
			byID := map[string]Extension{}
			for _, e := range list {
				byID[e.ID] = e
			}
			return byID
		},
	}
}

// List lists the installed extensions, by ID.
func (x *Extensions) List() ([]Extension, error) { return x.installed().List() }

// Find finds an extension by its ID. An unknown ID is fault.ExtensionUnknown.
func (x *Extensions) Find(id string) (Extension, error) { return x.installed().Find(id) }

// change changes an extension's entry, after it mended what an earlier process left
// unfinished. clean, if not nil, removes files once the list is written.
func (x *Extensions) change(verb, id string, edit func([]Extension) ([]Extension, error), apply, clean func() error) error {
	folder := filepath.Join(x.Home.Dir, extensionsFolder)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fault.Wrap(fault.StoreReadOnly, err, "%s cannot be made: %v", folder, wholefile.Cause(err))
	}
	c := x.installed()
	if clean != nil {
		c.Sweep = func([]Extension) error { return clean() }
	}
	return c.Change(verb, id, func(list []Extension) ([]Extension, error) {
		if err := x.mendExtensions(list); err != nil {
			return nil, err
		}
		return edit(list)
	}, apply)
}

// extensionRoot is the folder that an extension is installed in, without links.
func (x *Extensions) extensionRoot(id string) string {
	return filepath.Join(home.RealPath(x.Home.Dir), extensionsFolder, id)
}

// taken reports whether a command of the trusted PATH has a name.
func (x *Extensions) taken(name string) bool {
	_, _, err := sandbox.Lookup(nil, x.Home.Path, name, "/")
	return fault.CodeOf(err) != fault.NotFound
}

// loadExtension reads an installed extension, and refuses it if its files were changed.
func (x *Extensions) loadExtension(e Extension) (*extension.Package, error) {
	root := x.extensionRoot(e.ID)
	files, err := readExtensionFolder(root, extension.WorkFolder)
	if err != nil {
		return nil, err
	}
	p, err := extension.Read(root, files)
	if err != nil {
		return nil, err
	}
	p.Name(x.taken)
	if p.Digest.String() != e.Digest {
		return nil, fault.New(fault.ExtensionChecksum, "the files of the extension %s differ from the installed ones", e.ID).
			WithHint("look at what changed in %s, or install it again", root)
	}
	return p, nil
}

// Sources are the sources of the extensions that have tools of their own and are
// enabled.
func (x *Extensions) Sources() []catalog.Source {
	list, err := x.List()
	if err != nil {
		return []catalog.Source{catalog.Broken("ext", err)}
	}
	x.cached.mu.Lock()
	defer x.cached.mu.Unlock()
	x.cached.added = map[string]string{}
	var out []catalog.Source
	for _, e := range list {
		if e.Enabled && len(e.Tools) > 0 {
			x.cached.added[e.ID] = e.Digest
			out = append(out, x.extSource(e))
		}
	}
	return out
}

func (x *Extensions) extSource(e Extension) catalog.Source {
	return catalog.From(extsource.New(extsource.Config{
		ID: e.ID, Root: x.extensionRoot(e.ID), Box: x.Box, WASM: x.extensionModule,
		Load: func() (*extension.Package, error) { return x.loadExtension(e) },
	}))
}

// Router gives the router of the slash commands as they are now: the same until an
// extension is installed, updated, enabled, disabled, or removed, by whichever
// process.
func (x *Extensions) Router() (*chat.Router, error) {
	x.cached.mu.Lock()
	defer x.cached.mu.Unlock()
	if err := x.refreshExtensions(); err != nil {
		return nil, err
	}
	return x.cached.router, nil
}

// Sync reads changes that other processes made to the extensions. Without changes it costs
// one look at a file.
func (x *Extensions) Sync() error {
	_, err := x.Router()
	return err
}

// Lookup finds a tool, after it has read what other processes changed of the extensions. It
// implements runner.Catalog.
func (x *Extensions) Lookup(id tool.ID) (runner.Entry, error) {
	if strings.HasPrefix(string(id), "ext:") {
		if err := x.Sync(); err != nil {
			return runner.Entry{}, err
		}
	}
	return x.Tools.Lookup(id)
}

// refreshExtensions reads the extensions if they changed. cached.mu is held.
func (x *Extensions) refreshExtensions() error {
	now := x.extensionsStamp()
	if x.cached.read && now == x.cached.stamp {
		return nil
	}
	list, err := x.List()
	if err != nil {
		return err
	}
	known := make([]chat.Extension, len(list))
	bounds := map[string]Bounds{}
	for i, e := range list {
		known[i] = x.describeForRouter(e, bounds)
	}
	router, err := chat.NewRouter(known, x.Usage)
	if err != nil {
		return err
	}
	if err := x.syncCatalog(list); err != nil {
		return err
	}
	x.cached.router, x.cached.bounds, x.cached.stamp, x.cached.read = router, bounds, now, true
	return nil
}

// describeForRouter returns the description of an extension for the router. If the extension cannot be used,
// these are the names of its commands and the reason.
func (x *Extensions) describeForRouter(e Extension, bounds map[string]Bounds) chat.Extension {
	out := chat.Extension{ID: e.ID, Name: e.Name}
	if e.Enabled {
		p, err := x.loadExtension(e)
		if err == nil {
			var b Bounds
			if b.Calls, err = p.Bounds(x.extensionRoot(e.ID)); err == nil {
				b.Analyses, err = p.AnalysisBounds()
			}
			bounds[e.ID], out.Commands = b, p.Commands
		}
		if err == nil {
			return out
		}
		out.Off, out.Hint = "cannot be used: "+fault.Message(err), "remit ext show "+e.ID+" tells more"
	} else {
		out.Off, out.Hint = "is disabled", "remit ext enable "+e.ID
	}
	out.Commands = nil
	for _, c := range e.Commands {
		out.Commands = append(out.Commands, extension.Command{Name: strings.TrimPrefix(c.Name, "/"), Summary: c.Summary})
	}
	return out
}

// syncCatalog updates the catalog's sources to the extensions in the list. cached.mu is held.
func (x *Extensions) syncCatalog(list []Extension) error {
	want := map[string]Extension{}
	for _, e := range list {
		if e.Enabled && len(e.Tools) > 0 {
			want[e.ID] = e
		}
	}
	for id, digest := range x.cached.added {
		if want[id].Digest != digest {
			if err := x.Tools.Remove("ext:" + id); err != nil {
				return err
			}
			delete(x.cached.added, id)
		}
	}
	for id, e := range want {
		if x.cached.added[id] == "" {
			x.Tools.Add(x.extSource(e))
			x.cached.added[id] = e.Digest
		}
	}
	return nil
}

// Bounds are the policies that bound the actions of an extension's commands.
type Bounds struct {
	Calls    *policy.Policy
	Analyses *policy.Policy // analyses of the last response, which are calls of Remit's own
}

// BoundsOf is the policies that bound an extension's calls.
func (x *Extensions) BoundsOf(id string) (Bounds, error) {
	x.cached.mu.Lock()
	defer x.cached.mu.Unlock()
	if err := x.refreshExtensions(); err != nil {
		return Bounds{}, err
	}
	if b := x.cached.bounds[id]; b.Analyses != nil {
		return b, nil
	}
	return Bounds{}, fault.New(fault.ExtensionUnknown, "the extension %.80q cannot be used", id).WithHint("remit ext show tells more")
}

// Usage is an extension's usage document, "" if it has none.
func (x *Extensions) Usage(id string) (string, error) {
	const most = 256 << 10
	b, err := wholefile.ReadRegular(filepath.Join(x.extensionRoot(id), filepath.FromSlash(extension.UsageFile)), most)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fault.Wrap(fault.ExtensionInvalid, err, "the usage document of %s cannot be read: %v", id, wholefile.Cause(err))
	}
	return strings.ToValidUTF8(string(b), "\uFFFD"), nil
}

// Enable enables or disables an extension.
func (x *Extensions) Enable(id string, on bool) (Extension, error) {
	if _, err := x.Find(id); err != nil {
		return Extension{}, err
	}
	verb := "disable"
	if on {
		verb = "enable"
	}
	var out Extension
	err := x.change(verb, id, func(list []Extension) ([]Extension, error) {
		e, known := home.Entry(list, id)
		if !known {
			return nil, fault.New(fault.ExtensionUnknown, "no extension is called %q any more", id)
		}
		if on {
			if _, err := x.loadExtension(e); err != nil {
				return nil, err
			}
		}
		out = e
		out.Enabled = on
		return home.With(list, out), nil
	}, nil, nil)
	if err != nil {
		return out, err
	}
	return out, x.Sync()
}

// Remove removes an extension and its files, including its work folder.
func (x *Extensions) Remove(id string) error {
	if _, err := x.Find(id); err != nil {
		return err
	}
	err := x.change("remove", id, func(list []Extension) ([]Extension, error) { return home.Without(list, id), nil }, nil, func() error {
		if err := walk.Remove(x.extensionRoot(id)); err != nil {
			return fault.Wrap(fault.StoreFailed, err, "the extension %s is forgotten, and its files cannot be removed: %v", id, wholefile.Cause(err))
		}
		return nil
	})
	if err != nil {
		return err
	}
	return x.Sync()
}

// SwitchTool enables or disables a tool, and reports whether that changed it.
func (x *Extensions) SwitchTool(ctx context.Context, id tool.ID, on bool) (changed bool, err error) {
	action := "tools.disable"
	if on {
		action = "tools.enable"
	}
	err = x.Home.Recorded(action, ledger.OperatorAction{Target: string(id)}, func() (err error) {
		changed, err = x.Tools.Switch(ctx, id, on)
		return err
	})
	return changed, err
}

// ChangedTools returns tools, and all changed tools of the named sources.
func (x *Extensions) ChangedTools(ctx context.Context, ids []tool.ID, sources []string) ([]tool.ID, error) {
	for _, name := range sources {
		changed, err := x.Tools.Changed(ctx, name)
		if err != nil {
			return nil, err
		}
		ids = append(ids, changed...)
	}
	return ids, nil
}

// ShowTools returns how tools changed, to show it to a person, up to the first error.
func (x *Extensions) ShowTools(ctx context.Context, person string, ids []tool.ID) ([]catalog.Change, error) {
	var out []catalog.Change
	for _, id := range ids {
		change, err := x.Tools.Difference(ctx, person, id)
		if err != nil {
			return out, err
		}
		out = append(out, change)
	}
	return out, nil
}

// AcceptTools accepts tools as the person was shown them. It returns the accepted changes up to
// the first error.
func (x *Extensions) AcceptTools(ctx context.Context, person string, ids []tool.ID) ([]catalog.Change, error) {
	var out []catalog.Change
	for _, id := range ids {
		change, err := x.AcceptTool(ctx, person, id, "")
		if err != nil {
			return out, err
		}
		out = append(out, change)
	}
	return out, nil
}

// AcceptTool accepts a tool as the person was shown it; with a digest, only that version.
func (x *Extensions) AcceptTool(ctx context.Context, person string, id tool.ID, digest string) (change catalog.Change, err error) {
	err = x.Home.Recorded("tools.accept", ledger.OperatorAction{Target: string(id)}, func() error {
		change, err = x.Tools.Accept(ctx, person, id, digest)
		return err
	})
	return change, err
}
