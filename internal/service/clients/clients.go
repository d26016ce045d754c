// Package clients installs Remit's hook in the configuration of other agents, shows whether it is
// still there, removes it again, and proves with a canary that it decides. It knows the files of
// the agents; package doors/hook knows the meaning of their events. Start at [Clients.Install].
package clients

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy/profile"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/repository"
	"github.com/remitrun/remit/internal/service/agentlogins"
	"github.com/remitrun/remit/internal/service/home"
)

// Clients are the agents of one person on this machine.
type Clients struct {
	Home *home.Home
	Root string // where managed configuration begins: /
	Exe  string // the path of this program; "": not known
	Hook string // the path of its small program for hooks; "": remit hook is the hook

	// Logins are those of the person with agents.
	Logins *agentlogins.Logins

	// Run runs a command line by /bin/sh in a folder, with an input.
	Run func(ctx context.Context, line, dir string, input []byte) (Ran, error)

	// Policy returns why no policy holds in a folder, so that everything is denied there; "": one holds.
	Policy func(folder string) string

	// Step is told each step of a change that was done. Nil: it is not told.
	Step func(what string)

	copies map[string]string // programs that do not last, and the copies that agents start
}

func (s *Clients) step(what string) {
	if s.Step != nil {
		s.Step(what)
	}
}

// Ran is how a command line ended.
type Ran struct {
	Out, Err string
	Status   int
}

// Request names an installation.
type Request struct {
	Agent   string
	Scope   Scope
	Folder  string // the workspace; of scope Project also where the hook holds
	Confine *bool  // nil: where the agent's hook can
	MCPOnly bool   // in place of the hook: deny the agent's own tools
}

// Installed records the entries written for one agent.
type Installed struct {
	Agent   string   `json:"agent"`
	Scope   Scope    `json:"scope"`
	File    string   `json:"file"`
	Folder  string   `json:"folder"`
	Command string   `json:"command,omitempty"` // "": the agent's own tools are denied
	Confine bool     `json:"confine"`
	Edits   []Edit   `json:"edits"`
	Before  *string  `json:"before"`         // the file's content; null: there was no file
	After   string   `json:"after"`          // the digest of the written file
	Made    []string `json:"made,omitempty"` // folders, relative to the file's root
	Guards  []string `json:"guards,omitempty"`
	Proof   *Proof   `json:"proof,omitempty"`
}

// Key is the agent and the file.
func (i Installed) Key() string { return i.Agent + " " + i.File }

const installedFile = "agents.json"

func (s *Clients) installed() home.Collection[Installed] {
	return home.Collection[Installed]{
		Home: s.Home, File: installedFile, Article: "an", One: "installed hook", Again: "install the hooks", Command: "remit agents",
	}
}

// Install writes the hook into the configuration of an agent, or the settings for MCPOnly. An
// earlier installation there is replaced. It reports whether the file changed. Git leaves a project's file alone.
func (s *Clients) Install(q Request) (Installed, bool, error) {
	a, err := find(q.Agent)
	if err != nil {
		return Installed{}, false, err
	}
	if err := s.copyPrograms(); err != nil {
		return Installed{}, false, err
	}
	out, err := s.planned(a, q)
	if err != nil {
		return out, false, err
	}
	at, err := a.place(q.Scope, s, q.Folder)
	if err != nil {
		return out, false, err
	}
	changed := false
	err = s.installed().Change("install", out.Key(), func(list []Installed) ([]Installed, error) {
		was, known := home.Entry(list, out.Key())
		if err := refuseSecondHook(a, out, list); err != nil {
			return nil, err
		}
		now, err := at.read()
		if err != nil {
			return nil, err
		}
		text, err := s.merge(&out, now, was, known)
		if err != nil {
			return nil, fault.Wrap(fault.CodeOf(err), err, "%s: %s", at.file(), fault.Message(err)).WithHint("mend the file, then run the command again")
		}
		changed = string(text) != string(now) || now == nil
		if err := s.intend(a, at, &out, changed, list); err != nil {
			return nil, err
		}
		if changed {
			if _, err := at.write(now, text, q.Scope.mode()); err != nil {
				return nil, errors.Join(err, s.Home.Write(installedFile, list))
			}
			s.step("wrote " + out.File)
		}
		if err := s.guard(a, out); err != nil {
			return nil, err
		}
		return home.With(list, out), nil
	}, nil)
	if err == nil && changed && q.Scope == Project {
		err = repository.Exclude(q.Folder, []string{out.File})
	}
	return out, changed, err
}

// intend lists the installation before anything of it is written. An agent's file that was written by a
// process that died is then known, and is mended or removed like any other.
func (s *Clients) intend(a agent, at place, out *Installed, changed bool, list []Installed) error {
	if changed {
		out.Made = append(out.Made, at.missing()...)
	}
	if out.Folder != "" {
		for _, name := range a.reads {
			for _, dir := range (place{out.Folder, name}).missing() {
				if !slices.Contains(out.Guards, dir) && (at.root != out.Folder || !slices.Contains(out.Made, dir)) {
					out.Guards = append(out.Guards, dir)
				}
			}
		}
	}
	err := s.Home.Write(installedFile, home.With(list, *out))
	s.step("listed " + out.File)
	return err
}

