package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/record/eventlog"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/tools/executor/wasm"
	wasmsource "github.com/remitrun/remit/internal/tools/source/wasm"
)

// WASM is a WebAssembly module whose functions are tools.
type WASM struct {
	Name         string    `json:"name"`
	From         string    `json:"from"`          // the file that the module was read from
	ManifestFrom string    `json:"manifest_from"` // the file that its manifest was read from
	Digest       string    `json:"digest"`        // of the module, SHA-256 in hexadecimal
	Manifest     string    `json:"manifest"`      // digest of its manifest
	Size         int64     `json:"size"`          // of the module, bytes
	Release      string    `json:"release,omitempty"`
	Tools        int       `json:"tools"`
	Added        time.Time `json:"added"`
}

const (
	wasmFolder = "wasm" // modules and manifests, by digest
)

// maxWASMLog bounds what one process adds to a module's log, in bytes.
const maxWASMLog = 8 << 20

const modulesFile = "wasm.json"

func (a *App) added() home.Collection[WASM] {
	return home.Collection[WASM]{Home: a.Home, File: modulesFile, Article: "a", One: "module", Many: "modules", Command: "remit wasm", Sweep: a.sweepModules}
}

func (m WASM) Key() string { return m.Name }

// Modules lists the modules, by name.
func (a *App) Modules() ([]WASM, error) { return a.added().List() }

// Module finds a module by its name.
func (a *App) Module(name string) (WASM, error) { return a.added().Find(name) }

// AddWASM is a module that is to be added.
type AddWASM struct {
	Name     string
	File     string
	Manifest string // a file; "": the one beside File, with .yaml, .yml or .json in place of .wasm
	Replace  bool   // of one that has the name already
}

// AddModule reads a module and its manifest, compiles it to see that it can be run,
// and keeps copies of both.
func (a *App) AddModule(ctx context.Context, q AddWASM) (WASM, error) {
	if err := a.added().CheckName(q.Name, q.Replace); err != nil {
		return WASM{}, err
	}
	code, err := wholefile.ReadRegular(q.File, wasm.MaxModule)
	if err != nil {
		return WASM{}, fault.Wrap(fault.Usage, err, "%v", wholefile.Cause(err)).At(fault.Pos{File: q.File}).WithHint("name a module: a file that ends in .wasm")
	}
	if q.Manifest == "" {
		if q.Manifest, err = besideModule(q.File); err != nil {
			return WASM{}, err
		}
	}
	text, err := wholefile.ReadRegular(q.Manifest, wasm.MaxManifest)
	if err != nil {
		return WASM{}, fault.Wrap(fault.Usage, err, "%v", wholefile.Cause(err)).At(fault.Pos{File: q.Manifest})
	}
	man, err := wasm.ParseManifest(q.Manifest, text)
	if err != nil {
		return WASM{}, err
	}
	digest := sha256.Sum256(code)
	if err := a.modules.Module(digest, func() ([]byte, error) { return code, nil }).Check(ctx); err != nil {
		return WASM{}, inFile(err, q.File)
	}
	one := WASM{Name: q.Name, From: q.File, ManifestFrom: q.Manifest, Digest: hex.EncodeToString(digest[:]), Manifest: hex.EncodeToString(man.Digest[:]),
		Size: int64(len(code)), Release: man.Release, Tools: len(man.Functions), Added: time.Now().UTC().Truncate(time.Second)}
	return one, a.added().Put(one, func() error {
		return errors.Join(a.Home.WriteFile(filepath.Join(wasmFolder, one.Digest), code), a.Home.WriteFile(filepath.Join(wasmFolder, one.Manifest), text))
	})
}

// inFile adds the file to an error that is about it.
func inFile(err error, file string) error {
	var coded *fault.Error
	if errors.As(err, &coded) && coded.Pos == (fault.Pos{}) {
		return coded.At(fault.Pos{File: file})
	}
	return err
}

