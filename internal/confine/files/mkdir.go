package files

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Missing reports whether nothing is at a path that may be written.
func (f *Files) Missing(asked string) bool {
	err := f.at(how{kind: tool.FileWrite}, asked, func(pl *place) error {
		_, err := statAt(pl.dir, pl.base)
		return err
	})
	return errors.Is(err, fault.NotFound) || errors.Is(err, fs.ErrNotExist)
}

// Mkdir makes a folder, and where parents says so missing ones on the way to it.
// One that is there is a fault.Conflict.
func (f *Files) Mkdir(asked string, parents bool) error {
	return f.at(how{kind: tool.FileWrite, parents: parents}, asked, func(pl *place) error {
		if pl.base == "." {
			return fs.ErrExist
		}
		if err := f.room(0); err != nil {
			return err
		}
		if err := f.unmoved(tool.FileWrite, pl); err != nil {
			return err
		}
		err := f.keeping(pl.real, pl.dir, pl.base, func() error { return unix.Mkdirat(pl.dir, pl.base, 0o777) })
		if err == nil {
			f.note(tool.FSWrite, pl.path, 0)
		}
		return err
	})
}
