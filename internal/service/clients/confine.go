package clients

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/profile"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/walk"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/service/agentlogins"
	"github.com/remitrun/remit/internal/service/home"
)

// Confined is an agent that is ready to run as a whole in the sandbox.
type Confined struct {
	Agent   profile.Agent
	Policy  *policy.Policy    // the ready policy, for this person and machine
	Home    string            // its own home folder, free of links; it keeps the agent's state
	Env     map[string]string // variables for the agent; keys are placeholders
	Exposed []string          // keys and logins that the sandbox holds, by name
}

// Confine prepares an agent: it makes the agent's own home, with links to the person's settings and a
// file that stands for the login, and fills in the ready policy. Program is the first word of the command line. Without ready,
// another policy holds, and the agent has its login itself.
func (s *Clients) Confine(name, program, workspace string, ready bool) (Confined, error) {
	a, err := profile.FindAgent(name)
	if err != nil {
		return Confined{}, err
	}
	out := Confined{Agent: a, Home: filepath.Join(s.Home.Env("").State, "confined", name), Env: map[string]string{}}
	add := profile.Additions{Home: out.Home}
	for _, v := range slices.Concat(a.Variables, a.URLs) {
		if value, ok := s.Home.Lookup(v); ok {
			out.Env[v] = value
		}
	}
	for _, v := range a.URLs {
		if host := originOf(out.Env[v]); host != "" {
			add.Hosts = append(add.Hosts, host)
		}
	}
	keys, err := s.planKeys(&out, ready)
	if err != nil {
		return out, err
	}
	add.Keys, add.Known, out.Exposed = keys.entries, keys.login.File != "" || len(keys.entries) > 0 && agentlogins.File(name) == "", keys.exposed
	s.addTools(&add, workspace)
	s.findProgram(&add, program, workspace)
	if s.Exe != "" { // the hooks of the agent start it
		add.Read = append(add.Read, home.RealPath(s.Exe))
	}
	if s.Hook != "" {
		add.Read = append(add.Read, home.RealPath(s.Hook))
	}
	add.Read = slices.DeleteFunc(add.Read, func(p string) bool { return strings.ContainsAny(strings.TrimSuffix(p, "/**"), "*?[]{}\\") })
	if out.Policy, err = policy.Parse("ready policy "+name, []byte(a.With(add))); err != nil {
		return out, err
	}
	return out, s.furnish(out, keys)
}

// originOf is a URL's scheme, host and port, as an entry of a policy; "": it has none.
func originOf(text string) string {
	t, err := target.Parse("", text)
	if err != nil || t.Host == "" || t.Scheme != "https" && t.Scheme != "http" {
		return ""
	}
	return t.Scheme + "://" + t.HostPort()
}

// addTools adds the folders of version managers and package caches.
func (s *Clients) addTools(add *profile.Additions, workspace string) {
	person := s.Home.Env("").Home
	for _, f := range sandbox.ToolFolders(person, workspace, s.Home.SearchPath()) {
		if f.Root == "" || sandbox.Within(f.Dir, workspace) { // the ready policy already lists folders without a Root
			continue
		}
		add.Path = append(add.Path, f.Dir)
		add.Read = append(add.Read, f.Root+"/**")
	}
	for _, c := range sandbox.PackageCaches(workspace, person, s.Home.Lookup) {
		add.Read = append(add.Read, c.Dir+"/**")
	}
}

// findProgram adds the files that the agent's program needs outside the system's folders. Its own
// PATH tells a person where programs are; a folder of the workspace never counts.
func (s *Clients) findProgram(add *profile.Additions, program, workspace string) {
	inside := func(p string) bool { return sandbox.Within(p, workspace) }
	if strings.Contains(program, "/") {
		if !filepath.IsAbs(program) {
			program = filepath.Join(workspace, program)
		}
		add.Read = append(add.Read, installation(program)...)
		return
	}
	for _, dir := range s.Home.SearchPath() {
		at := filepath.Join(dir, program)
		st, err := os.Stat(at)
		if !filepath.IsAbs(dir) || inside(dir) || inside(home.RealPath(dir)) || err != nil || !st.Mode().IsRegular() || st.Mode()&0o111 == 0 {
			continue
		}
		if dir = filepath.Clean(dir); !slices.Contains(s.Home.Path, dir) {
			add.Path = append(add.Path, dir)
		}
		add.Read = append(add.Read, installation(at)...)
		return
	}
}

