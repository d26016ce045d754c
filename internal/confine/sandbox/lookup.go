package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/near"
)

const maxLinks = 40

// Lookup finds the file that a command's first word means: a path (relative to
// dir) if it holds a slash, else the first executable of that name in the
// folders of path. It gives the absolute path without any link in it, and the
// other names on the way there: every path that still had a link in it. These
// are the facts that a policy decides commands on. A word that means no file is
// fault.NotFound, with the nearest name. With the error that a file cannot be run, the file is returned, too:
// it may change. All paths are those of a sandbox with the system of img.
func Lookup(img *Image, path []string, argv0, dir string) (exe string, names []string, err error) {
	return LookupIn(img.At, path, argv0, dir)
}

// LookupIn is Lookup where a path is looked at elsewhere: at gives the place.
func LookupIn(at func(string) string, path []string, argv0, dir string) (exe string, names []string, err error) {
	switch {
	case argv0 == "":
		return "", nil, fault.New(fault.ArgsInvalid, "the command has no first word")
	case strings.ContainsRune(argv0, 0):
		return "", nil, fault.New(fault.ArgsInvalid, "the command's name %q holds a NUL byte", argv0)
	case strings.Contains(argv0, "/"):
		asked := argv0
		if !filepath.IsAbs(asked) {
			asked = filepath.Join(dir, asked)
		}
		if exe, names, err = follow(at, filepath.Clean(asked)); err == nil {
			err = runnable(exe, at(exe))
		}
		if err != nil {
			return exe, names, notRunnable(argv0, err)
		}
		return exe, names, nil
	}
	var found error
	for _, folder := range path {
		if !filepath.IsAbs(folder) {
			continue
		}
		exe, names, err := follow(at, filepath.Join(folder, argv0))
		if err == nil {
			err = runnable(exe, at(exe))
		}
		if err == nil {
			return exe, names, nil
		}
		if !errors.Is(err, fs.ErrNotExist) && found == nil {
			found = err
		}
	}
	if found != nil {
		return "", nil, notRunnable(argv0, found)
	}
	e := fault.New(fault.NotFound, "no command %q on the trusted PATH %s", argv0, strings.Join(path, ":"))
	if meant := similar(at, path, argv0); meant != "" {
		return "", nil, e.WithHint("did you mean %q?", meant)
	}
	return "", nil, e.WithHint("install it there, or add its folder to the policy's commands.path")
}

// Unrunnable reports whether an error of [Lookup] is about a missing file, a folder, or a file that is not executable.
func Unrunnable(err error) bool {
	return errors.Is(err, fault.NotFound) || errors.Is(err, fault.ToolFailed)
}

func notRunnable(argv0 string, err error) error {
	var coded *fault.Error
	if errors.As(err, &coded) {
		return err
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fault.Wrap(fault.NotFound, err, "no command %q: the file does not exist", argv0)
	}
	return fault.Wrap(fault.ToolFailed, err, "the command %q cannot be run: %v", argv0, RootCause(err))
}

// RootCause is the error beneath the path that a file error names.
func RootCause(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

func runnable(exe, at string) error {
	st, err := os.Stat(at)
	switch {
	case err != nil:
		return err
	case !st.Mode().IsRegular():
		return fault.New(fault.ToolFailed, "%q is not a regular file", exe)
	case st.Mode().Perm()&0o111 == 0:
		return fault.New(fault.ToolFailed, "%q is not executable", exe).WithHint("chmod +x makes it so")
	}
	return nil
}

// follow resolves every link in an absolute clean path, one at a time.
func follow(at func(string) string, path string) (real string, names []string, err error) {
	for range maxLinks {
		link, target, err := firstLink(at, path)
		if err != nil {
			return "", nil, err
		}
		if target == "" {
			return path, names, nil
		}
		names = append(names, path)
		rest := path[len(link):]
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(link), target)
		}
		path = filepath.Join(target, rest)
	}
	return "", nil, fault.New(fault.ToolFailed, "%q goes through more than %d links", path, maxLinks)
}

// firstLink finds the first component of path that is a symbolic link. The
// links before it are gone already, so joining its target lexically is right.
func firstLink(at func(string) string, path string) (link, target string, err error) {
	for i := 1; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			continue
		}
		st, err := os.Lstat(at(path[:i]))
		if err != nil {
			return "", "", err
		}
		if st.Mode()&fs.ModeSymlink != 0 {
			target, err = os.Readlink(at(path[:i]))
			return path[:i], target, err
		}
	}
	return "", "", nil
}

// similar is the command whose name comes nearest, or none.
func similar(at func(string) string, path []string, name string) string {
	var all []string
	for _, folder := range path {
		entries, err := Entries(at(folder))
		if err != nil {
			continue // a folder of the PATH that is not there offers no names
		}
		for _, e := range entries {
			if n := len(e.Name()) - len(name); n >= -2 && n <= 2 {
				all = append(all, e.Name())
			}
		}
	}
	return near.Word(name, all)
}
