package sandbox

import (
	"path"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
)

// Image is an unpacked container image whose files are the system of a sandbox, in the
// place of the machine's. Folders at the top of the image, as /usr or /opt, are the image's.
// All others are the machine's, as far as the policies show them. A nil Image is the machine's
// own system.
type Image struct {
	Digest string
	Root   string   // of its files on the host: absolute, no link in it
	Path   []string // where its programs are
	Env    []string // NAME=VALUE
	Tops   []string // names at its top that commands see: "usr", "bin"
	Hidden []string // names at its top that they do not see: the machine's folders are needed
}

// ownTops are never the image's.
var ownTops = []string{"proc", "sys", "dev", "tmp", "run", "boot", "lost+found"}

// NewImage lists the top of an image. Folders of the machine that must stay in view, such
// as the workspace, hide the image's files at the same place.
func NewImage(digest, root string, env []string, visible ...string) (*Image, error) {
	entries, err := Entries(root)
	if err != nil {
		return nil, err
	}
	i := &Image{Digest: digest, Root: root}
	for _, kv := range env {
		if list, ok := strings.CutPrefix(kv, "PATH="); ok {
			i.Path = slices.DeleteFunc(strings.Split(list, ":"), func(p string) bool { return !path.IsAbs(p) })
			continue
		}
		i.Env = append(i.Env, kv)
	}
	for _, e := range entries {
		within := func(p string) bool { return p != "" && top(p) == e.Name() }
		switch {
		case slices.Contains(ownTops, e.Name()):
		case slices.ContainsFunc(visible, within):
			if inside, err := Entries(path.Join(root, e.Name())); err == nil && len(inside) > 0 {
				i.Hidden = append(i.Hidden, e.Name())
			}
		default:
			i.Tops = append(i.Tops, e.Name())
		}
	}
	return i, nil
}

// top is the first name of an absolute path.
func top(p string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(p, "/"), "/")
	return first
}

// Has reports whether a path of the sandbox is the image's.
func (i *Image) Has(p string) bool { return i != nil && slices.Contains(i.Tops, top(p)) }

// At is where on the host a path of the sandbox is. Links in it count as they are: a caller
// that follows them does so in the sandbox's paths, see [Lookup].
func (i *Image) At(p string) string {
	if i.Has(p) {
		return path.Join(i.Root, p)
	}
	return p
}

// From is where on the host a path is that the image brings; "": the machine's own is meant.
func (i *Image) From(p string) string {
	if !i.Has(p) {
		return ""
	}
	return i.At(p)
}

// Where says for people where the system's files are.
func (i *Image) Where() string {
	if i == nil {
		return "here"
	}
	return "in the image"
}

// Limits are the limits with the image's programs on the trusted PATH, before those that
// the policies add.
func (i *Image) Limits(l policy.Limits) policy.Limits {
	if i == nil {
		return l
	}
	out := slices.Clone(i.Path)
	for _, p := range l.Path {
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	l.Path = out
	return l
}
