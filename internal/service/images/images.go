// Package images keeps the container images that a person added, for commands that policies
// place in one. Start at [Images.Add].
package images

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/confine/image"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/service/home"
)

// Images are the unpacked images of one $REMIT_HOME.
type Images struct {
	Home *home.Home

	mu    sync.Mutex
	known map[string]*sandbox.Image // by digest and workspace
}

// Image is an image that was added.
type Image struct {
	Name     string    `json:"name"`
	ID       string    `json:"id"`                 // what policies name: the digest of its configuration
	Manifest string    `json:"manifest,omitempty"` // the digest of its manifest, where the source has one
	From     string    `json:"from"`               // the file or folder that it came from
	Arch     string    `json:"arch"`
	Env      []string  `json:"env,omitempty"`
	Size     int64     `json:"size"` // bytes of the unpacked files
	Files    int       `json:"files"`
	Added    time.Time `json:"added"`
}

// Key is the image's name.
func (i Image) Key() string { return i.Name }

const (
	folder = "images" // unpacked files, by ID
	prefix = ".new-"  // of a folder that is being unpacked
)

func (s *Images) added() home.Collection[Image] {
	return home.Collection[Image]{Home: s.Home, File: "images.json", Article: "an", One: "image", Again: "add the images", Command: "remit image", Sweep: s.sweep}
}

// List lists the images, by name.
func (s *Images) List() ([]Image, error) { return s.added().List() }

// Find finds an image by its name.
func (s *Images) Find(name string) (Image, error) { return s.added().Find(name) }

// Addition is an image that is to be added.
type Addition struct {
	Name    string
	From    string // a file that `docker save` or `podman save` wrote, or the folder of an OCI layout
	Replace bool   // of one that has the name already
}

// Add unpacks an image and keeps its files.
func (s *Images) Add(q Addition) (Image, error) {
	if err := s.added().CheckName(q.Name, q.Replace); err != nil {
		return Image{}, err
	}
	dir := filepath.Join(s.Home.Dir, folder)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Image{}, notKept(err)
	}
	work, err := os.MkdirTemp(dir, prefix)
	if err != nil {
		return Image{}, notKept(err)
	}
	defer func() { _ = image.Remove(work) }() // the next change of the list removes the remains
	got, err := image.Unpack(q.From, filepath.Join(work, "root"))
	if err != nil {
		return Image{}, err
	}
	if got.OS != "linux" || got.Arch != runtime.GOARCH {
		return Image{}, fault.New(fault.Usage, "the image %q is for %s/%s, and this machine is linux/%s", q.From, got.OS, got.Arch, runtime.GOARCH).
			WithHint("pull the image for this machine")
	}
	one := Image{Name: q.Name, ID: got.ID, Manifest: got.Manifest, From: q.From, Arch: got.Arch, Env: got.Env, Size: got.Size, Files: got.Files,
		Added: time.Now().UTC().Truncate(time.Second)}
	return one, s.added().Put(one, func() error {
		list, err := s.List()
		if err != nil || slices.ContainsFunc(list, func(x Image) bool { return x.ID == one.ID }) {
			return err // the same files, under another name
		}
		if err := image.Remove(s.root(one.ID)); err != nil { // of an Add that was interrupted
			return notKept(err)
		}
		return notKept(settled(dir, os.Rename(filepath.Join(work, "root"), s.root(one.ID))))
	})
}

// settled waits until the contents of a folder are on disk, if there was no error before: after a
// power cut, an image of the list has all of its files.
func settled(dir string, err error) error {
	if err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(wholefile.Settle(int(d.Fd())), d.Close())
}

func notKept(err error) error {
	if err == nil {
		return nil
	}
	return fault.Wrap(fault.StoreFailed, err, "the image cannot be kept: %v", err)
}

// Remove forgets an image and its files.
func (s *Images) Remove(name string) error { return s.added().Remove(name) }

func (s *Images) root(id string) string {
	return filepath.Join(s.Home.Dir, folder, strings.TrimPrefix(id, "sha256:"))
}

// sweep removes files that no image of the list has, and what an interrupted Add left.
func (s *Images) sweep(list []Image) error {
	s.mu.Lock()
	s.known = nil
	s.mu.Unlock()
	entries, err := os.ReadDir(filepath.Join(s.Home.Dir, folder))
	if err != nil {
		return notKept(err)
	}
	for _, e := range entries {
		at := filepath.Join(s.Home.Dir, folder, e.Name())
		used := slices.ContainsFunc(list, func(i Image) bool { return s.root(i.ID) == at })
		if info, err := e.Info(); used || err == nil && strings.HasPrefix(e.Name(), prefix) && time.Since(info.ModTime()) < time.Hour {
			continue // another process may be unpacking it
		}
		if err := image.Remove(at); err != nil {
			return notKept(err)
		}
	}
	return nil
}

// Image finds the files of an image for the commands of a workspace. The folders of the
// machine that hold the workspace, $REMIT_HOME and the person's home stay in view.
func (s *Images) Image(id, workspace string) (*sandbox.Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := id + " " + workspace
	if img := s.known[key]; img != nil {
		return img, nil
	}
	list, err := s.List()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(list, func(x Image) bool { return x.ID == id || x.Manifest == id })
	if i < 0 {
		return nil, fault.New(fault.SandboxMissing, "the policy's image %s is not on this machine", id).
			ForOperator("add it with `remit image add NAME FILE`; `remit image list` lists the present ones")
	}
	root, err := filepath.EvalSymlinks(s.root(list[i].ID))
	if err != nil {
		return nil, fault.Wrap(fault.SandboxMissing, err, "the files of the image %q are gone: %v", list[i].Name, err).
			ForOperator("add it again with `remit image add %s FILE --replace`", list[i].Name)
	}
	img, err := sandbox.NewImage(list[i].ID, root, list[i].Env, workspace, s.Home.Dir, s.Home.UserHome)
	if err != nil {
		return nil, fault.Wrap(fault.SandboxMissing, err, "the files of the image %q cannot be read: %v", list[i].Name, err)
	}
	if s.known == nil || len(s.known) > 64 {
		s.known = map[string]*sandbox.Image{}
	}
	s.known[key] = img
	return img, nil
}
