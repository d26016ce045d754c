package servers

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/tools/packages"
)

// OwnRegistries are the package registries of one package manager, by the person's own
// settings or the package manager's default.
type OwnRegistries struct {
	Manager string   `json:"manager"`           // npm, pip, go, cargo
	Entries []string `json:"entries"`           // of a list of network, in YAML
	Origins []string `json:"origins"`           // for people
	Problem string   `json:"problem,omitempty"` // why they are not known; "" if they are
}

// markers are the files by which a project shows which package manager it uses.
var markers = map[string][]string{
	"npm": {"package.json"}, "go": {"go.mod", "go.work"}, "cargo": {"Cargo.toml"},
	"pip": {"pyproject.toml", "requirements.txt", "setup.py", "setup.cfg", "Pipfile", "uv.lock", "poetry.lock"},
}

// Managers names the package managers whose registries a policy gets: all or none if that was asked for, or else those that a
// project uses, by the files in its folder, if the policy is a new one.
func Managers(asked *bool, isNew bool, workspace string) []string {
	if asked != nil && *asked {
		return AllManagers
	}
	var out []string
	for _, name := range AllManagers {
		if asked == nil && isNew && slices.ContainsFunc(markers[name], func(file string) bool {
			_, err := os.Lstat(filepath.Join(workspace, file))
			return err == nil
		}) {
			out = append(out, name)
		}
	}
	return out
}

// AllManagers are the package managers that [Servers.OwnRegistries] knows.
var AllManagers = []string{"npm", "pip", "go", "cargo"}

// OwnRegistries reads where the installed ones of these package managers get packages from. A project's own
// settings are not read, as others can write to them. Defaults are what the package managers
// say themselves, confined and without network.
func (m *Servers) OwnRegistries(ctx context.Context, managers []string) []OwnRegistries {
	var out []OwnRegistries
	for _, one := range []struct {
		name, program string
		read          func(context.Context) (origins []string, err error)
	}{
		{"npm", "npm", m.npmOrigins}, {"pip", "pip3", m.pipOrigins}, {"go", "go", m.goOrigins}, {"cargo", "cargo", m.cargoOrigins},
	} {
		if !slices.Contains(managers, one.name) || !m.installed(one.program) {
			continue
		}
		r := OwnRegistries{Manager: one.name, Entries: []string{}, Origins: []string{}}
		origins, err := one.read(ctx)
		if err != nil {
			r.Problem = fault.Message(err)
		}
		for _, o := range origins {
			if !strings.HasPrefix(o, "https://") {
				r.Problem = o + " is not encrypted, so it is left out"
				continue
			}
			r.Origins = append(r.Origins, o)
			r.Entries = append(r.Entries, readingEntry(ctx, o))
		}
		out = append(out, r)
	}
	return out
}

// readingEntry is an entry for reading from a registry, without the right to publish. It
// names the private addresses that the host has now.
func readingEntry(ctx context.Context, origin string) string {
	text := fmt.Sprintf("url: %q, inspect: true", "GET,HEAD "+origin)
	if entry, err := (&registries{}).entry(ctx, origin); err == nil { // else offline
		if _, addrs, ok := strings.Cut(strings.TrimSuffix(entry, "}"), "addresses: "); ok {
			text += ", addresses: " + addrs
		}
	}
	return "{" + text + "}"
}

// installed reports whether the person has a program, in the folders of the system or in
// those of Go and Rust.
func (m *Servers) installed(program string) bool {
	dirs := []string{"/usr/local/bin", "/usr/bin", "/bin", "/usr/local/go/bin", filepath.Join(m.Home.UserHome, ".cargo", "bin")}
	return slices.ContainsFunc(dirs, func(dir string) bool {
		st, err := os.Stat(filepath.Join(dir, program))
		return err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0
	})
}

func (m *Servers) npmOrigins(ctx context.Context) ([]string, error) {
	r, err := m.npmSettings(ctx, "registries")
	if err != nil {
		return nil, err
	}
	return r.Check()
}

func (m *Servers) pipOrigins(ctx context.Context) ([]string, error) {
	r, err := m.pipSettings(ctx, "registries")
	if err != nil {
		return nil, err
	}
	origins, err := r.Check()
	return append(origins, r.files...), err
}

// goOrigins reads GOPROXY and GOSUMDB from the person's variables, from the file of go env -w, or
// else takes Go's defaults.
func (m *Servers) goOrigins(ctx context.Context) ([]string, error) {
	config := cmp.Or(m.variable("XDG_CONFIG_HOME"), filepath.Join(m.Home.UserHome, ".config"))
	src, _ := ownFile(cmp.Or(m.variable("GOENV"), filepath.Join(config, "go", "env")))
	values := map[string]string{}
	for _, name := range []string{"GOPROXY", "GOSUMDB"} {
		values[name] = cmp.Or(m.variable(name), packages.ReadGoEnv(src, name))
		if values[name] != "" {
			continue
		}
		answer, err := m.askPackages(ctx, "registries", "go is asked for its default", []string{"go", "env", name}, "/usr/local/go/bin")
		if err != nil {
			return nil, err
		}
		values[name] = strings.TrimSpace(answer)
	}
	return packages.GoOrigins(values["GOPROXY"], values["GOSUMDB"])
}

// cargoOrigins reads the person's config.toml. Cargo does not report its default.
func (m *Servers) cargoOrigins(context.Context) ([]string, error) {
	dir := cmp.Or(m.variable("CARGO_HOME"), filepath.Join(m.Home.UserHome, ".cargo"))
	for _, name := range []string{"config.toml", "config"} {
		if src, ok := ownFile(filepath.Join(dir, name)); ok {
			origins, err := packages.CargoOrigins(src)
			if len(origins) > 0 || err != nil {
				return origins, err
			}
		}
	}
	return nil, fault.New(fault.Usage, "cargo does not say which registry it uses by default; name it in %s, or add its entry yourself", filepath.Join(dir, "config.toml"))
}
