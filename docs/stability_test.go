package docs_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/cli"
)

// TestOldRecordsAreRead reads what the first landing wrote: a ledger with a run and a session, a
// policy, a plan, a frozen plan and a token. stability.md promises it.
func TestOldRecordsAreRead(t *testing.T) {
	dir := unpack(t, "testdata/ledger-1.tar.gz")
	t.Chdir(filepath.Join(dir, "work"))
	environ := []string{"REMIT_HOME=" + filepath.Join(dir, "home"), "HOME=" + dir, "USER=tester"}
	call := func(words ...string) (int, string, string) {
		var out, errs bytes.Buffer
		status := cli.Main(context.Background(), words, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}, environ, "test")
		return status, out.String(), errs.String()
	}
	remit := func(want int, words ...string) string {
		t.Helper()
		status, out, errs := call(words...)
		if status != want {
			t.Errorf("remit %s: exit status %d, want %d\n%s%s", strings.Join(words, " "), status, want, out, errs)
		}
		return out
	}
	first := func(list string, key string) string {
		t.Helper()
		var page struct {
			Items []map[string]any `json:"items"`
		}
		if err := json.Unmarshal([]byte(list), &page); err != nil || len(page.Items) == 0 {
			t.Fatalf("%v: %s", err, list)
		}
		id, _ := page.Items[len(page.Items)-1][key].(string)
		return id
	}
	run := first(remit(0, "runs", "--json"), "run_id")
	session := first(remit(0, "sessions", "--json"), "id")
	for _, check := range []struct {
		words string
		want  string // a part of the output
	}{
		{"verify", "was not altered"},
		{"report " + run, "met     file out/hello.txt"},
		{"show " + run, "fs.write"},
		{"replay " + run, run[:8]},
		{"sessions " + session, "It says hello."},
		{"replay " + session, "identical"},
		{"policy check policy.yaml", ""},
		{"plan check plan.frozen.json plan.yaml", "fs.write"},
	} {
		if out := remit(0, strings.Fields(check.words)...); !strings.Contains(out, check.want) {
			t.Errorf("remit %s: %q is missing in\n%s", check.words, check.want, out)
		}
	}
	// The token is read. Its grant has expired since.
	if _, out, errs := call("grant", "inspect", "@token"); !strings.Contains(out, "holder") || strings.Contains(errs, "E6001") || strings.Contains(errs, "E6010") {
		t.Errorf("remit grant inspect: %s%s", out, errs)
	}
	remit(3, "run", "plan.yaml", "-p", "policy.yaml") // one step is denied, as it was
	remit(0, "verify")
}

// unpack unpacks an archive of plain files and folders.
func unpack(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil || !filepath.IsLocal(h.Name) {
			t.Fatalf("%v: %v", h, err)
		}
		at := filepath.Join(dir, h.Name)
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(at, 0o700)
		} else {
			var b []byte
			if b, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(at, b, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