// refuseSecondHook refuses a second hook of one agent that would run beside the first: it would decide
// what the first put in the place of a command.
func refuseSecondHook(a agent, out Installed, list []Installed) error {
	for _, other := range list {
		if other.Agent != out.Agent || other.Scope == out.Scope || other.Command == "" || out.Command == "" {
			continue
		}
		flag := ""
		if other.Scope != Project {
			flag = " --" + string(other.Scope)
		}
		return fault.New(fault.Conflict, "%s has the hook in %s already; both would run", a.title, other.File).
			WithHint("keep that one, or take it out first: remit agents remove %s%s -w %s", a.name, flag, other.Folder)
	}
	return nil
}

// mode is that of a new file.
func (s Scope) mode() fs.FileMode {
	if s == User {
		return 0o600
	}
	return 0o644
}

// planned is what an installation will write.
func (s *Clients) planned(a agent, q Request) (Installed, error) {
	at, err := a.place(q.Scope, s, q.Folder)
	if err != nil {
		return Installed{}, err
	}
	out := Installed{Agent: a.name, Scope: q.Scope, File: at.file(), Folder: q.Folder}
	if q.MCPOnly {
		if a.name != "claude" {
			return out, fault.New(fault.Usage, "--mcp-only is for claude: %s has no list of denied tools", a.title)
		}
		out.Edits, err = normal(mcpOnlyEdits())
		return out, err
	}
	out.Confine = a.confines
	if q.Confine != nil {
		if *q.Confine && !a.confines {
			return out, fault.New(fault.Usage, "%s cannot be told to run a command in the sandbox", a.title).
				WithHint("leave --confine out, or run the agent itself with remit exec")
		}
		out.Confine = *q.Confine
	}
	if out.Command, err = s.command(q, out.Confine); err != nil {
		return out, err
	}
	out.Edits, err = normal(a.edits(q.Scope, out.Command))
	return out, err
}

// normal gives edits as they are read from JSON, so that they compare equal to it.
func normal(edits []Edit) ([]Edit, error) {
	b, err := json.Marshal(edits)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "a setting cannot be encoded")
	}
	var out []Edit
	if err := json.Unmarshal(b, &out); err != nil {
		return nil, fault.Wrap(fault.Internal, err, "a setting cannot be decoded")
	}
	return out, nil
}