// besideModule finds the manifest that lies beside a module.
func besideModule(file string) (string, error) {
	stem := strings.TrimSuffix(file, ".wasm")
	var found []string
	for _, ext := range []string{".yaml", ".yml", ".json"} {
		if _, err := os.Stat(stem + ext); err == nil {
			found = append(found, stem+ext)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", fault.New(fault.Usage, "there is no manifest beside %s: neither %s.yaml, .yml nor .json", file, stem).
			WithHint("name it with --manifest FILE; docs/wasm.md shows one")
	}
	return "", fault.New(fault.Usage, "there are several manifests beside %s: %s", file, strings.Join(found, ", ")).WithHint("name one with --manifest FILE")
}

// sweepModules removes copies that no module uses any more.
func (a *App) sweepModules(list []WASM) error {
	return a.Home.RemoveUnused(wasmFolder, func(digest string) bool {
		return slices.ContainsFunc(list, func(x WASM) bool { return x.Digest == digest || x.Manifest == digest })
	})
}

// RemoveModule forgets a module and its tools.
func (a *App) RemoveModule(name string) error { return a.added().Remove(name) }

// ModuleManifest reads the copy of a module's manifest.
func (a *App) ModuleManifest(one WASM) (*wasm.Manifest, error) {
	b, err := wholefile.Read(filepath.Join(a.Home.Dir, wasmFolder, one.Manifest), wasm.MaxManifest)
	if err != nil {
		return nil, fault.Wrap(fault.StoreFailed, err, "the manifest of the module %q cannot be read: %v", one.Name, wholefile.Cause(err)).WithHint("add it again with --replace")
	}
	sum := sha256.Sum256(b)
	if hex.EncodeToString(sum[:]) != one.Manifest {
		return nil, fault.New(fault.StoreCorrupt, "the manifest of the module %q is not the one that was added", one.Name).WithHint("add it again with --replace")
	}
	return wasm.ParseManifest(one.ManifestFrom, b)
}

// moduleCode reads the copy of a module. Whether it is the one that was added is for
// the host to check.
func (a *App) moduleCode(one WASM) ([]byte, error) {
	b, err := wholefile.Read(filepath.Join(a.Home.Dir, wasmFolder, one.Digest), wasm.MaxModule)
	if err != nil {
		return nil, fault.Wrap(fault.StoreFailed, err, "the module %q cannot be read: %v", one.Name, wholefile.Cause(err)).WithHint("add it again with --replace")
	}
	return b, nil
}

// wasmSources are the sources of the modules.
func (a *App) wasmSources() []catalog.Source {
	list, err := a.Modules()
	if err != nil {
		return []catalog.Source{catalog.Broken("wasm", err)}
	}
	out := make([]catalog.Source, len(list))
	for i, one := range list {
		var digest tool.Digest
		if n, err := hex.Decode(digest[:], []byte(clip.Prefix(one.Digest, hex.EncodedLen(len(digest))))); err != nil || n != len(digest) {
			out[i] = catalog.Broken("wasm:"+one.Name, fault.New(fault.Usage, "%s: the digest of the module %q is none", modulesFile, one.Name))
			continue
		}
		out[i] = catalog.From(wasmsource.New(wasmsource.Config{
			Name:     one.Name,
			Manifest: func() (*wasm.Manifest, error) { return a.ModuleManifest(one) },
			Module:   a.modules.Module(digest, func() ([]byte, error) { return a.moduleCode(one) }),
		}))
	}
	return out
}

// openModules makes the host of modules. Nothing is started.
func (a *App) openModules() *wasm.Host {
	a.noise = &moduleLogs{app: a, open: map[string]io.WriteCloser{}}
	return wasm.New(wasm.Config{Getenv: a.Home.Lookup, Log: a.noise.write})
}

// closeModules ends what modules still do.
func (a *App) closeModules() error { return errors.Join(a.modules.Close(), a.noise.close()) }

// moduleLogs keep what modules write to their standard error, a file for each.
type moduleLogs struct {
	app *App

	mu   sync.Mutex
	open map[string]io.WriteCloser
}

var logName = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// write keeps what a call wrote. Where no log can be written it is dropped: it is
// the module's own text, and nothing depends on it.
func (l *moduleLogs) write(id tool.ID, text []byte, cut bool) {
	module, _, _ := strings.Cut(strings.TrimPrefix(string(id), "wasm:"), ":")
	name := "wasm-" + logName.ReplaceAllString(module, "_") + ".log"
	l.mu.Lock()
	defer l.mu.Unlock()
	to := l.open[name]
	if to == nil {
		raw, err := eventlog.Raw(filepath.Join(l.app.Home.Dir, "logs", name), maxWASMLog)
		if err != nil {
			return
		}
		to = l.app.Secrets.Mask.Lines(raw)
		l.open[name] = to
	}
	fmt.Fprintf(to, "--- %s %s\n%s\n", time.Now().UTC().Format(time.RFC3339), id, strings.TrimRight(string(text), "\n"))
	if cut {
		fmt.Fprintln(to, "--- (it wrote more)")
	}
}

func (l *moduleLogs) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, to := range l.open {
		errs = append(errs, to.Close())
	}
	clear(l.open)
	return errors.Join(errs...)
}
