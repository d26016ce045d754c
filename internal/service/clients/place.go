package clients

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
)

// maxConfig bounds an agent's configuration file, in bytes.
const maxConfig = 4 << 20

// place is a file below a folder. Nothing above or outside the folder is reached, and no
// symbolic link below it is followed: a repository may have put one there.
type place struct {
	root string // the folder, which exists
	name string // the file, relative to root
}

func (p place) file() string { return filepath.Join(p.root, p.name) }

// dirs are the folders between root and the file, from the outside.
func (p place) dirs() []string {
	var out []string
	for i, c := range p.name {
		if c == '/' {
			out = append(out, p.name[:i])
		}
	}
	return out
}

func (p place) fail(err error) error {
	if code := fault.CodeOf(err); code != fault.Internal {
		return err
	}
	return fault.Wrap(fault.Usage, err, "%s cannot be used: %v", p.file(), wholefile.Cause(err))
}

// check refuses a symbolic link and anything else but a regular file. It reports the file's
// permissions; there is false for a missing file.
func (p place) check(root *os.Root) (mode fs.FileMode, there bool, err error) {
	for _, dir := range p.dirs() {
		st, err := root.Lstat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return 0, false, nil
		}
		if err != nil {
			return 0, false, err
		}
		if !st.IsDir() {
			return 0, false, fault.New(fault.Usage, "%s is not a folder, or a symbolic link", filepath.Join(p.root, dir)).
				WithHint("put a folder in its place; links are not followed there")
		}
	}
	st, err := root.Lstat(p.name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err == nil && !st.Mode().IsRegular() {
		err = fault.New(fault.Usage, "%s is not a regular file, or a symbolic link", p.file()).
			WithHint("put a file in its place; links are not followed there")
	}
	if err != nil {
		return 0, false, err
	}
	return st.Mode().Perm(), true, nil
}

// read gives the content of the file; nil: there is none.
func (p place) read() ([]byte, error) {
	root, err := os.OpenRoot(p.root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, p.fail(err)
	}
	defer root.Close()
	if _, there, err := p.check(root); err != nil || !there {
		return nil, orNil(err, p)
	}
	f, err := root.Open(p.name)
	if err != nil {
		return nil, p.fail(err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err == nil && len(b) > maxConfig {
		err = fault.New(fault.Usage, "%s is larger than %d bytes", p.file(), maxConfig)
	}
	if err != nil {
		return nil, p.fail(err)
	}
	return append([]byte{}, b...), nil
}

func orNil(err error, p place) error {
	if err == nil {
		return nil
	}
	return p.fail(err)
}

// write puts content in the place of the file, whole, if the file still has the content read before
// (nil: missing). A new file gets the mode fresh. It returns the folders that it made.
func (p place) write(before, content []byte, fresh fs.FileMode) (made []string, err error) {
	now, err := p.read()
	if err != nil {
		return nil, err
	}
	if (now == nil) != (before == nil) || string(now) != string(before) {
		return nil, fault.New(fault.Conflict, "%s was changed meanwhile", p.file()).WithHint("run the command again")
	}
	root, err := os.OpenRoot(p.root)
	if err != nil {
		return nil, p.fail(err)
	}
	defer root.Close()
	mode, there, err := p.check(root)
	if err != nil {
		return nil, p.fail(err)
	}
	if !there {
		mode = fresh
	}
	if made, err = p.makeDirs(root, fresh); err != nil {
		return made, p.fail(err)
	}
	if err := p.replace(root, content, mode); err != nil {
		return made, p.fail(err)
	}
	return made, nil
}

func (p place) makeDirs(root *os.Root, file fs.FileMode) (made []string, err error) {
	mode := fs.FileMode(0o755)
	if file&0o044 == 0 {
		mode = 0o700
	}
	for _, dir := range p.dirs() {
		err := root.Mkdir(dir, mode)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return made, err
		}
		made = append(made, dir)
	}
	return made, nil
}

// replace renames a new file over the old one.
func (p place) replace(root *os.Root, content []byte, mode fs.FileMode) error {
	temp := filepath.Join(filepath.Dir(p.name), ".remit-new-"+filepath.Base(p.name))
	if err := root.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a process that died
		return err
	}
	f, err := root.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = root.Rename(temp, p.name)
	}
	if err != nil {
		return errors.Join(err, root.Remove(temp))
	}
	return nil
}

// removeFile removes the file and the empty ones of the folders.
func (p place) removeFile(made []string) error {
	root, err := os.OpenRoot(p.root)
	if err != nil {
		return p.fail(err)
	}
	defer root.Close()
	if _, there, err := p.check(root); err != nil || !there {
		return orNil(err, p)
	}
	if err := root.Remove(p.name); err != nil {
		return p.fail(err)
	}
	p.removeDirs(root, made)
	return nil
}

// removeDirs removes folders that are empty; others stay.
func (p place) removeDirs(root *os.Root, made []string) {
	for i := len(made) - 1; i >= 0; i-- {
		if strings.HasPrefix(p.name, made[i]+"/") {
			_ = root.Remove(made[i]) // not empty: it is used
		}
	}
}

// guard makes a folder below root, so that a confined command finds it there and cannot make
// it anew with settings of its own.
func guard(root, name string) error {
	p := place{root, name + "/x"}
	r, err := os.OpenRoot(root)
	if err != nil {
		return p.fail(err)
	}
	defer r.Close()
	if _, _, err := p.check(r); err != nil {
		return p.fail(err)
	}
	_, err = p.makeDirs(r, 0o644)
	return orNil(err, p)
}

// missing lists the folders between root and the file that are not there.
func (p place) missing() (out []string) {
	for _, dir := range p.dirs() {
		if _, err := os.Lstat(filepath.Join(p.root, dir)); errors.Is(err, fs.ErrNotExist) {
			out = append(out, dir)
		}
	}
	return out
}

// unguard removes folders that guard made and that are empty.
func unguard(root string, made []string) error {
	r, err := os.OpenRoot(root)
	if err != nil {
		return nil // the folder is gone, with its contents
	}
	defer r.Close()
	for i := len(made) - 1; i >= 0; i-- {
		_ = r.Remove(made[i]) // not empty: it is used
	}
	return nil
}
