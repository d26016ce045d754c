// Package modules keeps the WebAssembly modules that a person added, and the host that runs
// them; their functions are tools. Start at [Modules.Add].
package modules

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/record/eventlog"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/secrets"
	"github.com/remitrun/remit/internal/tools/executor/wasm"
	wasmsource "github.com/remitrun/remit/internal/tools/source/wasm"
)

// Modules are the modules of one $REMIT_HOME; New makes one. It must be closed.
type Modules struct {
	Host *wasm.Host // runs modules

	home    *home.Home
	secrets *secrets.Secrets
	logs    *logs
}

// New makes the host of modules. Nothing is started.
func New(h *home.Home, s *secrets.Secrets) *Modules {
	m := &Modules{home: h, secrets: s}
	m.Host = m.open()
	return m
}

// Module is a WebAssembly module whose functions are tools.
type Module struct {
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

func (s *Modules) added() home.Collection[Module] {
	return home.Collection[Module]{Home: s.home, File: modulesFile, Article: "a", One: "module", Again: "add the modules", Command: "remit wasm", Sweep: s.sweep}
}

// Key is the module's name.
func (m Module) Key() string { return m.Name }

// List lists the modules, by name.
func (s *Modules) List() ([]Module, error) { return s.added().List() }

// Find finds a module by its name.
func (s *Modules) Find(name string) (Module, error) { return s.added().Find(name) }

// Addition is a module that is to be added.
type Addition struct {
	Name     string
	File     string
	Manifest string // a file; "": the one beside File, with .yaml, .yml or .json in place of .wasm
	Replace  bool   // of one that has the name already
}

// Add reads a module and its manifest, compiles it to see that it can be run,
// and keeps copies of both.
func (s *Modules) Add(ctx context.Context, q Addition) (Module, error) {
	if err := s.added().CheckName(q.Name, q.Replace); err != nil {
		return Module{}, err
	}
	code, err := wholefile.ReadRegular(q.File, wasm.MaxModule)
	if err != nil {
		return Module{}, fault.Wrap(fault.Usage, err, "%v", wholefile.Cause(err)).At(fault.Pos{File: q.File}).WithHint("name a module: a file that ends in .wasm")
	}
	if q.Manifest == "" {
		if q.Manifest, err = besideModule(q.File); err != nil {
			return Module{}, err
		}
	}
	text, err := wholefile.ReadRegular(q.Manifest, wasm.MaxManifest)
	if err != nil {
		return Module{}, fault.Wrap(fault.Usage, err, "%v", wholefile.Cause(err)).At(fault.Pos{File: q.Manifest})
	}
	man, err := wasm.ParseManifest(q.Manifest, text)
	if err != nil {
		return Module{}, err
	}
	digest := sha256.Sum256(code)
	if err := s.Host.Module(digest, func() ([]byte, error) { return code, nil }).Check(ctx); err != nil {
		return Module{}, inFile(err, q.File)
	}
	one := Module{Name: q.Name, From: q.File, ManifestFrom: q.Manifest, Digest: hex.EncodeToString(digest[:]), Manifest: hex.EncodeToString(man.Digest[:]),
		Size: int64(len(code)), Release: man.Release, Tools: len(man.Functions), Added: time.Now().UTC().Truncate(time.Second)}
	return one, s.added().Put(one, func() error {
		return errors.Join(s.home.WriteFile(filepath.Join(wasmFolder, one.Digest), code), s.home.WriteFile(filepath.Join(wasmFolder, one.Manifest), text))
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
		return "", fault.New(fault.Usage, "no manifest found for %s: expected %s.yaml, .yml or .json", file, stem).
			WithHint("name it with --manifest FILE; docs/wasm.md shows one")
	}
	return "", fault.New(fault.Usage, "there are several manifests beside %s: %s", file, strings.Join(found, ", ")).WithHint("name one with --manifest FILE")
}

// sweep removes copies that no module uses any more.
func (s *Modules) sweep(list []Module) error {
	return s.home.RemoveUnused(wasmFolder, func(digest string) bool {
		return slices.ContainsFunc(list, func(x Module) bool { return x.Digest == digest || x.Manifest == digest })
	})
}

// Remove forgets a module and its tools.
func (s *Modules) Remove(name string) error { return s.added().Remove(name) }

// Manifest reads the copy of a module's manifest.
func (s *Modules) Manifest(one Module) (*wasm.Manifest, error) {
	b, err := wholefile.Read(filepath.Join(s.home.Dir, wasmFolder, one.Manifest), wasm.MaxManifest)
	if err != nil {
		return nil, fault.Wrap(fault.StoreFailed, err, "the manifest of the module %q cannot be read: %v", one.Name, wholefile.Cause(err)).WithHint("add it again with --replace")
	}
	sum := sha256.Sum256(b)
	if hex.EncodeToString(sum[:]) != one.Manifest {
		return nil, fault.New(fault.StoreCorrupt, "the manifest of the module %q is not the one that was added", one.Name).WithHint("add it again with --replace")
	}
	return wasm.ParseManifest(one.ManifestFrom, b)
}

// code reads the copy of a module. Whether it is the one that was added is for
// the host to check.
func (s *Modules) code(one Module) ([]byte, error) {
	b, err := wholefile.Read(filepath.Join(s.home.Dir, wasmFolder, one.Digest), wasm.MaxModule)
	if err != nil {
		return nil, fault.Wrap(fault.StoreFailed, err, "the module %q cannot be read: %v", one.Name, wholefile.Cause(err)).WithHint("add it again with --replace")
	}
	return b, nil
}

// Sources are the sources of the modules.
func (s *Modules) Sources() []catalog.Source {
	list, err := s.List()
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
			Manifest: func() (*wasm.Manifest, error) { return s.Manifest(one) },
			Module:   s.Host.Module(digest, func() ([]byte, error) { return s.code(one) }),
		}))
	}
	return out
}

// open makes the host of modules. Nothing is started.
func (s *Modules) open() *wasm.Host {
	s.logs = &logs{app: s, open: map[string]io.WriteCloser{}}
	return wasm.New(wasm.Config{Getenv: s.home.Lookup, Log: s.logs.write})
}

// Close ends all running work of modules.
func (s *Modules) Close() error { return errors.Join(s.Host.Close(), s.logs.close()) }

// logs keep what modules write to their standard error, a file for each.
type logs struct {
	app *Modules

	mu   sync.Mutex
	open map[string]io.WriteCloser
}

var logName = regex.Lazy(`[^A-Za-z0-9_-]+`)

// write keeps what a call wrote. Where no log can be written it is dropped: it is
// the module's own text, and nothing depends on it.
func (l *logs) write(id tool.ID, text []byte, cut bool) {
	module, _, _ := strings.Cut(strings.TrimPrefix(string(id), "wasm:"), ":")
	name := "wasm-" + logName.ReplaceAllString(module, "_") + ".log"
	l.mu.Lock()
	defer l.mu.Unlock()
	to := l.open[name]
	if to == nil {
		raw, err := eventlog.Raw(filepath.Join(l.app.home.Dir, "logs", name), maxWASMLog)
		if err != nil {
			return
		}
		to = l.app.secrets.Mask.Lines(raw)
		l.open[name] = to
	}
	fmt.Fprintf(to, "--- %s %s\n%s\n", time.Now().UTC().Format(time.RFC3339), id, strings.TrimRight(string(text), "\n"))
	if cut {
		fmt.Fprintln(to, "--- (it wrote more)")
	}
}

func (l *logs) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, to := range l.open {
		errs = append(errs, to.Close())
	}
	clear(l.open)
	return errors.Join(errs...)
}
