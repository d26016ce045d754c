// Package sandbox is the contract for running commands confined by the operating
// system. A tool asks for a [Command] and gets an [Outcome]; a [Profile] says what the
// policies allow it. A path that they do not allow does not exist inside the sandbox.
//
// Start at [Compile], which computes a profile from policies and files. Package linux,
// below this folder, makes the sandbox and runs the command.
package sandbox

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Bash is the pinned shell, which scripts are read for; PlainShell takes its place on a
// machine without it.
const (
	Bash       = "/bin/bash"
	PlainShell = "/bin/sh"
)

// Command is one command to run.
type Command struct {
	// Argv as asked. Argv[0] is looked up on the permit's trusted PATH, or is a
	// path (absolute, or relative to Dir).
	Argv []string
	Dir  string            // absolute working folder
	Env  map[string]string // variables of this call; only names that the policy lists
	// Stdin is all that the command can read there.
	Stdin     []byte
	Timeout   time.Duration // 0: the policy's
	MaxOutput int64         // bytes kept of each of stdout and stderr; 0: the policy's
	// Shell says that Argv is the pinned shell, started by Remit itself for a
	// script whose every command was decided: no command rule is checked for it.
	Shell bool
	// POSIX says of a script that a POSIX shell reads it as bash does, so that it can run
	// where there is no bash.
	POSIX bool
	// Starts are the commands of the script, as they were decided. Each is looked up
	// and checked once more.
	Starts []tool.Action

	// Scratch is the chain's own folder (policy.Chain.Owning) if that is only for scratch files, and no home of the command; "": it is not.
	Scratch string
	// Folder, where it is not nil, is all that the command sees of files beside the
	// system, at FolderAt, which is then its Dir. The rules of files do not matter:
	// none of their files is there. It needs full isolation.
	Folder *Folder

	// Typed says that a person typed the command, see tool.Action.
	Typed bool
	// Long: without a commands.timeout of the policy's, it may take for ever.
	Long bool
	// Stdio are the command's own streams in place of Stdin and captured ones.
	Stdio *Stdio
	// Ask answers where the rules of network and files ask, and holds the connection or the
	// command's use of the file until then; nil says no. Notice is told of each connection as it ends or is
	// refused. Both are called from several goroutines.
	Ask    func(ctx context.Context, a tool.Action, d policy.Decision) bool
	Notice func(Connection)
	// Services are sockets that Remit itself serves inside the sandbox. They need full
	// isolation and a proxy.
	Services []Service
	// Publish are ports that the command's servers listen on, to be reached at this machine's
	// loopback address while the command runs. They need full isolation and a proxy.
	Publish []Port
	// Proxy is the command's way out in place of the Box's own, for a program of Remit's own
	// that outlives the call: commands.timeout does not end it, and it gets no stored secret.
	// The caller ends it by its context, and notes in the permit that it was started.
	Proxy Proxy
	// Session is the session of an agent that this is a command of: its commands share a sandbox,
	// with /tmp, the loopback addresses and the processes that they leave behind. The zero Session: the command is alone.
	Session Session
	// Observe tells in the outcome which paths the command used and tried. A
	// machine that cannot observe does not run it.
	Observe bool
}

// Session is a session of an agent.
type Session struct {
	ID string
	// Policies chooses the policies of the command again, as they are now. An error ends what the commands left.
	Policies func() (policy.Chain, error)
}

// OpenSession describes the sandbox of an agent's session.
type OpenSession struct {
	ID        string
	Workspace string
	Last      time.Time // the end of the last command; zero: none has ended yet
	Running   int       // commands
	Ports     []uint16  // at which programs listen
}

// Service answers the connections to a Unix socket that exists only inside one sandbox. The
// client is the confined command: nothing that it sends can be trusted.
type Service struct {
	At    string                   // the path inside the sandbox; nothing of the policy's may be there
	Serve func(net.Listener) error // returns, with its connections closed, once the listener is closed
}

