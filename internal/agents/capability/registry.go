package capability

import (
	"maps"
	"slices"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/near"
	"github.com/remitrun/remit/internal/base/regex"
)

// idForm is the form of capability IDs; nameForm is the form of tool names that every
// model provider accepts.
var (
	idForm   = regex.Lazy(`^[a-z][a-z0-9_]{0,49}$`)
	nameForm = regex.Lazy(`^[a-zA-Z][a-zA-Z0-9_-]{0,63}$`)
)

// ValidID reports whether a capability can have an ID: a lower-case letter, then
// lower-case letters, digits and _, at most 50 in all.
func ValidID(id string) bool { return idForm.MatchString(id) }

// ValidName reports whether a tool can have a name.
func ValidName(name string) bool { return nameForm.MatchString(name) }

// Broken is a capability that cannot be used.
type Broken struct {
	ID   string // "": not known
	File string
	Err  error // why, and where
}

// Registry has the capabilities that agents can be given. It is safe for concurrent use.
// The nil Registry is empty.
type Registry struct {
	list   []Capability
	byID   map[string]Capability
	broken []Broken
	more   func() ([]Capability, []Broken)
}

// NewRegistry makes a registry that lists capabilities in this order. Two with the same
// ID, or one with an incomplete description, are fault.CapabilityInvalid.
func NewRegistry(list []Capability) (*Registry, error) {
	r := &Registry{byID: map[string]Capability{}}
	for _, c := range list {
		if err := r.add(c); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *Registry) add(c Capability) error {
	info := c.Info()
	if err := checkInfo(info); err != nil {
		return err
	}
	if r.byID[info.ID] != nil {
		return fault.New(fault.CapabilityInvalid, "two capabilities have the ID %q", info.ID)
	}
	r.byID[info.ID] = c
	r.list = append(r.list, c)
	return nil
}

// With returns a registry with further capabilities, which are read again for each use. Broken
// ones, and capabilities whose ID is taken, are listed as broken.
func (r *Registry) With(more func() ([]Capability, []Broken)) *Registry {
	out := *r
	out.more = more
	return &out
}

// current returns the registry with the further capabilities as they are now.
func (r *Registry) current() *Registry {
	if r == nil {
		return &Registry{}
	}
	if r.more == nil {
		return r
	}
	list, broken := r.more()
	out := &Registry{list: slices.Clone(r.list), byID: maps.Clone(r.byID), broken: broken}
	for _, c := range list {
		if err := out.add(c); err != nil {
			file := ""
			if f, ok := c.(interface{ File() string }); ok {
				file = f.File()
			}
			out.broken = append(out.broken, Broken{ID: c.Info().ID, File: file, Err: err})
		}
	}
	return out
}

// checkInfo checks that a description is complete.
func checkInfo(i Info) error {
	switch {
	case !ValidID(i.ID):
		return fault.New(fault.CapabilityInvalid, "%q is not a valid capability ID; expected a lower-case letter, then lower-case letters, digits and _, at most 50 in all", i.ID)
	case i.Name == "" || i.Description == "" || i.Version == "":
		return fault.New(fault.CapabilityInvalid, "the capability %q has no name, description or version", i.ID)
	case i.Status != Available && i.Status != ComingSoon && i.Status != Deprecated:
		return fault.New(fault.CapabilityInvalid, "the capability %q has the unknown status %q", i.ID, i.Status)
	}
	if _, err := configSchema(i); err != nil {
		return fault.Wrap(fault.CapabilityInvalid, err, "the configuration schema of %q cannot be used: %v", i.ID, err)
	}
	return nil
}

// List lists the capabilities, in order, and the broken ones.
func (r *Registry) List() ([]Capability, []Broken) {
	r = r.current()
	return slices.Clone(r.list), slices.Clone(r.broken)
}

// Get finds a capability. An unknown ID is fault.CapabilityUnknown, with the nearest
// known one as hint; the ID of a broken one is fault.CapabilityInvalid, with the reason.
func (r *Registry) Get(id string) (Capability, error) {
	r = r.current()
	if c := r.byID[id]; c != nil {
		return c, nil
	}
	for _, b := range r.broken {
		if b.ID == id && id != "" {
			return nil, fault.Wrap(fault.CapabilityInvalid, b.Err, "the capability %q is broken: %s", id, fault.Message(b.Err)).
				WithHint("correct its file %s", b.File)
		}
	}
	e := fault.New(fault.CapabilityUnknown, "unknown capability %.100q", id)
	if meant := near.Word(id, r.ids()); meant != "" {
		return nil, e.WithHint("did you mean %q?", meant)
	}
	return nil, e.ForOperator("list them with `remit capabilities`")
}

func (r *Registry) ids() []string {
	out := make([]string, len(r.list))
	for i, c := range r.list {
		out[i] = c.Info().ID
	}
	return out
}
