package app

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/agents/capability/codebox"
	"github.com/remitrun/remit/internal/agents/capability/currenttime"
	"github.com/remitrun/remit/internal/agents/capability/custom"
	"github.com/remitrun/remit/internal/agents/capability/mcptools"
	"github.com/remitrun/remit/internal/agents/capability/noop"
	"github.com/remitrun/remit/internal/agents/capability/research"
	"github.com/remitrun/remit/internal/agents/capability/sessionfiles"
	"github.com/remitrun/remit/internal/agents/capability/subagents"
	"github.com/remitrun/remit/internal/agents/capability/testmath"
	"github.com/remitrun/remit/internal/agents/capability/testweather"
	"github.com/remitrun/remit/internal/agents/capability/todolist"
	"github.com/remitrun/remit/internal/agents/capability/webfetch"
	"github.com/remitrun/remit/internal/agents/capability/workspace"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/service/home"
)

// capabilities is every capability that is compiled in, in the order in which
// they are listed: a new one is a folder and a line.
func (a *App) capabilities() []capability.Capability {
	return []capability.Capability{
		currenttime.New(time.Now),
		mcptools.New(),
		noop.New(),
		research.New(),
		codebox.New(a.box),
		sessionfiles.New(),
		todolist.New(),
		subagents.New(),
		testmath.New(),
		testweather.New(),
		webfetch.New(webfetch.Options{Secret: a.Secrets.Value}),
		workspace.New(),
	}
}

// Capabilities is what agents can be given: what is compiled in, a program's own,
// and what files below $REMIT_HOME/capabilities hold whenever somebody looks.
func (a *App) Capabilities(own ...capability.Capability) (*capability.Registry, error) {
	reg, err := capability.NewRegistry(append(a.capabilities(), own...))
	if err != nil {
		return nil, err
	}
	return reg.With(func() ([]capability.Capability, []capability.Broken) {
		return readCapabilities(filepath.Join(a.Home.Dir, home.CapabilitiesIn))
	}), nil
}

const (
	maxCapabilityFile = 64<<10 + 1 // bytes of one that are read: one more than it may have
)

// readCapabilities reads the custom capabilities in a folder, by their files'
// names. One that is broken hides no other.
func readCapabilities(dir string) (list []capability.Capability, broken []capability.Broken) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			broken = append(broken, capability.Broken{File: dir, Err: fault.Wrap(fault.CapabilityInvalid, err, "the folder cannot be read: %v", wholefile.Cause(err))})
		}
		return nil, broken
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		ext := filepath.Ext(e.Name())
		return ext != ".yaml" && ext != ".yml" || strings.HasPrefix(e.Name(), ".")
	})
	for i, e := range entries {
		file := filepath.Join(dir, e.Name())
		if i == home.MaxCapabilities {
			err := fault.New(fault.CapabilityInvalid, "there are %d files; only the first %d are read", len(entries), home.MaxCapabilities)
			broken = append(broken, capability.Broken{File: file, Err: err})
			break
		}
		src, err := readCapability(file)
		if err != nil {
			broken = append(broken, capability.Broken{ID: custom.IDOf(file, nil), File: file, Err: err})
			continue
		}
		c, err := custom.Parse(file, src)
		if err != nil {
			broken = append(broken, capability.Broken{ID: custom.IDOf(file, src), File: file, Err: err})
			continue
		}
		list = append(list, c)
	}
	return list, broken
}

// readCapability reads one file, if it is a plain one.
func readCapability(file string) ([]byte, error) {
	st, err := os.Stat(file)
	if err == nil && !st.Mode().IsRegular() {
		return nil, fault.New(fault.CapabilityInvalid, "it is no file")
	}
	var f *os.File
	if err == nil {
		f, err = os.Open(file)
	}
	if err != nil {
		return nil, fault.Wrap(fault.CapabilityInvalid, err, "it cannot be read: %v", wholefile.Cause(err))
	}
	defer func() { _ = f.Close() }() // nothing was written to it
	src, err := io.ReadAll(io.LimitReader(f, maxCapabilityFile))
	if err != nil {
		return nil, fault.Wrap(fault.CapabilityInvalid, err, "it cannot be read: %v", wholefile.Cause(err))
	}
	return src, nil
}

// CapabilitySchema is the JSON Schema of the files of custom capabilities.
func CapabilitySchema() []byte { return custom.Schema() }

// CapabilityView is one capability, as people look at it.
type CapabilityView struct {
	Info     capability.Info
	File     string // of a custom one
	Prompt   string
	Tools    []CapabilityTool
	Warnings []string
	Problem  error // why it has no tools to show
}

// CapabilityTool is a tool that a capability offers.
type CapabilityTool struct {
	Name     string
	ID       tool.ID
	Spec     *tool.Spec // nil: the catalog does not have it
	Defaults tool.Args
}

// Capability looks at one capability: with the tools that the catalog has, and
// without any session.
func (a *App) Capability(ctx context.Context, id string) (CapabilityView, error) {
	reg, err := a.Capabilities()
	if err != nil {
		return CapabilityView{}, err
	}
	c, err := reg.Get(id)
	if err != nil {
		return CapabilityView{}, err
	}
	v := CapabilityView{Info: c.Info()}
	if f, ok := c.(interface{ File() string }); ok {
		v.File = f.File()
	}
	part, err := c.Part(capability.Session{Match: a.matchTools}, nil)
	v.Problem, v.Prompt, v.Warnings = err, part.Prompt, part.Warnings
	for _, o := range part.Tools {
		one := CapabilityTool{Name: o.Name, ID: o.ID, Defaults: o.Defaults}
		if o.Tool != nil {
			one.Spec = o.Tool.Spec()
		} else if t, err := a.catalog.Describe(ctx, o.ID); err == nil {
			one.Spec = t.Spec
		}
		v.Tools = append(v.Tools, one)
	}
	return v, nil
}
