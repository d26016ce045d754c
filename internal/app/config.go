package app

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/service/settings"
)

// Config is everything that Remit takes from outside, read once. The zero
// value of a field means its default.
type Config struct {
	Home     string   // $REMIT_HOME; default $XDG_DATA_HOME/remit, else ~/.local/share/remit
	UserHome string   // the person's home folder
	User     string   // the person's name, for the record
	Path     []string // the trusted PATH
	Lookup   func(string) (string, bool)
	Version  string
	Secrets  map[string]string // environment variables: reports and logs do not show the values of those that look secret

	Settings settings.Settings // from $REMIT_HOME/config.yaml
}

// trustedPath is where commands are looked up, whatever the caller's PATH says.
var trustedPath = []string{"/usr/local/bin", "/usr/bin", "/bin"}

// FromEnv reads the configuration from environment variables (NAME=value
// pairs) and the files they lead to.
func FromEnv(environ []string) (Config, error) {
	lookup := Lookup(environ)
	c := Config{Lookup: lookup, Path: trustedPath, Secrets: variables(environ)}
	if c.UserHome, _ = lookup("HOME"); !filepath.IsAbs(c.UserHome) {
		c.UserHome = ""
	}
	c.User, _ = lookup("USER")
	if c.User == "" {
		c.User = "local"
	}
	if h, _ := lookup("REMIT_HOME"); h != "" {
		c.Home = h
	} else if x, _ := lookup("XDG_DATA_HOME"); x != "" && filepath.IsAbs(x) {
		c.Home = filepath.Join(x, "remit")
	} else if c.UserHome != "" {
		c.Home = filepath.Join(c.UserHome, ".local", "share", "remit")
	} else {
		return c, fault.New(fault.Usage, "there is no place to keep the ledger").
			WithHint("set HOME or REMIT_HOME")
	}
	abs, err := filepath.Abs(c.Home)
	if err != nil {
		return c, fault.Wrap(fault.Usage, err, "REMIT_HOME %q cannot be used", c.Home)
	}
	c.Home = abs
	return c, c.readSettings()
}

// variables reads NAME=value pairs; the last of a name counts.
func variables(environ []string) map[string]string {
	m := make(map[string]string, len(environ))
	for _, pair := range environ {
		if name, value, ok := strings.Cut(pair, "="); ok {
			m[name] = value
		}
	}
	return m
}

// Lookup finds a variable among NAME=value pairs.
func Lookup(environ []string) func(string) (string, bool) {
	m := variables(environ)
	return func(name string) (string, bool) {
		v, ok := m[name]
		return v, ok
	}
}

// realPath resolves the links of a path as far as it exists, so that a policy
// protects the place itself and not only one way to it.
func realPath(path string) string {
	rest := ""
	for up := path; up != ""; up = filepath.Dir(up) {
		if r, err := filepath.EvalSymlinks(up); err == nil {
			return filepath.Join(r, rest)
		}
		if up == filepath.Dir(up) {
			break
		}
		rest = filepath.Join(filepath.Base(up), rest)
	}
	return path
}

func (c *Config) readSettings() error {
	c.Settings = settings.Default()
	file := filepath.Join(c.Home, "config.yaml")
	src, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fault.Wrap(fault.Usage, err, "%s cannot be read", file)
	}
	c.Settings, err = settings.Read(file, src)
	return err
}

// Workspace makes dir (or the current folder) absolute, with links resolved.
func Workspace(dir string) (string, error) {
	if dir == "" {
		dir = "."
	}
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return "", fault.Wrap(fault.Usage, err, "the workspace %q cannot be used: %v", dir, wholefile.Cause(err)).
			WithHint("name an existing folder with -w")
	}
	if !utf8.ValidString(abs) {
		return "", fault.New(fault.Usage, "the workspace's path %q is not UTF-8", abs).WithHint("give the folder another name")
	}
	st, err := os.Stat(abs)
	if err != nil || !st.IsDir() {
		return "", fault.New(fault.Usage, "the workspace %q is no folder", dir).WithHint("name a folder with -w")
	}
	return abs, nil
}
