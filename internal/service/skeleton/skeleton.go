// Package skeleton writes the beginnings of tools that people develop: working projects, with a
// test and a policy. They are the files below files/. Start at [Write].
package skeleton

import (
	"embed"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/base/wholefile"
)

//go:embed all:files
var files embed.FS

// Kind is the kind of a new project.
type Kind string

// The kinds, by the folders of their files.
const (
	Extension Kind = "ext"  // an extension with a slash command that runs a script
	Wasm      Kind = "wasm" // a WebAssembly module, written in Go
	Go        Kind = "go"   // a Go program with tools of its own
)

// Project describes the written files.
type Project struct {
	Kind   Kind     `json:"kind"`
	Name   string   `json:"name"`
	Folder string   `json:"folder"`
	Files  []string `json:"files"` // relative to Folder, with slashes
	Next   []string `json:"next"`  // commands that try it, in the folder
}

// The names that extensions, modules, groups of tools and Go modules can all have.
var nameForm = regex.Lazy(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)

const maxName = 30

// next is how to go on, by kind; NAME is the project's.
var next = map[Kind][]string{
	Extension: {"remit policy test policy_test.yaml", "remit ext install extension", `remit slash "/NAME count README.md" -p policy.yaml`},
	Wasm:      {"go test .", "GOOS=wasip1 GOARCH=wasm go build -o NAME.wasm .", "remit wasm add NAME NAME.wasm", "remit run plan.yaml -p policy.yaml"},
	Go:        {"go mod tidy", "go test .", "go run ."},
}

// Write makes a project in a folder, which must not exist. The folder is there with all its files,
// or not at all.
func Write(k Kind, name, folder string) (*Project, error) {
	if !nameForm.MatchString(name) || len(name) > maxName {
		return nil, fault.New(fault.Usage, "%.60q is not a valid name; expected up to %d small letters and digits, separated by single underscores, as word_count", name, maxName)
	}
	if _, err := os.Lstat(folder); err == nil {
		return nil, fault.New(fault.Usage, "%q exists already", folder).WithHint("name another folder with --dir")
	}
	p := &Project{Kind: k, Name: name, Folder: folder}
	for _, line := range next[k] {
		p.Next = append(p.Next, strings.ReplaceAll(line, "NAME", name))
	}
	if err := p.write(); err != nil {
		return nil, fault.Wrap(fault.Usage, err, "%q cannot be written: %v", folder, wholefile.Cause(err))
	}
	slices.Sort(p.Files)
	return p, nil
}

// write writes the files beside the folder, and gives it its name at the end.
func (p *Project) write() error {
	parent := filepath.Dir(p.Folder)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	draft, err := os.MkdirTemp(parent, "."+p.Name+"-*")
	if err != nil {
		return err
	}
	root := "files/" + string(p.Kind)
	err = fs.WalkDir(files, root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return p.writeOne(draft, name, strings.TrimPrefix(strings.TrimPrefix(name, root), "/"), d.IsDir())
	})
	if err == nil {
		err = os.Chmod(draft, 0o755)
	}
	if err == nil {
		err = os.Rename(draft, p.Folder)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(draft))
	}
	return nil
}

// writeOne writes a file or makes a folder: a file that begins with #! is executable.
func (p *Project) writeOne(draft, source, name string, folder bool) error {
	fill := strings.NewReplacer("@name@", p.Name)
	name = strings.TrimSuffix(fill.Replace(name), ".tmpl")
	to := filepath.Join(draft, filepath.FromSlash(name))
	if folder {
		return os.MkdirAll(to, 0o755)
	}
	b, err := files.ReadFile(source)
	if err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if strings.HasPrefix(string(b), "#!") {
		mode = 0o755
	}
	p.Files = append(p.Files, name)
	return os.WriteFile(to, []byte(fill.Replace(string(b))), mode)
}