// command is the hook's command line. It pins what variables of the agent's environment, or
// events with another folder, could change: this program, the ledger, and the workspace.
func (s *Clients) command(q Request, confine bool) (string, error) {
	if err := s.checkExe(q.Folder); err != nil {
		return "", err
	}
	words := []string{s.Exe, "hook"}
	if s.Hook != "" {
		words = []string{s.Hook}
	}
	words = append(words, q.Agent, "--home", s.Home.Dir)
	if confine {
		words = append(words, "--confine")
	}
	if q.Scope == Project {
		words = append(words, "-w", q.Folder)
	}
	for i, w := range words {
		if strings.Trim(w, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-") != "" {
			words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " "), nil
}

// HookBeside returns the path of remit-hook in the folder of the program remit; "": it is not there.
func HookBeside(exe string) string {
	at := filepath.Join(filepath.Dir(exe), "remit-hook")
	if st, err := os.Stat(at); exe == "" || err != nil || !st.Mode().IsRegular() || st.Mode()&0o111 == 0 {
		return ""
	}
	return at
}

// checkExe refuses a program that the agent, or another user, could replace.
func (s *Clients) checkExe(folder string) error {
	if s.Exe == "" {
		return fault.New(fault.Internal, "the path of this program is not known")
	}
	hint := "install it elsewhere, as in /usr/local/bin or ~/.local/bin, and run that one"
	if in, err := filepath.Rel(folder, s.Exe); err == nil && filepath.IsLocal(in) {
		return fault.New(fault.Usage, "this program is %s, in the workspace: the agent could replace it", s.Exe).WithHint("%s", hint)
	}
	for _, at := range []string{s.Exe, filepath.Dir(s.Exe), cmp.Or(s.Hook, s.Exe)} {
		st, err := os.Stat(at)
		if err != nil {
			return fault.Wrap(fault.Usage, err, "this program cannot be found at %s", s.Exe).WithHint("%s", hint)
		}
		if st.Mode().Perm()&0o002 != 0 {
			return fault.New(fault.Usage, "every user can write to %s, and so replace this program", at).WithHint("%s", hint)
		}
	}
	return nil
}

// merge gives the new content of a configuration file, and notes in out what undoes it.
func (s *Clients) merge(out *Installed, now []byte, was Installed, known bool) ([]byte, error) {
	if known {
		clean, err := was.restoreConfig(now)
		if err != nil {
			return nil, err
		}
		now, out.Made, out.Guards = clean, was.Made, was.Guards
	}
	if now != nil {
		text := string(now)
		out.Before = &text
	}
	doc, err := open(out.File, now)
	if err != nil {
		return nil, err
	}
	var own []Edit
	for _, e := range out.Edits {
		had, err := doc.apply(e)
		if err != nil {
			return nil, err
		}
		if !had {
			own = append(own, e)
		}
	}
	out.Edits = own
	text := doc.bytes()
	out.After = digest(text)
	return text, nil
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// restoreConfig gives a configuration as it would be if nothing had been installed; nil: no file. Where
// the file is unchanged since, the result is the former file, to the byte.
func (i Installed) restoreConfig(now []byte) ([]byte, error) {
	if now == nil {
		return nil, nil
	}
	if digest(now) == i.After {
		if i.Before == nil {
			return nil, nil
		}
		return []byte(*i.Before), nil
	}
	doc, err := open(i.File, now)
	if err != nil {
		return nil, err
	}
	var before []byte
	if i.Before != nil {
		before = []byte(*i.Before)
	}
	original, err := open(i.File, before)
	if err != nil {
		return nil, err
	}
	for _, e := range i.Edits {
		if !doc.remove(e, i.Command) && has(doc, e) {
			return nil, fault.New(fault.Conflict, "the lines of Remit were moved or changed").WithHint("remove the hook there by hand:\n%s", block(e))
		}
		doc.prune(e, original)
	}
	if v, _ := doc.decoded(); i.Before == nil && isEmpty(v) {
		return nil, nil
	}
	return doc.bytes(), nil
}

// guard makes the folders from which the agent takes settings of the project, where they are
// missing: the sandbox keeps folders of these names from being written, but cannot keep a
// command from making one.
func (s *Clients) guard(a agent, out Installed) error {
	if out.Folder == "" {
		return nil
	}
	for _, name := range a.reads {
		if err := guard(out.Folder, filepath.Dir(name)); err != nil {
			return err
		}
		s.step("made " + filepath.Dir(name))
	}
	return nil
}

// Remove removes the installed entries of an agent in a scope. It reports the file, and whether
// there was something to remove.
func (s *Clients) Remove(name string, scope Scope, folder string) (file string, was bool, err error) {
	a, err := find(name)
	if err != nil {
		return "", false, err
	}
	at, err := a.place(scope, s, folder)
	if err != nil {
		return "", false, err
	}
	key := Installed{Agent: name, File: at.file()}.Key()
	list, err := s.installed().List()
	if _, known := home.Entry(list, key); err != nil || !known {
		return at.file(), false, err
	}
	return at.file(), true, s.installed().Change("remove", key, func(list []Installed) ([]Installed, error) {
		one, known := home.Entry(list, key)
		if !known {
			return list, nil
		}
		now, err := at.read()
		if err != nil {
			return nil, err
		}
		text, err := one.restoreConfig(now)
		switch {
		case err != nil:
			return nil, fault.Wrap(fault.CodeOf(err), err, "%s: %s", at.file(), fault.Message(err)).WithHint("mend the file, then run the command again")
		case text == nil && now != nil:
			err = at.removeFile(one.Made)
		case string(text) != string(now):
			_, err = at.write(now, text, scope.mode())
		}
		s.step("removed " + one.File)
		if err == nil && one.Folder != "" {
			err = errors.Join(unguard(one.Folder, one.Guards), unguard(at.root, one.Made))
		}
		return home.Without(list, key), err
	}, nil)
}

// Found is an agent on this machine.
type Found struct {
	Name  string
	Title string
	At    string // the program, or the folder that shows that it was used
}

// Found lists the agents of this machine: their programs on the PATH, or their folders.
func (s *Clients) Found() []Found {
	var out []Found
	for _, a := range agents {
		if at := s.where(a, s.Home.SearchPath()); at != "" {
			out = append(out, Found{a.name, a.title, at})
		}
	}
	return out
}

// Unhooked lists the agents of this machine that have no hook, and can run in the sandbox as a whole.
func (s *Clients) Unhooked() []Found {
	var out []Found
	for _, name := range profile.AgentNames() {
		p, err := profile.FindAgent(name)
		if err != nil || slices.Contains(Names(), name) {
			continue
		}
		if at := s.where(agent{programs: p.Programs}, s.Home.SearchPath()); at != "" {
			out = append(out, Found{name, p.Title, at})
		}
	}
	return out
}

func (s *Clients) where(a agent, path []string) string {
	for _, program := range a.programs {
		for _, dir := range path {
			file := filepath.Join(dir, program)
			if st, err := os.Stat(file); filepath.IsAbs(dir) && err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
				return file
			}
		}
	}
	for _, name := range a.homes {
		dir := filepath.Join(s.Home.UserHome, name)
		if st, err := os.Stat(dir); s.Home.UserHome != "" && err == nil && st.IsDir() {
			return dir
		}
	}
	return ""
}
