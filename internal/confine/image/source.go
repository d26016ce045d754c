package image

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// maxDocument bounds a manifest, an index or a configuration, in bytes.
const maxDocument = 8 << 20

// source is the files of an image as they were given.
type source interface {
	open(name string) (io.ReadCloser, error)
	close()
}

// folderSource is the folder of an OCI layout.
type folderSource struct{ root *os.Root }

func (s folderSource) open(name string) (io.ReadCloser, error) { return s.root.Open(name) }
func (s folderSource) close()                                  { _ = s.root.Close() } // only read

// archiveSource is an uncompressed tar archive.
type archiveSource struct {
	file *os.File
	at   map[string]*io.SectionReader
}

func (s archiveSource) open(name string) (io.ReadCloser, error) {
	r := s.at[path.Clean(name)]
	if r == nil {
		return nil, fmt.Errorf("it lacks %q: %w", name, fs.ErrNotExist)
	}
	return io.NopCloser(io.NewSectionReader(r, 0, r.Size())), nil
}

func (s archiveSource) close() { _ = s.file.Close() } // only read

func openSource(from string) (source, error) {
	st, err := os.Stat(from)
	if err != nil {
		return nil, err
	}
	if st.IsDir() {
		root, err := os.OpenRoot(from)
		return folderSource{root}, err
	}
	f, err := os.Open(from)
	if err != nil {
		return nil, err
	}
	s := archiveSource{file: f, at: map[string]*io.SectionReader{}}
	if err := s.list(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// list finds where each file of the archive is. A link is what it leads to: that is how
// `docker save` once wrote a layer that two images have.
func (s archiveSource) list() error {
	links := map[string]string{}
	for r := tar.NewReader(s.file); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		name := path.Clean(h.Name)
		switch h.Typeflag {
		case tar.TypeReg:
			at, err := s.file.Seek(0, io.SeekCurrent)
			if err != nil {
				return err
			}
			s.at[name] = io.NewSectionReader(s.file, at, h.Size)
		case tar.TypeSymlink:
			links[name] = path.Join(path.Dir(name), h.Linkname)
		case tar.TypeLink:
			links[name] = path.Clean(h.Linkname)
		}
	}
	for name, to := range links {
		if r := s.at[to]; r != nil {
			s.at[name] = r
		}
	}
	return nil
}

// description has the data of an image that is known before its layers are read.
type description struct {
	id, manifest string
	layers       []string // files of the source
	config       config
}

// config is the part of an image's configuration that matters here.
type config struct {
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
	Config       struct {
		Env []string
	} `json:"config"`
	RootFS struct {
		DiffIDs []string `json:"diff_ids"` // digests of the layers, decompressed
	} `json:"rootfs"`
}

// describe reads the manifest and the configuration: of an OCI layout, or else as `docker
// save` has written them since its version 1.10.
func describe(src source) (description, error) {
	d, file, err := describeLayout(src)
	if errors.Is(err, fs.ErrNotExist) {
		d, file, err = describeSaved(src)
	}
	if err != nil {
		return d, err
	}
	b, err := read(src, file)
	if err != nil {
		return d, err
	}
	if got := digestOf(b); d.id == "" {
		d.id = got
	} else if d.id != got {
		return d, fmt.Errorf("its configuration has the digest %s, and its manifest says %s", got, d.id)
	}
	if err := json.Unmarshal(b, &d.config); err != nil {
		return d, fmt.Errorf("its configuration cannot be read: %w", err)
	}
	if n := len(d.config.RootFS.DiffIDs); n != len(d.layers) || n == 0 {
		return d, fmt.Errorf("it has %d layers, and its configuration names %d", len(d.layers), n)
	}
	return d, nil
}

// described is a descriptor of the OCI image specification.
type described struct {
	Digest string `json:"digest"`
}

// blob is the file of a descriptor.
func (d described) blob() (string, error) {
	hex, ok := strings.CutPrefix(d.Digest, "sha256:")
	if !ok || len(hex) != 64 || strings.Trim(hex, "0123456789abcdef") != "" {
		return "", fmt.Errorf("%q is not a digest of SHA-256", d.Digest)
	}
	return "blobs/sha256/" + hex, nil
}

func describeLayout(src source) (d description, config string, err error) {
	var index struct {
		Manifests []described `json:"manifests"`
	}
	b, err := read(src, "index.json")
	if err != nil {
		return d, "", err
	}
	if err := json.Unmarshal(b, &index); err != nil {
		return d, "", fmt.Errorf("its index cannot be read: %w", err)
	}
	if len(index.Manifests) != 1 {
		return d, "", fmt.Errorf("it holds %d images, and must hold one", len(index.Manifests))
	}
	file, err := index.Manifests[0].blob()
	if err != nil {
		return d, "", err
	}
	if b, err = read(src, file); err != nil {
		return d, "", errors.New(err.Error()) // a missing one does not make this a source of another kind
	}
	d.manifest = digestOf(b)
	if want := index.Manifests[0].Digest; d.manifest != want {
		return d, "", fmt.Errorf("its manifest has the digest %s, and the index says %s", d.manifest, want)
	}
	var m struct {
		Config described   `json:"config"`
		Layers []described `json:"layers"`
	}
	if err := json.Unmarshal(b, &m); err != nil || m.Config.Digest == "" {
		return d, "", errors.Join(errors.New("its manifest is not that of one image; save it for one platform"), err)
	}
	for _, l := range m.Layers {
		at, err := l.blob()
		if err != nil {
			return d, "", err
		}
		d.layers = append(d.layers, at)
	}
	d.id = m.Config.Digest
	config, err = m.Config.blob()
	return d, config, err
}

func describeSaved(src source) (d description, config string, err error) {
	var list []struct {
		Config string
		Layers []string
	}
	b, err := read(src, "manifest.json")
	if err != nil {
		return d, "", fmt.Errorf("it has neither an index.json nor a manifest.json: %w", err)
	}
	if err := json.Unmarshal(b, &list); err != nil {
		return d, "", fmt.Errorf("its manifest cannot be read: %w", err)
	}
	if len(list) != 1 {
		return d, "", fmt.Errorf("it holds %d images, and must hold one", len(list))
	}
	d.layers = list[0].Layers
	return d, list[0].Config, nil
}

func read(src source, name string) ([]byte, error) {
	f, err := src.open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	b, err := io.ReadAll(io.LimitReader(f, maxDocument+1))
	if err == nil && len(b) > maxDocument {
		err = fmt.Errorf("%q has more than %d bytes", name, maxDocument)
	}
	return b, err
}

// decompressed reads a layer with any compression. Its first bytes show the compression;
// the digest of the content proves in the end that this was right.
func decompressed(r io.Reader) (io.ReadCloser, error) {
	b := bufio.NewReader(r)
	head, err := b.Peek(4)
	switch {
	case err != nil:
		return nil, err
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return gzip.NewReader(b)
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	}
	return io.NopCloser(b), nil
}
