package tool

import (
	"net/netip"
	"strconv"
	"strings"
)

// ActionKind says which section of a policy decides an action.
type ActionKind uint8

// The kinds of actions. The zero kind is not valid and is always denied.
const (
	NoAction ActionKind = iota
	FileRead
	FileWrite
	Network
	Command
	Model
	API
	FileDelete // where a policy does not part it from writing, files.write decides it
	TableRead
	TableWrite
)

var kindNames = [...]string{"none", "files.read", "files.write", "network", "commands", "models", "api", "files.delete", "databases.read", "databases.write"}

func (k ActionKind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "kind(" + strconv.Itoa(int(k)) + ")"
}

// Action is one access that a call needs, in policy terms. A tool derives it from the
// arguments with empty facts (Real, Addrs, Exe). The runner fills in the facts
// between the two steps of a decision, and the handle again before it acts.
type Action struct {
	Kind    ActionKind
	Unknown string // why the action is unknown; not empty means denied

	// Files: Path is absolute and lexically clean, as asked. Real is Path with
	// every symbolic link resolved as far as the path exists (a fact).
	Path string
	Real string
	// Labels are the labels of data that were recorded for the file, by its real path or its
	// content; Below the labels of files in it, if it is a folder (facts; sorted).
	Labels []string `json:",omitempty"`
	Below  []string `json:",omitempty"`
	// Lead is Real, or a folder above it, if settings of Git name that for programs or further settings, or if it makes
	// or steers a repository that has no .git (a fact).
	Lead string `json:",omitempty"`
	// Entry: the entry of the folder is removed or renamed. If it is a link, Real is the link itself.
	Entry bool `json:",omitempty"`
	// Argument: a command is given the file by name. Remit opens nothing for it.
	Argument Argument `json:",omitempty"`

	// Network: the requested target, canonical.
	Target Target
	Addrs  []netip.Addr // the addresses the host resolved to (a fact)

	// Commands: Argv as asked; Dir is the absolute working folder. Exe is the
	// absolute, link-free path of the executable and Names its other names:
	// every link on the way to it (facts).
	Argv []string
	Dir  string
	// RealDir is Dir with every symbolic link resolved (a fact, where a policy needs it).
	RealDir string `json:",omitempty"`
	// Variable is one to which the command line gives another value than policies do.
	Variable string `json:",omitempty"`
	Exe      string
	Names    []string
	// Search are the folders, absolute, where the name is looked for behind the trusted
	// PATH: those that a script added to PATH.
	Search []string `json:",omitempty"`
	// Input are the commands whose output this one reads, in a pipeline.
	Input [][]string `json:",omitempty"`
	// Contents is the content of the files that the action names and that the grant
	// may write (facts; looked up only if a person is asked).
	Contents []Content `json:",omitempty"`
	// Unconfined: another program carries the command out, without Remit's sandbox.
	Unconfined bool `json:",omitempty"`
	// Typed: a person typed exactly this command. Where no entry of commands says
	// anything of it, it needs their approval instead of being denied.
	Typed bool

	// Model is "provider/model".
	Model string

	// API is an operation of Remit's own service, as "agents.write".
	API string

	// Database is the name that policies give a database. SQL is the statement; "" lists
	// the schema. Uses are the tables and columns that the database reads or writes for
	// the statement (facts).
	Database string     `json:",omitempty"`
	SQL      string     `json:"-"` // it is among the arguments
	Uses     []TableUse `json:",omitempty"`
}

// TableUse is one column of a table that a statement reads or writes.
type TableUse struct {
	Schema string `json:",omitempty"` // "", "main" or "public": the database's own
	Own    bool   `json:",omitempty"` // the schema is the database's own, whatever its name
	Table  string
	// Column is "" if the statement reads no particular column, as count(*) does, and
	// "*" if it inserts or deletes whole rows.
	Column string `json:",omitempty"`
	// Refused is not empty if the statement needs something that no policy can allow.
	Refused string `json:",omitempty"`
}

