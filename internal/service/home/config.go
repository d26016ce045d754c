package home

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/homedir"
	"github.com/remitrun/remit/internal/service/settings"
)

// Config is everything that Remit takes from outside, read once. The zero
// value of a field means its default.
type Config struct {
	Dir      string   // $REMIT_HOME; default $XDG_DATA_HOME/remit, else ~/.local/share/remit
	Database string   // $REMIT_DB or the setting: the URL of the ledger's PostgreSQL database, or "secret:NAME"; "": a SQLite file in Dir
	UserHome string   // the person's home folder
	User     string   // the name of the person's account, for the record
	Path     []string // the trusted PATH
	Lookup   func(string) (string, bool)
	Version  string
	Secrets  map[string]string // environment variables: reports and logs do not show the values of those that look secret

	Settings settings.Settings // from $REMIT_HOME/config.yaml
}

// trustedPath is where commands are looked up, independent of the caller's PATH.
var trustedPath = []string{"/usr/local/bin", "/usr/bin", "/bin"}

// FromEnv reads the configuration from environment variables (NAME=value
// pairs) and the files they lead to.
func FromEnv(environ []string) (Config, error) {
	lookup := Lookup(environ)
	c := Config{User: account(), Lookup: lookup, Path: trustedPath, Secrets: variables(environ)}
	c.UserHome = homedir.Person(lookup)
	c.Database, _ = lookup("REMIT_DB")
	if c.Dir = homedir.Find(lookup); c.Dir == "" {
		return c, fault.New(fault.Usage, "no folder for the ledger is known").
			WithHint("set HOME or REMIT_HOME")
	}
	abs, err := filepath.Abs(c.Dir)
	if err != nil {
		return c, fault.Wrap(fault.Usage, err, "REMIT_HOME %q cannot be used", c.Dir)
	}
	c.Dir = abs
	return c, c.readSettings()
}

// SearchPath lists the folders of the person's PATH. No command is looked up there.
func (c Config) SearchPath() []string {
	path, _ := c.Lookup("PATH")
	return filepath.SplitList(path)
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

// RealPath resolves the links of a path as far as it exists, so that a policy
// protects the place itself and not only one way to it.
func RealPath(path string) string {
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
	file := filepath.Join(c.Dir, "config.yaml")
	src, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fault.Wrap(fault.Usage, err, "%s cannot be read", file)
	}
	if c.Settings, err = settings.Read(file, src); c.Database == "" {
		c.Database = c.Settings.Database.URL
	}
	return err
}
