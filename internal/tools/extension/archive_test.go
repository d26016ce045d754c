package extension_test

import (
	"archive/zip"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/tools/extension"
)

// zipped makes an archive whose entries are as edit leaves their headers.
func zipped(t testing.TB, edit func(*zip.FileHeader), files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		h := &zip.FileHeader{Name: files[i], Method: zip.Deflate}
		h.SetMode(0o644)
		if strings.HasSuffix(files[i], "/") {
			h.SetMode(fs.ModeDir | 0o755)
		}
		if edit != nil {
			edit(h)
		}
		f, err := w.CreateHeader(h)
		if err == nil && !strings.HasSuffix(files[i], "/") {
			_, err = f.Write([]byte(files[i+1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestArchives(t *testing.T) {
	for _, folder := range []string{"", "hello-1.2.0/"} {
		files, err := extension.Unzip(zipped(t, nil, folder+"manifest.json", manifest, folder+"commands/", "", folder+"commands/commands.yaml", commands))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := extension.Read("x", files); err != nil {
			t.Fatal(err)
		}
	}
	mode := func(m fs.FileMode) func(*zip.FileHeader) { return func(h *zip.FileHeader) { h.SetMode(m) } }
	bomb := strings.Repeat("\x00", 20<<20)
	for name, c := range map[string]struct {
		archive []byte
		want    string
	}{
		"a link":                    {zipped(t, mode(fs.ModeSymlink|0o777), "docs/USAGE.md", "/etc/passwd"), `"docs/USAGE.md": it is a link`},
		"a device":                  {zipped(t, mode(fs.ModeDevice|0o666), "docs/d", ""), `"docs/d": it is neither`},
		"a FIFO":                    {zipped(t, mode(fs.ModeNamedPipe|0o666), "docs/d", ""), `"docs/d": it is neither`},
		"setuid":                    {zipped(t, mode(fs.ModeSetuid|0o755), "bin/su", "x"), `"bin/su": its mode`},
		"a name twice":              {zipped(t, nil, "docs/a", "1", "docs/a", "2"), `"docs/a": it is there twice`},
		"names that differ by case": {zipped(t, nil, "docs/a", "1", "docs/A", "2"), `"docs/A": some systems take it for "docs/a"`},
		"folders that do":           {zipped(t, nil, "docs/a/x", "1", "docs/A/y", "2"), `"docs/A": some systems take it for "docs/a"`},
		"names by normalisation":    {zipped(t, nil, "docs/\u00e9", "1", "docs/e\u0301", "2"), `some systems take it for`},
		"a file that is a folder":   {zipped(t, nil, "docs/a", "1", "docs/a/b", "2"), `"docs/a": it is there twice`},
		"a folder that is a file":   {zipped(t, nil, "docs/a/b", "1", "docs/a", "2"), `"docs/a": it is there twice`},
		"a bomb":                    {zipped(t, nil, "docs/a", bomb), `"docs/a": the archive unpacks to more than 100 times its size`},
		"too large a file":          {zipped(t, nil, "docs/a", strings.Repeat("\x00", extension.MaxFile+1)), `"docs/a": it has more than`},
		"a name in no encoding":     {zipped(t, func(h *zip.FileHeader) { h.NonUTF8 = true }, "docs/\xff\xfe", "x"), `its name is not said to be UTF-8`},
		"an unknown method":         {patched(zipped(t, func(h *zip.FileHeader) { h.Method = zip.Store }, "docs/a", "x"), 99), `packed in a way`},
		"no archive":                {[]byte("PK not really"), "not a valid zip archive"},
		"nothing at all":            {nil, "not a valid zip archive"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := extension.Unzip(c.archive)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %s", err, c.want)
			}
		})
	}
	var many []string
	for i := range extension.MaxFiles + 1 {
		many = append(many, fmt.Sprintf("docs/%d", i), "")
	}
	if _, err := extension.Unzip(zipped(t, nil, many...)); fault.CodeOf(err) != fault.ExtensionUnsafe {
		t.Errorf("%v", err)
	}
}

// patched gives the entry of an archive another method, which no writer does.
func patched(b []byte, method byte) []byte {
	b = bytes.Clone(b)
	b[8] = method
	b[bytes.Index(b, []byte("PK\x01\x02"))+10] = method
	return b
}

func TestNamesThatLeadElsewhere(t *testing.T) {
	bad := []string{"", "/", "/etc/passwd", "..", "../x", "docs/..", "docs/../../x", "docs/./x", "docs//x", "./docs/x", "docs/x/", "docs\\x", "docs/a:b", "docs/a\x00", "docs/a\nb",
		"docs/a\u202eb", "docs/\xff", "docs/x.", "docs/x ", "docs/ x", "docs/" + strings.Repeat("a", 101), "docs/" + strings.Repeat("a/", 200) + "x", "C:\\x", "work/x", ".git/config", "docs"}
	for _, name := range bad {
		if extension.CheckName(name) == "" {
			t.Errorf("%q is taken", name)
		}
	}
	for _, name := range []string{"manifest.json", "docs/USAGE.md", "bin/a-b_c.2", "commands/commands.yaml", "LICENSE", "docs/größe.md", "docs/.x"} {
		if why := extension.CheckName(name); why != "" {
			t.Errorf("%q: %s", name, why)
		}
	}
}

// Cases of others: names that their archives or path functions must refuse.
func TestNamesOfOthersThatAreInsecure(t *testing.T) {
	dir := os.Getenv("REMIT_TESTDATA")
	if dir == "" {
		t.Skip("REMIT_TESTDATA is not set: it names the folder with cases of others")
	}
	b, err := os.ReadFile(filepath.Join(dir, "paths", "archive_and_islocal.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases struct {
		Local []struct {
			Path  string
			Local bool
		} `json:"is_local"`
		Zip  []string `json:"insecure_zip_names"`
		Tar  []string `json:"insecure_tar_names"`
		Slip []string `json:"zip_slip_names"`
	}
	if err := json.Unmarshal(b, &cases); err != nil || len(cases.Local) == 0 {
		t.Fatal(err)
	}
	bad := slices.Concat(cases.Zip, cases.Tar, cases.Slip)
	for _, c := range cases.Local {
		if !c.Local {
			bad = append(bad, c.Path)
		}
	}
	for _, name := range bad {
		for _, at := range []string{"", "docs/"} {
			if extension.CheckName(at+name) == "" {
				t.Errorf("%q is taken", at+name)
			}
		}
		entry, target, link := strings.Cut(name, " -> ")
		edit := func(h *zip.FileHeader) {
			if link {
				h.Name = "docs/x"
				h.SetMode(fs.ModeSymlink | 0o777)
			}
		}
		if _, err := extension.Unzip(zipped(t, edit, "manifest.json", manifest, entry, target)); err == nil {
			t.Errorf("an archive with %q was unpacked", name)
		}
	}
}

// Nothing that is taken for a name leads out of a folder or is another name of the
// same file.
func FuzzCheckName(f *testing.F) {
	for _, s := range []string{"docs/a", "../x", "docs/..", "/a", "docs\\a", "docs/a/../b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if extension.CheckName(name) != "" {
			return
		}
		if !filepath.IsLocal(name) || filepath.ToSlash(filepath.Clean(name)) != name || !fs.ValidPath(name) {
			t.Fatalf("%q is taken", name)
		}
	})
}

// An archive that was unpacked has only names that can be had, no more than the
// bounds, and unpacks to itself again.
func FuzzUnzip(f *testing.F) {
	f.Add(zipped(f, nil, "manifest.json", manifest, "commands/commands.yaml", commands))
	f.Add(zipped(f, nil, "x/manifest.json", manifest, "x/docs/", "", "x/docs/USAGE.md", "x"))
	f.Fuzz(func(t *testing.T, b []byte) {
		files, err := extension.Unzip(b)
		if err != nil {
			return
		}
		var again []string
		total := 0
		for _, file := range files {
			if why := extension.CheckName(file.Name); why != "" {
				t.Fatalf("%q: %s", file.Name, why)
			}
			total += len(file.Data)
			again = append(again, file.Name, string(file.Data))
		}
		if total > extension.MaxTotal || len(files) > extension.MaxFiles {
			t.Fatalf("%d files, %d bytes", len(files), total)
		}
		back, err := extension.Unzip(zipped(t, nil, again...))
		if err != nil && total < 1<<20 {
			t.Fatal(err)
		}
		if err == nil && len(back) != len(files) {
			t.Fatalf("%d files, then %d", len(files), len(back))
		}
	})
}

func TestSignaturesAndChecksums(t *testing.T) {
	pub, priv, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(commands))
	signed := strings.Replace(manifest, `["exec"]`, fmt.Sprintf(`["exec"], "checksums": {"commands/commands.yaml": %q}, "signer": "ed25519:%s"`,
		hex.EncodeToString(sum[:]), base64.StdEncoding.EncodeToString(pub)), 1)
	sig := base64.StdEncoding.EncodeToString(ed25519.Sign(priv, []byte(signed)))
	if p, err := extension.Read("x", ext("manifest.json", signed, "manifest.json.sig", sig+"\n")); err != nil || p.Manifest.SignerText() == "" {
		t.Fatal(err)
	}
	for name, files := range map[string][]string{
		"no signature":       {"manifest.json", signed},
		"another manifest":   {"manifest.json", strings.Replace(signed, "Says hello.", "Says hullo.", 1), "manifest.json.sig", sig},
		"another file":       {"manifest.json", signed, "manifest.json.sig", sig, "commands/commands.yaml", commands + "\n"},
		"a file more":        {"manifest.json", signed, "manifest.json.sig", sig, "bin/hello", "x"},
		"a broken signature": {"manifest.json", signed, "manifest.json.sig", "AAAA"},
	} {
		if _, err := extension.Read("x", ext(files...)); fault.CodeOf(err) != fault.ExtensionChecksum {
			t.Errorf("%s: %v", name, err)
		}
	}
}
