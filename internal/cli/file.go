package cli

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/remitrun/remit/internal/fault"
)

// toFile writes a file whole or not at all; "-" is standard output.
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
		_ = os.Remove(f.Name()) // it is of no use half written
		return fault.Wrap(fault.Usage, err, "%s cannot be written", file)
	}
	s.errorf("written to %s\n", show(file))
	return nil
}

// maxSmall bounds the files that are read whole: proofs, checkpoints and keys.
const maxSmall = 64 << 20

// readSmall reads a file that a flag names.
func readSmall(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fault.New(fault.Usage, "%v", errors.Unwrap(err)).At(fault.Pos{File: file})
	}
	defer func() { _ = f.Close() }() // only read
	b, err := io.ReadAll(io.LimitReader(f, maxSmall+1))
	if err == nil && len(b) > maxSmall {
		err = errors.New("the file is too large")
	}
	if err != nil {
		return nil, fault.Wrap(fault.Usage, err, "the file cannot be read").At(fault.Pos{File: file})
	}
	return b, nil
}
