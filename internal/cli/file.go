package cli

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
)

// toFile writes a file completely or not at all; "-" is standard output.
func (s *session) toFile(file string, write func(io.Writer) error) error {
	if file == "-" {
		return write(s.Out)
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".remit-*")
	if err != nil {
		return fault.Wrap(fault.Usage, err, "%s cannot be written: %v", file, errors.Unwrap(err))
	}
	err = errors.Join(write(f), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // incomplete
		return fault.Wrap(fault.Usage, err, "%s cannot be written", file)
	}
	s.errorf("written to %s\n", show(file))
	return nil
}

// maxSmall is the maximum size of proofs, checkpoints and keys in bytes.
const maxSmall = 64 << 20

// readSmall reads a file that a flag names.
func readSmall(file string) ([]byte, error) {
	b, err := wholefile.Read(file, maxSmall)
	if pe := new(fs.PathError); errors.As(err, &pe) { // the position names the file already
		err = pe.Err
	}
	if err != nil {
		return nil, fault.Wrap(fault.Usage, err, "%v", err).At(fault.Pos{File: file})
	}
	return b, nil
}
