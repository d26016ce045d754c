// Package policy decides whether a call may run. It is pure: the same policies
// and the same call give the same decision on any machine, at any time. Start
// at [Parse], [Policy.Bind] and [Chain.Decide].
//
// A call is decided by every policy of a chain, for the tool and for each action
// of the call. Deny beats ask, ask beats allow, and an action or tool that no
// entry matches is denied.
//
// The file evaluate.go decides. Each section of a document has a file of its own
// (files.go, network.go, commands.go, tools.go, …) with its settings and its
// pattern. The files query_*.go answer questions about a chain and decide no
// call; rewrite_*.go write further policies.
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
//   - An entry of deny or ask with args also matches if a constraint cannot be
//     evaluated, if there are further arguments, and if one element of a list
//     satisfies each. An absent argument with optional: true does not match.
//   - Values of different types are not compared, "5" is not 5 and not its
//     opposite: in allow that refuses, in deny and ask it matches.
//   - A bare string is a value to be equal to, but directly under each a glob.
//   - In a glob of an argument, * stops at characters that end one value and begin
//     another (see glob.CompileText); ** does not.
//   - In tool, principal and model patterns * stays within one part (between
//     colons; between slashes for models), except at the end, where it matches any
//     rest; in deny and limits it always does.
//   - within reads its argument without ~ and .. and URLs for paths. The result
//     must be among the call's actions, or the entry does not match.
//   - Where every policy of a chain says rest: inherit and none mentions a
//     section, that section is closed.
package policy

import (
	"bytes"
	"crypto/sha256"

	"github.com/remitrun/remit/internal/base/tool"
)

// Env anchors a policy's relative patterns.
type Env struct {
	Workspace string   // absolute, clean, links resolved
	Home      string   // for ~/; "" if there is none
	State     string   // $REMIT_HOME; "" if there is none. Its files are sensitive.
	Path      []string // the trusted PATH before commands.path is added

	// Repository is the folder .git of the main worktree, where the workspace is a linked one; "": it is not. The rules
	// for .git in the workspace hold there.
	Repository string `json:",omitempty"`
}

// Policy is a parsed policy document. It is immutable. The zero Policy allows
// nothing.
type Policy struct {
	file string
	src  []byte
	doc  *content

	parts, program int // its roles' included; see MaxParts and MaxProgram
}

// Name is the policy's name, or its file's without the extension.
func (p *Policy) Name() string { return p.content().name }

// File is the file that the policy was read from.
func (p *Policy) File() string { return p.file }

// Source gives the bytes that the policy was read from; for a role's policy,
// which is part of a document, its canonical form.
func (p *Policy) Source() []byte { return bytes.Clone(p.src) }

// Digest identifies the policy: the hash of its source.
func (p *Policy) Digest() tool.Digest { return sha256.Sum256(p.src) }

// Durability is ledger.durability: a recorded intent survives the loss of "power" or
// the end of the "process"; "" leaves it to the settings.
func (p *Policy) Durability() string { return p.content().durability }

// Inherits reports whether the policy says rest: inherit, which a grant's
// first policy may not.
func (p *Policy) Inherits() bool { return p.content().inherit }

// Roles gives the further policies that the document's roles set for a
// principal, in the document's order.
func (p *Policy) Roles(principal string) []*Policy {
	var out []*Policy
	for _, r := range p.content().roles {
		if r.name.Match(principal) {
			out = append(out, r.policy)
		}
	}
	return out
}

// Chain is policies that must all allow a call. An empty chain denies everything.
type Chain []*Rules
