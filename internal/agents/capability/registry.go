package capability

import (
	"maps"
	"regexp"
	"slices"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/near"
)

// idForm is how capabilities are called; nameForm is what every model's service
// takes as a tool's name.
var (
	idForm   = regexp.MustCompile(`^[a-z][a-z0-9_]{0,49}$`)
	nameForm = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_-]{0,63}$`)
)

// ValidID reports whether an ID is one that a capability can have: a small
// letter, then small letters, digits and _, at most 50 in all.
func ValidID(id string) bool { return idForm.MatchString(id) }

// ValidName reports whether a model can be told of a tool by this name.
func ValidName(name string) bool { return nameForm.MatchString(name) }

// Broken is a capability that somebody wrote and that cannot be used.
type Broken struct {
	ID   string // as far as it can be told; or ""
	File string
	Err  error // that says why, and where
}

// Registry is the capabilities that there are. It is safe for concurrent use. The
// nil Registry has none.
type Registry struct {
	list   []Capability
	byID   map[string]Capability
	broken []Broken
	more   func() ([]Capability, []Broken)
}

// NewRegistry makes a registry of capabilities, in the order in which they are
// to be listed. Two of one ID, or one whose description is not complete, are
// fault.CapabilityInvalid.
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

// With gives a registry that has further capabilities too, which are asked for
// anew whenever somebody looks. Those that are broken, or have an ID that is
// taken, are listed as broken and hide no other.
func (r *Registry) With(more func() ([]Capability, []Broken)) *Registry {
	out := *r
	out.more = more
	return &out
}

// now is the registry as it is at this moment.
func (r *Registry) now() *Registry {
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

// checkInfo finds what a capability does not say of itself.
func checkInfo(i Info) error {
	switch {
	case !ValidID(i.ID):
		return fault.New(fault.CapabilityInvalid, "%q is no ID of a capability: a small letter, then small letters, digits and _, at most 50 in all", i.ID)
	case i.Name == "" || i.Description == "" || i.Version == "":
		return fault.New(fault.CapabilityInvalid, "the capability %q has no name, description or version", i.ID)
	case i.Status != Available && i.Status != ComingSoon && i.Status != Deprecated:
		return fault.New(fault.CapabilityInvalid, "the capability %q has the status %q, which is none", i.ID, i.Status)
	}
	if _, err := configSchema(i); err != nil {
		return fault.Wrap(fault.CapabilityInvalid, err, "the configuration schema of %q cannot be used: %v", i.ID, err)
	}
	return nil
}

// List gives all capabilities, in order, and those that cannot be used.
func (r *Registry) List() ([]Capability, []Broken) {
	r = r.now()
	return slices.Clone(r.list), slices.Clone(r.broken)
}

// Get finds a capability. An ID that none has is fault.CapabilityUnknown, with
// the nearest one; that of a broken one is fault.CapabilityInvalid, with what is
// wrong.
func (r *Registry) Get(id string) (Capability, error) {
	r = r.now()
	if c := r.byID[id]; c != nil {
		return c, nil
	}
	for _, b := range r.broken {
		if b.ID == id && id != "" {
			return nil, fault.Wrap(fault.CapabilityInvalid, b.Err, "the capability %q is broken: %s", id, fault.Message(b.Err)).
				WithHint("its file is %s", b.File)
		}
	}
	e := fault.New(fault.CapabilityUnknown, "no capability has the ID %.100q", id)
	if meant := near.Word(id, r.ids()); meant != "" {
		return nil, e.WithHint("did you mean %q?", meant)
	}
	return nil, e.WithHint("`remit capabilities` lists them")
}

func (r *Registry) ids() []string {
	out := make([]string, len(r.list))
	for i, c := range r.list {
		out[i] = c.Info().ID
	}
	return out
}
