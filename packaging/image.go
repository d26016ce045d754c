package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is the image's user: the number that other images without a root user have.
const (
	user     = 65532
	userHome = "/home/remit"
)

// writeImage writes one OCI layout for all architectures, as a tar file.
func writeImage(to string, r Release, programs []Program, docs []File) error {
	dir, err := os.MkdirTemp("", "remit-image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is in the tar file
	all := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range programs {
		img, err := image(r, p, docs)
		if err != nil {
			return err
		}
		all = mutate.AppendManifests(all, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: p.Arch}}})
	}
	// Tools take the one image of a layout, and then the part for their architecture.
	index := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{Add: all, Descriptor: v1.Descriptor{
		Annotations: map[string]string{"org.opencontainers.image.ref.name": "remit:" + r.Version},
	}})
	if _, err := layout.Write(dir, index); err != nil {
		return err
	}
	return tarFolder(to, dir, r.Date)
}

// image is a single layer: the program, the certificates of public authorities, and a user
// with a home.
func image(r Release, p Program, docs []File) (v1.Image, error) {
	data, err := layer(r, p, docs)
	if err != nil {
		return nil, err
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if img, err = mutate.Append(img, mutate.Addendum{Layer: l, History: v1.History{Created: v1.Time{Time: r.Date}, CreatedBy: "remit make packages"}}); err != nil {
		return nil, err
	}
	cfg, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	cfg = cfg.DeepCopy()
	cfg.OS, cfg.Architecture, cfg.Created = "linux", p.Arch, v1.Time{Time: r.Date}
	cfg.Config = v1.Config{
		User: "65532:65532", WorkingDir: "/work", Entrypoint: []string{"/usr/bin/remit"}, Cmd: []string{"help"},
		Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + userHome},
		Labels: map[string]string{
			"org.opencontainers.image.title":       "remit",
			"org.opencontainers.image.description": summary,
			"org.opencontainers.image.version":     r.Version,
			"org.opencontainers.image.created":     r.Date.Format(time.RFC3339),
			"org.opencontainers.image.licenses":    "Apache-2.0",
		},
	}
	if r.Commit != "" {
		cfg.Config.Labels["org.opencontainers.image.revision"] = r.Commit
	}
	return mutate.ConfigFile(img, cfg)
}

// layer is the tar file of the image's files.
func layer(r Release, p Program, docs []File) ([]byte, error) {
	roots, err := certificates()
	if err != nil {
		return nil, err
	}
	files := []File{
		{Path: "/usr/bin/remit", Mode: 0o755, Data: p.Data},
		{Path: "/usr/bin/remit-hook", Mode: 0o755, Data: p.Hook},
		{Path: "/etc/passwd", Mode: 0o644, Data: []byte("root:x:0:0:root:/root:/sbin/nologin\nremit:x:65532:65532:remit:" + userHome + ":/sbin/nologin\n")},
		{Path: "/etc/group", Mode: 0o644, Data: []byte("root:x:0:\nremit:x:65532:\n")},
		{Path: "/etc/ssl/certs/ca-certificates.crt", Mode: 0o644, Data: roots},
	}
	for _, f := range docs {
		if isLicence(f) {
			files = append(files, f)
		}
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range folders(files) {
		h.ModTime, h.Format = r.Date, tar.FormatPAX
		if err := w.WriteHeader(&h); err != nil {
			return nil, err
		}
	}
	err = errors.Join(addFiles(w, "", files, r.Date), w.Close())
	return b.Bytes(), err
}

// addFiles writes files into a tar file, below a folder of it.
func addFiles(w *tar.Writer, folder string, files []File, at time.Time) error {
	for _, f := range files {
		h := tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(folder+f.Path, "/"), Mode: int64(f.Mode), Size: int64(len(f.Data)), ModTime: at, Format: tar.FormatPAX}
		if err := w.WriteHeader(&h); err != nil {
			return err
		}
		if _, err := w.Write(f.Data); err != nil {
			return err
		}
	}
	return nil
}

// folders are the folders of files, and three that the user needs.
func folders(files []File) []tar.Header {
	modes := map[string]tar.Header{
		"tmp/":                                  {Mode: 0o1777},
		"work/":                                 {Mode: 0o755, Uid: user, Gid: user},
		strings.TrimPrefix(userHome, "/") + "/": {Mode: 0o700, Uid: user, Gid: user},
		"home/":                                 {Mode: 0o755},
	}
	for _, f := range files {
		for at := path.Dir(f.Path); at != "/"; at = path.Dir(at) {
			modes[strings.TrimPrefix(at, "/")+"/"] = tar.Header{Mode: 0o755}
		}
	}
	var out []tar.Header
	for name, h := range modes {
		h.Typeflag, h.Name = tar.TypeDir, name
		out = append(out, h)
	}
	slices.SortFunc(out, func(a, b tar.Header) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// certificates are Mozilla's roots as Go's own module pins them. A root with a constraint
// that a file of certificates cannot express is left out.
func certificates() ([]byte, error) {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// tarFolder writes the files of a folder, sorted and with one date.
func tarFolder(to, dir string, at time.Time) (err error) {
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	w := tar.NewWriter(f)
	defer func() { err = errors.Join(err, w.Close(), f.Close()) }()
	return filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		name, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		h := tar.Header{Typeflag: tar.TypeDir, Name: filepath.ToSlash(name) + "/", Mode: 0o755, ModTime: at, Format: tar.FormatPAX}
		if d.IsDir() {
			return w.WriteHeader(&h)
		}
		data, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		h.Typeflag, h.Name, h.Mode, h.Size = tar.TypeReg, filepath.ToSlash(name), 0o644, int64(len(data))
		if err := w.WriteHeader(&h); err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
}
