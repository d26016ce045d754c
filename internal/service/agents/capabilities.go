package agents

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/agents/capability/custom"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/service/home"
)

// Capabilities lists the capabilities that agents can have: the compiled-in ones, the calling
// program's, and those of the files in $REMIT_HOME/capabilities. The files are read again at every
// use.
func (s *Agents) Capabilities(own ...capability.Capability) (*capability.Registry, error) {
	reg, err := capability.NewRegistry(slices.Concat(s.BuiltIn, own))
	if err != nil {
		return nil, err
	}
	return reg.With(func() ([]capability.Capability, []capability.Broken) {
		return readCapabilities(filepath.Join(s.Home.Dir, home.CapabilitiesIn))
	}), nil
}

// maxCapabilityFile is how many bytes of a file are read: one more than it may have.
const maxCapabilityFile = 64<<10 + 1

// readCapabilities reads the custom capabilities in a folder, sorted by file name. A broken
// file does not hide the others.
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

// readCapability reads a regular file.
func readCapability(file string) ([]byte, error) {
	st, err := os.Stat(file)
	if err == nil && !st.Mode().IsRegular() {
		return nil, fault.New(fault.CapabilityInvalid, "not a regular file")
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

// CapabilitySchema is the JSON Schema of capability files.
func CapabilitySchema() []byte { return custom.Schema() }

// CapabilityView describes a capability.
type CapabilityView struct {
	Info     capability.Info
	File     string // of a custom capability
	Prompt   string
	Tools    []CapabilityTool
	Warnings []string
	Problem  error // why its tools are unknown
}

// CapabilityTool is a tool that a capability offers.
type CapabilityTool struct {
	Name     string
	ID       tool.ID
	Spec     *tool.Spec // nil: not in the catalog
	Defaults tool.Args
}

// Capability describes a capability, with the catalog's tools and without a session.
func (s *Agents) Capability(ctx context.Context, id string) (CapabilityView, error) {
	reg, err := s.Capabilities()
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
	part, err := c.Part(capability.Session{Match: s.matchTools}, nil)
	v.Problem, v.Prompt, v.Warnings = err, part.Prompt, part.Warnings
	for _, o := range part.Tools {
		one := CapabilityTool{Name: o.Name, ID: o.ID, Defaults: o.Defaults}
		if o.Tool != nil {
			one.Spec = o.Tool.Spec()
		} else if t, err := s.Tools.Describe(ctx, o.ID); err == nil {
			one.Spec = t.Spec
		}
		v.Tools = append(v.Tools, one)
	}
	return v, nil
}