// Port is a port of the sandbox that is published at 127.0.0.1 of this machine.
type Port struct {
	Host   uint16 // of this machine
	Inside uint16 // of the sandbox's own loopback addresses
}

func (p Port) String() string {
	if p.Host == p.Inside {
		return strconv.Itoa(int(p.Host))
	}
	return fmt.Sprintf("%d:%d", p.Host, p.Inside)
}

// Stdio is what a command reads and writes directly: ends of pipes, which Run
// closes, or a terminal. Nothing else is taken, since a descriptor of a file or
// folder would lead out of the sandbox.
type Stdio struct {
	In, Out, Err *os.File
	// Terminal, in place of the three, is a terminal that is made inside the
	// sandbox and becomes the command's controlling one.
	Terminal *Terminal
}

// Close closes them; a nil Stdio has none.
func (s *Stdio) Close() {
	if s == nil {
		return
	}
	for _, f := range []*os.File{s.In, s.Out, s.Err} {
		if f != nil {
			_ = f.Close() // the same file may be there three times
		}
	}
}

// Stream is what a command wrote to stdout or stderr.
type Stream struct {
	Data      []byte // the first bytes, up to the cap
	Total     int64  // how many there were
	Truncated bool
}

// Outcome is how a command ended. A command that ran and failed is an Outcome,
// not an error.
type Outcome struct {
	ExitCode    int    // -1 when it did not exit by itself
	Signal      string // "SIGKILL"; "" when it exited
	Stdout      Stream
	Stderr      Stream
	Duration    time.Duration
	TimedOut    bool
	Limit       string        // the limit that ended it, or some of its processes, as far as can be told, for people; or ""
	Tier        string        // "fresh": a sandbox of its own; "session": one that other commands of the same profile use too
	CPU         time.Duration // user and system time of all its processes
	PeakMemory  int64         // bytes that it had at once, where a control group counts them; else those of its largest process
	DiskRead    int64         // bytes that came from disks, as far as the kernel counts them
	DiskWritten int64
	// Isolation is what confined it: "full", or weaker where the policy names that
	// and the machine has no more.
	Isolation string
	// Place is where it ran, as "worker gpu-1"; "": on this machine.
	Place string
	// Connections are the requests to the proxy, with refused ones.
	Connections []Connection
	// Touched are the paths that an observed command named, sorted; Unseen is how
	// often it named others that were too many.
	Touched []Touch
	Unseen  int
	// Limits says of each limit how much it was and what enforced it.
	Limits map[string]string
	Notes  []string // rules of the policy that the sandbox did not enforce to the letter
	Hints  []string // possible reasons of a failure, and the way out
	// Refusals name the first paths that it was refused, each once, with the reason. RefusedPaths counts
	// all refusals of paths.
	Refusals     []Refusal
	RefusedPaths int
	// Changed are the files of the machine that it may have changed; nil: that is not known.
	Changed *[]string
	// Followed are files of the workspace that it made or changed, and that a person's agents, editors or Git follow. If
	// Unfollowed is true, there may be others.
	Followed   []string
	Unfollowed bool
	// Signs is true if it started GnuPG, or had Git sign with an SSH key, as far as that is known.
	Signs bool
}

// Refusal is a use of a path that the policy refused to a command.
type Refusal struct {
	Kind   tool.ActionKind
	Path   string
	Reason string
	Asked  bool // an approval would have allowed it
}

// maxPathShown bounds the text of a refused action, in bytes.
const maxPathShown = 300

// String is the action and the reason, without characters that a terminal obeys in the path.
func (r Refusal) String() string {
	a := tool.Action{Kind: r.Kind, Path: r.Path, Real: r.Path}
	return clip.Text(a.String(), maxPathShown) + " (" + r.Reason + ")"
}