// String prints the use as policies name it: "orders(total)".
func (u TableUse) String() string {
	s := u.Table
	if !u.Own && u.Schema != "" && u.Schema != "main" && u.Schema != "public" {
		s = u.Schema + "." + s
	}
	if u.Column != "" {
		s += "(" + u.Column + ")"
	}
	return s
}

// Argument says how a command uses a file that its arguments name. Where no entry of a
// policy decides about the file, the sandbox does.
type Argument uint8

// The uses of arguments. The zero Argument is of an action that is not one.
const (
	NoArgument    Argument = iota
	FileArgument           // the command opens the file
	TreeArgument           // it may use files in it, if it is a folder
	HomeArgument           // it is below the home folder, and the sandbox has another one
	AgentArgument          // it is a file that an agent keeps for itself, and no command's
)

// Content identifies the content of a file that an approval is for.
type Content struct {
	Path  string `json:"path"`  // absolute, link-free
	State string `json:"state"` // "sha256:…", "version:…" of a large file, "linked" or "absent"
}

// Target is a network destination in canonical form. It is made by the policy
// package's URL parser, so that the decided target is the dialled one.
type Target struct {
	Method string // upper case; "" where the protocol has none
	Scheme string // "https", "http", "tcp"; "unix": a socket of this machine; "ssh-agent": a key of the person's SSH agent
	Host   string // lower-case ASCII (IDNA), no trailing dot; or a literal address without brackets; "" of a socket or key
	Port   uint16
	Path   string // decoded, without dot segments, begins with "/"; "" if there is none; of a key its fingerprint
}

// Reading returns the target without its path, with GET as its method, if its own method only reads: GET or HEAD. One
// approval covers everything that reads from a host.
func (t Target) Reading() (Target, bool) {
	if t.Method != "GET" && t.Method != "HEAD" {
		return t, false
	}
	t.Method, t.Path = "GET", ""
	return t, true
}

// HostPort is the host and port as a dialer takes them.
func (t Target) HostPort() string {
	h := t.Host
	if strings.Contains(h, ":") {
		h = "[" + h + "]"
	}
	return h + ":" + strconv.Itoa(int(t.Port))
}

func (t Target) String() string {
	var b strings.Builder
	if t.Method != "" {
		b.WriteString(t.Method + " ")
	}
	if t.Scheme == "unix" || t.Scheme == "ssh-agent" {
		b.WriteString(t.Scheme + ":" + t.Path)
		return b.String()
	}
	b.WriteString(t.Scheme + "://")
	if def := map[string]uint16{"https": 443, "http": 80}[t.Scheme]; def != 0 && def == t.Port {
		b.WriteString(strings.TrimSuffix(t.HostPort(), ":"+strconv.Itoa(int(t.Port))))
	} else {
		b.WriteString(t.HostPort())
	}
	b.WriteString(t.Path)
	return b.String()
}

// Subject returns the object of the action as text: a quoted path, a method and URL,
// a command line. It may contain untrusted text; quoting makes control characters
// visible.
func (a Action) Subject() string {
	if a.Unknown != "" {
		return "(unknown: " + a.Unknown + ")"
	}
	switch a.Kind {
	case FileRead, FileWrite, FileDelete:
		return strconv.Quote(a.Path)
	case Network:
		return a.Target.String()
	case Command:
		words := make([]string, len(a.Argv))
		for i, w := range a.Argv {
			words[i] = quoteWord(w)
		}
		return strings.Join(words, " ")
	case Model:
		return a.Model
	case API:
		return a.API
	case TableRead, TableWrite:
		return a.Database
	}
	return ""
}

// String prints the action as policies and reports name it.
func (a Action) String() string { return a.Kind.String() + " " + a.Subject() }

// quoteWord prints one word of a command line. A word with a NUL byte, which
// no real one can hold, stands for words that are known only when they run.
func quoteWord(w string) string {
	if strings.Contains(w, "\x00") {
		return "<?>"
	}
	if w == "" || strings.ContainsAny(w, " \t\n\r\"'\\$`|&;<>()*?[]{}~#!") || strconv.Quote(w) != `"`+w+`"` {
		return strconv.Quote(w)
	}
	return w
}
