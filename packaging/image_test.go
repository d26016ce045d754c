package main

import (
	"archive/tar"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// unpack writes the folders and files of a tar file below dir.
func unpack(t *testing.T, r io.Reader, dir string, owners bool) {
	t.Helper()
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		must(t, err)
		at := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			must(t, os.MkdirAll(at, 0o755))
		} else {
			data, err := io.ReadAll(in)
			must(t, err)
			must(t, os.WriteFile(at, data, 0o644))
		}
		if owners {
			must(t, os.Chown(at, h.Uid, h.Gid))
		}
		must(t, os.Chmod(at, h.FileInfo().Mode()))
	}
}

func TestImage(t *testing.T) {
	f, err := os.Open(one(t, distFolder(t), "_oci.tar"))
	must(t, err)
	defer func() { _ = f.Close() }()
	dir := t.TempDir()
	unpack(t, f, dir, false)
	index, err := layout.ImageIndexFromPath(dir)
	must(t, err)
	must(t, validate.Index(index))
	top, err := index.IndexManifest()
	must(t, err)
	if len(top.Manifests) != 1 || top.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "remit:1.2.3" {
		t.Fatalf("got %+v", top.Manifests)
	}
	index, err = index.ImageIndex(top.Manifests[0].Digest)
	must(t, err)
	manifest, err := index.IndexManifest()
	must(t, err)
	if len(manifest.Manifests) != 1 || manifest.Manifests[0].Platform.Architecture != testProgram(t).Arch {
		t.Fatalf("got %+v", manifest.Manifests)
	}
	img, err := index.Image(manifest.Manifests[0].Digest)
	must(t, err)
	cfg, err := img.ConfigFile()
	must(t, err)
	c := cfg.Config
	if c.User != "65532:65532" || strings.Join(c.Entrypoint, " ") != "/usr/bin/remit" || c.Labels["org.opencontainers.image.version"] != "1.2.3" || c.Labels["org.opencontainers.image.licenses"] != "Apache-2.0" {
		t.Errorf("got %+v", c)
	}
	layers, err := img.Layers()
	must(t, err)
	if len(layers) != 1 {
		t.Errorf("%d layers", len(layers))
	}
	root := t.TempDir()
	unpack(t, mutate.Extract(img), root, os.Getuid() == 0)
	roots, err := os.ReadFile(filepath.Join(root, "etc/ssl/certs/ca-certificates.crt"))
	must(t, err)
	if n := strings.Count(string(roots), "BEGIN CERTIFICATE"); n < 100 || !x509.NewCertPool().AppendCertsFromPEM(roots) {
		t.Errorf("%d certificates", n)
	}
	runImage(t, root, c.Env)
}

// runImage starts the image's program as its user, with nothing but the image's files.
func runImage(t *testing.T, root string, env []string) {
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED: to start the program in the image's files takes root")
	}
	for at := root; at != "/" && at != os.TempDir(); at = filepath.Dir(at) {
		must(t, os.Chmod(at, 0o755))
	}
	for _, args := range [][]string{{"version", "--json"}, {"runs", "--json"}} { // the second one needs a home
		cmd := exec.Command("/usr/bin/remit", args...)
		cmd.Dir, cmd.Env = "/work", env
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: user, Gid: user}}
		out, err := cmd.CombinedOutput()
		if err != nil || !json.Valid(out) {
			t.Errorf("%s: %v\n%s", args, err, out)
		}
	}
}
