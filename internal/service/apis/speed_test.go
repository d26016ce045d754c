package apis_test

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/service/apis"
	"github.com/remitrun/remit/internal/service/home"
)

// BenchmarkGitHub is what a process pays that lists tools, or calls one, where
// GitHub's whole API was added and its tools were seen before.
func BenchmarkGitHub(b *testing.B) {
	root := os.Getenv("REMIT_TESTDATA")
	if root == "" {
		b.Skip("REMIT_TESTDATA is not set")
	}
	homeDir := b.TempDir()
	open := func() *app.App {
		cfg, err := home.FromEnv([]string{"REMIT_HOME=" + homeDir, "HOME=" + homeDir, "USER=ann"})
		if err != nil {
			b.Fatal(err)
		}
		a, err := app.New(cfg, app.Own{})
		if err != nil {
			b.Fatal(err)
		}
		return a
	}
	list := func(a *app.App) []catalog.Tool {
		got := a.Catalog().List(b.Context(), catalog.Filter{Source: "api", Use: true}).Tools
		if err := a.Close(); err != nil || len(got) < 1000 {
			b.Fatal(len(got), err)
		}
		return got
	}
	a := open()
	if _, err := a.APIs.Add(b.Context(), apis.Addition{Name: "github", From: unpacked(b, filepath.Join(root, "openapi", "github-api.github.com.json.gz"))}); err != nil {
		b.Fatal(err)
	}
	if err := a.Close(); err != nil {
		b.Fatal(err)
	}
	id := list(open())[0].Spec.ID
	b.Run("list", func(b *testing.B) {
		for b.Loop() {
			list(open())
		}
	})
	b.Run("lookup", func(b *testing.B) {
		for b.Loop() {
			lookUp(b, open(), id)
		}
	})
}

func lookUp(b *testing.B, a *app.App, id tool.ID) {
	b.Helper()
	if _, err := a.Catalog().Lookup(id); err != nil {
		b.Fatal(err)
	}
	if err := a.Close(); err != nil {
		b.Fatal(err)
	}
}

// unpacked writes a file without its compression, and gives its name.
func unpacked(b *testing.B, file string) string {
	b.Helper()
	in, err := os.Open(file)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = in.Close() }() // only read
	z, err := gzip.NewReader(in)
	if err != nil {
		b.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		b.Fatal(err)
	}
	out := filepath.Join(b.TempDir(), "document.json")
	if err := os.WriteFile(out, text, 0o600); err != nil {
		b.Fatal(err)
	}
	return out
}
