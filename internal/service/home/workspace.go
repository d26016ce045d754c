package home

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/near"
	"github.com/remitrun/remit/internal/base/walk"
	"github.com/remitrun/remit/internal/base/wholefile"
)

// maxNear bounds the folder in which a file of nearly the same name is looked for.
const maxNear = 2000

// NearFile is the hint for a file that is not there: one of nearly the same name in its folder,
// else otherwise.
func NearFile(file, otherwise string) string {
	dir, err := os.Open(filepath.Dir(file))
	if err != nil {
		return otherwise
	}
	defer func() { _ = dir.Close() }() // only read
	list, err := walk.Entries(context.Background(), dir, &walk.Budget{Names: maxNear, Bytes: maxNear * 255})
	if err != nil {
		return otherwise
	}
	var names []string
	for _, e := range list {
		if !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	if n := near.Word(filepath.Base(file), names); n != "" && n != filepath.Base(file) {
		return fmt.Sprintf("did you mean %q?", filepath.Join(filepath.Dir(file), n))
	}
	return otherwise
}

// Workspace makes dir (or the current folder) absolute, with links resolved.
func Workspace(dir string) (string, error) {
	if dir == "" {
		dir = "."
	}
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return "", fault.Wrap(fault.Usage, err, "the workspace %q cannot be used: %v", dir, wholefile.Cause(err)).
			WithHint("name an existing folder with -w")
	}
	if !utf8.ValidString(abs) {
		return "", fault.New(fault.Usage, "the workspace's path %q is not UTF-8", abs).WithHint("give the folder another name")
	}
	st, err := os.Stat(abs)
	if err != nil || !st.IsDir() {
		return "", fault.New(fault.Usage, "the workspace %q is not a folder", dir).WithHint("name a folder with -w")
	}
	return abs, nil
}
