package files

import (
	"slices"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// only are the places that a narrowed handle reaches.
type only struct{ read, write []string }

// Only returns a handle that reaches only some places and the names below them,
// and there no more than the policies allow. Links that lead elsewhere are
// refused. Places are absolute and clean; with none, nothing can be reached.
func (f *Files) Only(read, write []string) *Files {
	n := *f
	n.only = &only{slices.Clone(read), slices.Clone(write)}
	return &n
}

// check decides an action at the moment of use.
func (f *Files) check(a tool.Action) error {
	if err := f.only.check(a); err != nil {
		return err
	}
	if a.Kind != tool.FileRead && a.Real != "" && f.leads != nil {
		a.Lead = f.leads.Lead(a.Real)
	}
	return f.p.Check(a)
}

// check refuses other places, by the path as asked or by the real one.
func (o *only) check(a tool.Action) error {
	if o == nil {
		return nil
	}
	places := o.read
	if a.Kind != tool.FileRead {
		places = o.write
	}
	within := func(p string) bool {
		return slices.ContainsFunc(places, func(place string) bool { return inside(place, p) })
	}
	if within(a.Path) && (a.Real == "" || within(a.Real)) {
		return nil
	}
	return fault.New(fault.HandleRefused, "%s: it is outside of the paths that the call may use", a)
}
