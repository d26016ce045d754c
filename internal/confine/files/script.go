package files

import (
	"errors"
	"io"
	"path"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// ReadModel reads the file of a model that is one, of at most so many bytes. The
// policies' models allow it, and not files.read: so nothing of what is in the file
// may be told but as the model's answers. A file that an entry of files.read.deny
// names is not read at all. readable says that files.read would allow
// it too; where it would not, an error does not even say what is wrong with the
// file.
func ReadModel(p permit.Permit, model, asked string, most int64) (content []byte, readable bool, err error) {
	if err := p.Check(tool.Action{Kind: tool.Model, Model: model}); err != nil {
		return nil, false, err
	}
	f := New(p)
	clean, err := Clean(f.env, asked)
	if err != nil {
		return nil, false, err
	}
	_, leave, err := f.enter()
	if err != nil {
		return nil, false, err
	}
	defer leave()
	for range tries {
		content, readable, err = f.readModel(clean, most)
		if !errors.Is(err, errSwapped) && !errors.Is(err, unix.ELOOP) {
			break
		}
	}
	if err != nil && !readable {
		return nil, false, fault.Wrap(fault.ModelUnknown, err, "the file of the model cannot be used").
			WithHint("check its name; a policy whose files.read allows the file is told more")
	}
	return content, readable, about(f.env, clean, err)
}

func (f *Files) readModel(clean string, most int64) (content []byte, readable bool, err error) {
	decide := func(real string) policy.Decision {
		return f.p.Chain().DecideAction(tool.Action{Kind: tool.FileRead, Path: clean, Real: real})
	}
	real, err := f.resolve(clean)
	if err != nil {
		return nil, decide(clean).Effect == policy.Allow, err
	}
	d := decide(real)
	if readable = d.Effect == policy.Allow; d.Effect == policy.Deny && d.Rule != nil && d.Rule.Pattern != "" {
		return nil, false, fault.New(fault.HandleRefused, "%s denies the file of the model", d.Rule)
	}
	pl := &place{path: clean, real: real, base: path.Base(real)}
	if pl.dir, err = f.openDir(path.Dir(real)); err != nil {
		return nil, readable, err
	}
	defer pl.close()
	file, _, err := f.openRegular(pl, unix.O_RDONLY)
	if err != nil {
		return nil, readable, err
	}
	defer func() { _ = file.Close() }() // nothing was written
	content, err = io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(content)) > most {
		err = fault.New(fault.ModelUnknown, "%s has more than the %d bytes that a file of answers may have", quote(Rel(f.env, clean)), most)
	}
	if err == nil {
		f.note(tool.FSRead, clean, int64(len(content)))
	}
	return content, readable, err
}
