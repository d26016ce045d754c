// Package policy decides whether a call may run. It is pure: the same policies
// and the same call give the same decision on any machine, at any time. Start
// at [Parse], [Policy.Bind] and [Chain.Decide].
//
// A call is decided by the strictest of everything that concerns it: each of
// its actions, the tool itself, in every policy of the chain. Deny beats ask,
// ask beats allow, and what nothing matches is denied.
//
// Choices, where comparable systems differ:
//
//   - Allow and ask patterns of paths match bytes. Deny patterns also match after
//     Unicode compatibility and case folding, without invisible characters and
//     without dots and spaces at the end of names, as some file systems would.
//   - A deny pattern that begins with **/ matches anywhere; all others are
//     anchored at the workspace, at ~/ or at /.
//   - A deny pattern that matches a folder matches all that is in it.
//   - In allow and ask no wildcard matches a sensitive name (see [Sensitive]), nor
//     anything in /proc, /sys or /dev: an entry must spell it.
//   - An entry of deny or ask with args matches also when a constraint cannot be
//     evaluated, whatever other arguments there are, and if one element of a list
//     satisfies each. An argument that is optional: true and absent is no match.
//   - Values of different types are not compared, "5" is not 5 and not its
//     opposite: in allow that refuses, in deny and ask it matches.
//   - A bare string is a value to be equal to, but directly under each a glob.
//   - In a glob of an argument, * stops at characters that end one value and begin
//     another (see glob.CompileText); ** does not.
//   - In tool, principal and model patterns * stays within one part (between
//     colons; between slashes for models), except at the end, where it matches any
//     rest; in deny and limits it always does.
//   - within reads its argument without ~ and .. and URLs for paths, and what
//     it gives must be among the call's actions, or the entry does not match.
//   - Where every policy of a chain says rest: inherit and none mentions a
//     section, that section is closed.
package policy

import (
	"bytes"
	"crypto/sha256"
	"time"

	"github.com/remitrun/remit/internal/base/tool"
)

// Env anchors a policy's relative patterns.
type Env struct {
	Workspace string   // absolute, clean, links resolved
	Home      string   // for ~/; "" if there is none
	State     string   // $REMIT_HOME; "" if there is none. Its files are sensitive.
	Path      []string // the trusted PATH before commands.path is added
}

// Policy is a parsed policy document. It is immutable. The zero Policy allows
// nothing.
type Policy struct {
	file string
	src  []byte
	doc  *document

	parts, program int // its roles' included; see MaxParts and MaxProgram
}

var emptyDocument = &document{name: "empty"}

func (p *Policy) document() *document {
	if p == nil || p.doc == nil {
		return emptyDocument
	}
	return p.doc
}

// Name is the policy's name, or its file's without the extension.
func (p *Policy) Name() string { return p.document().name }

// File is the file that the policy was read from.
func (p *Policy) File() string { return p.file }

// Source gives the bytes that the policy was read from; for a role's policy,
// which is part of a document, its canonical form.
func (p *Policy) Source() []byte { return bytes.Clone(p.src) }

// Digest identifies the policy: the hash of its source.
func (p *Policy) Digest() tool.Digest { return sha256.Sum256(p.src) }

// Durability is ledger.durability: what a recorded intent survives, "power" or
// "process"; "" where the policy leaves it to the settings.
func (p *Policy) Durability() string { return p.document().durability }

// Inherits reports whether the policy says rest: inherit, which a grant's
// first policy may not.
func (p *Policy) Inherits() bool { return p.document().inherit }

// Roles gives the further policies that the document's roles set for a
// principal, in the document's order.
func (p *Policy) Roles(principal string) []*Policy {
	var out []*Policy
	for _, r := range p.document().roles {
		if r.name.Match(principal) {
			out = append(out, r.policy)
		}
	}
	return out
}

// Chain is policies that must all allow a call. An empty chain denies everything.
type Chain []*Rules

// Limits bounds what calls may use. A zero number or duration means that the
// chain sets no limit and the default of the field's comment holds.
type Limits struct {
	ReadBytes      int64         // files.read.max_bytes: one file; default 5 MiB
	WriteBytes     int64         // files.write.max_bytes: one file; default 5 MiB
	Hold           bool          // files.write.hold: writes are held as a changeset; true if any link says so
	ResponseBytes  int64         // network.max_bytes: one response; default 10 MiB
	RequestTimeout time.Duration // network.timeout; default 30 s
	Bandwidth      int64         // network.bandwidth: bytes a second of one confined call, both ways together; 0: no limit
	TotalBytes     int64         // network.total_bytes: of one confined call, both ways together; 0: no limit
	CommandTimeout time.Duration // commands.timeout; default 300 s
	OutputBytes    int64         // commands.max_output: each of stdout and stderr; default 1 MiB
	Memory         int64         // commands.memory; default 2 GiB
	Processes      int           // commands.processes; default 256
	CPU            time.Duration // commands.cpu: of one process; 0: no limit
	OpenFiles      int           // commands.files: open at once in one process; default 4096
	Disk           int64         // commands.disk: of a command's private folders; default commands.memory
	Env            []string      // commands.env: names passed through, the intersection of the chain
	Path           []string      // the trusted PATH: the environment's plus commands.path of every link (intersection of the additions)
	BytesIn        int64         // limits.bytes_in: received over the network in a run; 0: no limit
	BytesOut       int64         // limits.bytes_out: sent over the network in a run; 0: no limit
	Money          int64         // limits.money: millionths of a US dollar in a run; 0: no limit
	Calls          int           // limits.calls: of a run; 0: no limit
	CallsPerTool   int           // limits.calls_per_tool: of a run, each tool; 0: no limit
	PerTool        []ToolLimit   // limits.per_tool: each pattern counts all tools it matches together
	Time           time.Duration // limits.time: of a run; 0: no limit
	Tokens         int64         // models.tokens: of a run; 0: no limit
	Spawn          *int          // agents.spawn: sub-agents of one agent; nil: no limit
	Depth          *int          // agents.depth: of sub-agents below one another; nil: no limit
}

// ToolLimit bounds how many calls of the tools that match a pattern one run
// may make, counted together.
type ToolLimit struct {
	Pattern string
	Calls   int // 0: none
	Match   func(tool.ID) bool
}