// installation gives patterns of the files that a program is made of, as package managers put
// them: a node_modules folder with all packages in it, a Python environment, or one file.
func installation(program string) []string {
	exe := home.RealPath(program)
	if before, _, ok := strings.Cut(exe, "/node_modules/"); ok {
		return []string{before + "/node_modules/**"}
	}
	out := []string{exe}
	env := filepath.Dir(filepath.Dir(exe))
	b, err := os.ReadFile(filepath.Join(env, "pyvenv.cfg"))
	if err != nil {
		return out
	}
	out = append(out, env+"/**")
	for line := range strings.Lines(string(b)) {
		key, dir, _ := strings.Cut(line, "=")
		if dir = strings.TrimSpace(dir); strings.TrimSpace(key) == "home" && filepath.IsAbs(dir) && filepath.Base(dir) == "bin" && !strings.HasPrefix(dir, "/usr/") {
			out = append(out, filepath.Dir(home.RealPath(dir))+"/**")
		}
	}
	return out
}

// furnish makes the agent's own home and the links in it. What the agent put in the place of a
// link to settings is replaced; a login that it made itself stays.
func (s *Clients) furnish(c Confined, keys keyPlan) error {
	fail := func(err error) error {
		return fault.Wrap(fault.Usage, err, "the home of the confined agent, %s, cannot be used: %v", c.Home, wholefile.Cause(err))
	}
	if err := os.MkdirAll(c.Home, 0o700); err != nil {
		return fail(err)
	}
	root, err := os.OpenRoot(c.Home) // the agent may have put links anywhere in it
	if err != nil {
		return fail(err)
	}
	defer root.Close()
	if err := keys.putLogin(root, c.Agent.Name); err != nil {
		return fail(err)
	}
	for _, name := range c.Agent.Links {
		if err := folderIn(root, filepath.Dir(name)); err != nil {
			return fail(err)
		}
		target := filepath.Join(s.Home.Env("").Home, name)
		if _, err := os.Lstat(target); err != nil || s.Home.UserHome == "" {
			continue
		}
		if err := link(root, name, target, slices.Contains(logins, name)); err != nil {
			return fail(err)
		}
	}
	return nil
}

// GuardFolders makes the folders of a project from which the agent, and the others that the person
// has, take settings, where there are none: the policy keeps a command from writing in them, but
// not from making them.
func (s *Clients) GuardFolders(c Confined, project string) error {
	found := s.Found()
	for _, a := range agents {
		if !slices.ContainsFunc(found, func(f Found) bool { return f.Name == a.name }) {
			continue
		}
		if err := s.guard(a, Installed{Folder: project}); err != nil {
			return err
		}
	}
	for _, dir := range c.Agent.Folders {
		if err := guard(project, dir); err != nil {
			return err
		}
	}
	return nil
}

// logins are those of the links that lead to a login.
var logins = []string{".gemini/oauth_creds.json", ".gemini/google_accounts.json", ".local/share/opencode/auth.json"}

// link makes a symbolic link in root, in place of a file there; with keep a regular file stays.
func link(root *os.Root, name, target string, keep bool) error {
	st, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return root.Symlink(target, name)
	case err != nil:
		return err
	case keep && st.Mode().IsRegular():
		return nil
	}
	if st.Mode()&fs.ModeSymlink != 0 {
		if to, err := root.Readlink(name); err != nil || to == target {
			return err
		}
	}
	if err := walk.RemoveIn(root, name); err != nil {
		return err
	}
	return root.Symlink(target, name)
}