// Failure returns nil for a command that exited with 0, and otherwise an error with its end. Messages call the command
// by what, as "the program". stopper names the setting of its time limit.
func (o Outcome) Failure(what, stopper string) error {
	switch {
	case o.TimedOut:
		return fault.New(fault.ToolTimeout, "%s was stopped after %v", what, o.Duration.Round(time.Millisecond)).WithHint("%s ended it", stopper)
	case o.Limit != "" && (o.ExitCode != 0 || o.Signal != ""):
		return fault.New(fault.ToolFailed, "%s was ended by a limit: %s", what, o.Limit)
	case o.Signal != "":
		return fault.New(fault.ToolFailed, "%s was ended by %s", what, o.Signal)
	case o.ExitCode != 0:
		return fault.New(fault.ToolFailed, "%s exited with status %d", what, o.ExitCode)
	}
	return nil
}

// TrustFile is where a command finds the certificates to trust if the proxy has
// one of its own: those of the host, and that one. The proxy's Env names it.
const TrustFile = "/etc/remit-ca.pem"

// ProxyPort is where a command reaches the proxy, at its own 127.0.0.1.
const ProxyPort = 61080

// AgentAt is where a command finds the person's SSH agent, if a policy names keys of it:
// a socket of Remit's, which lists those keys and signs with them, and no more.
const AgentAt = "/run/remit/ssh-agent.sock"

// Proxy is the one way out of a sandbox. It decides each connection by the
// call's permit; where no policy allows any, it refuses and records them all.
type Proxy interface {
	// Serve takes connections until Close. The listener is inside the sandbox.
	Serve(l net.Listener) error
	// ServeSocket is Serve for a listener that stands for the host's Unix socket at path, or
	// at AgentAt for the person's SSH agent.
	ServeSocket(path string, l net.Listener) error
	// Env gives the variables that point a command at the proxy on that port of
	// 127.0.0.1.
	Env(port int) map[string]string
	// CA is the certificate that the command must trust, in PEM; nil for none.
	CA() []byte
	// Connections returns the requests, once Close has returned.
	Connections() []Connection
	Close() // cuts every connection and waits for what serves them
}

// DirectProxy is a Proxy for programs that know no proxy, too.
type DirectProxy interface {
	Proxy
	// Expect is told of a connection to the listener of Serve that is meant for a host and port, and begins with hello. The bytes are
	// good for one connection, which is decided as any other. An error refuses it, which is recorded while the call lasts. forget is
	// called if the connection does not come.
	Expect(host string, port uint16) (hello []byte, forget func(), err error)
}

// OwnHosts is the value of NO_PROXY for the loopback addresses of a sandbox.
const OwnHosts = "localhost,127.0.0.1,::1,0.0.0.0"

// Works is the detail of a layer of which nothing is to be said but that it was tried.
const Works = "tried: works"

// Layer is one part of the confinement and whether this machine has it.
type Layer struct {
	Name      string `json:"name"`
	Available bool   `json:"available"`
	Required  bool   `json:"required"` // without it no command is run
	Detail    string `json:"detail"`   // the version that was found, or why the layer is missing
	Hint      string `json:"hint,omitempty"`
}

// Defaults of the policy's limits that are zero where a chain sets none.
const (
	defaultTimeout   = 300 * time.Second
	defaultOutput    = 1 << 20
	defaultMemory    = 2 << 30
	defaultProcesses = 256
	defaultFiles     = 4096
)

// WithDefaults fills in the limits that a chain of policies does not set.
func WithDefaults(l policy.Limits) policy.Limits {
	if l.CommandTimeout <= 0 {
		l.CommandTimeout = defaultTimeout
	}
	if l.OutputBytes <= 0 {
		l.OutputBytes = defaultOutput
	}
	if l.Memory <= 0 {
		l.Memory = defaultMemory
	}
	if l.Processes <= 0 {
		l.Processes = defaultProcesses
	}
	if l.OpenFiles <= 0 {
		l.OpenFiles = defaultFiles
	}
	if l.Disk <= 0 {
		l.Disk = l.Memory
	}
	if len(l.Path) == 0 {
		l.Path = []string{"/usr/local/bin", "/usr/bin", "/bin"}
	}
	return l
}
