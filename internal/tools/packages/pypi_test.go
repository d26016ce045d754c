package packages_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/tools/packages"
)

// reported is one package of a report of pip; each part can be replaced.
func reported(name, version, url, more string) string {
	return fmt.Sprintf(`{"download_info": {"url": %q, "archive_info": {"hashes": {"sha256": %q}}}, "is_direct": false%s, "metadata": {"name": %q, "version": %q}}`,
		url, strings.Repeat("a", 64), more, name, version)
}

func TestLockPipReport(t *testing.T) {
	origins := []string{"https://index.test", "https://files.test"}
	const at = "https://files.test/a/"
	good := reported("Mcp_Server.Time", "1.0.0", at+"mcp_server_time-1.0.0-py3-none-any.whl", "")
	tests := map[string]struct{ items, err string }{
		"a wheel":              {good, ""},
		"two":                  {good + "," + reported("b", "2.0", at+"b-2.0-py3-none-any.whl", ""), ""},
		"one twice":            {good + "," + reported("mcp-server-time", "2.0", at+"b-2.0-py3-none-any.whl", ""), "no valid name"},
		"a source":             {reported("b", "2.0", at+"b-2.0.tar.gz", ""), "not a wheel"},
		"another host":         {reported("b", "2.0", "https://evil.test/b-2.0-py3-none-any.whl", ""), "does not come from the registry"},
		"another host by user": {reported("b", "2.0", "https://files.test@evil.test/b-2.0-py3-none-any.whl", ""), "does not come from the registry"},
		"a file":               {reported("b", "2.0", "file:///etc/b-2.0-py3-none-any.whl", ""), "does not come from the registry"},
		"by URL":               {strings.Replace(reported("b", "2.0", at+"b-2.0-py3-none-any.whl", ""), "false", "true", 1), "does not come from the registry"},
		"a repository":         {`{"download_info": {"url": "https://files.test/x.git", "vcs_info": {"vcs": "git"}}, "metadata": {"name": "b", "version": "1"}}`, "does not come from the registry"},
		"no hash":              {strings.Replace(good, "sha256", "md5", 1), "no SHA-256 hash"},
		"a short hash":         {strings.Replace(good, "aaa", "", 1), "no SHA-256 hash"},
		"an option as a name":  {reported("--index-url=https://evil.test", "1", at+"b-2.0-py3-none-any.whl", ""), "no valid name"},
		"a line in a version":  {strings.Replace(reported("b", "1X", at+"b-2.0-py3-none-any.whl", ""), "1X", `1\nevil==1`, 1), "no valid version"},
		"a line in a file":     {reported("b", "1", at+"b%0Aevil.whl", ""), "not a wheel"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			src, err := packages.LockPipReport([]byte(`{"version": "1", "install": [`+tt.items+`]}`), origins)
			if tt.err != "" {
				if err == nil || !strings.Contains(fault.Message(err), tt.err) {
					t.Errorf("got %v, want an error with %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			l, err := packages.DecodeLock(packages.PyPI, src)
			if err != nil || !strings.Contains(l.Requirements(), "mcp-server-time==1.0.0 --hash=sha256:"+strings.Repeat("a", 64)+"\n") {
				t.Errorf("%+v, %v", l, err)
			}
		})
	}
	for _, bad := range []string{``, `[]`, `{}`, `{"version": "2", "install": []}`} {
		if _, err := packages.LockPipReport([]byte(bad), origins); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}

// Whatever a report says, each line of the requirements is one package with a hash: no option,
// no URL and no second package.
func FuzzLockPipReport(f *testing.F) {
	f.Add("name", "1.0", "https://files.test/name-1.0-py3-none-any.whl")
	f.Add("--pre", "1", "https://files.test/x.whl")
	f.Fuzz(func(t *testing.T, name, version, url string) {
		src, err := packages.LockPipReport([]byte(`{"version": "1", "install": [`+reported(name, version, url, "")+`]}`), []string{"https://files.test"})
		if err != nil {
			return
		}
		l, err := packages.DecodeLock(packages.PyPI, src)
		if err != nil {
			t.Fatal(err)
		}
		text := l.Requirements()
		if strings.Count(text, "\n") != 1 || strings.HasPrefix(text, "-") || strings.Count(text, " ") != 1 || strings.ContainsAny(text, "@;\\#/") {
			t.Fatalf("%q", text)
		}
	})
}

func TestReadEntryPoints(t *testing.T) {
	tests := map[string]struct{ src, want, got string }{
		"one":              {"[console_scripts]\nx = a.b:main\n", "", "a.b:main"},
		"like the package": {"[console_scripts]\nmcp_server = a:main\nother = a:other\n", "", "a:main"},
		"the named one":    {"[console_scripts]\nmcp-server = a:main\nother = a:other [extra]\n", "other", "a:other"},
		"other groups":     {"[gui_scripts]\nx = g:main\n[console_scripts]\ny = a:main\n[pytest11]\nz = p:q\n", "", "a:main"},
		"none":             {"[gui_scripts]\nx = g:main\n", "", ""},
		"not that one":     {"[console_scripts]\nx = a:main\n", "y", ""},
		"one of several":   {"[console_scripts]\nx = a:main\ny = a:main\n", "", ""},
		"code":             {"[console_scripts]\nx = a:main;evil()\n", "", ""},
		"a path":           {"[console_scripts]\nx = ../a:main\n", "", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := packages.ReadEntryPoints([]byte(tt.src), "Mcp-Server[x]", tt.want)
			if got != tt.got || (err == nil) != (tt.got != "") {
				t.Errorf("got %q, %v; want %q", got, err, tt.got)
			}
		})
	}
}

func TestPipAndUVConfigurations(t *testing.T) {
	var r packages.Registries
	r.ReadUVConfig([]byte("[[index]]\nurl = \"https://project.test/\"\nexplicit = true\n[[index]]\nurl = \"https://more.test/\"\n[[index]]\nurl = \"https://ann:hush@own.test/simple\"\ndefault = true\n"))
	r.ReadPipConf([]byte("# comment\n[global]\nindex-url = https://later.test/\nextra_index_url = https://a.test/\n    https://b.test/\ntrusted-host = a.test\ncert = /etc/ca.pem\n[download]\nindex-url = https://x.test/\n"))
	origins, err := r.Check()
	want := []string{"https://own.test", "https://more.test", "https://a.test", "https://b.test"}
	if err != nil || r.Main != "https://own.test/simple" || !r.Logins || r.CAFile != "/etc/ca.pem" || !reflect.DeepEqual(origins, want) {
		t.Errorf("got %+v, %v, %v", r, origins, err)
	}
	if strings.Contains(fmt.Sprintf("%+v", r), "hush") {
		t.Error("a credential was kept")
	}
}
