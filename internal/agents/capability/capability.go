// Package capability defines what a capability adds to an agent: text for its prompt,
// tools, a configuration, and the capabilities that it requires. Each capability is a
// package of its own below this one, and passes capabilitytest.Capability. Start at
// [Capability], [Registry] and [Resolve].
package capability

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/commitment"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
)

// Status says whether a capability can be used.
type Status string

// The statuses.
const (
	Available  Status = "available"
	ComingSoon Status = "coming_soon"
	Deprecated Status = "deprecated"
)

// Info describes a capability to people.
type Info struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Status      Status   `json:"status"`
	Icon        string   `json:"icon,omitempty"`
	Category    string   `json:"category,omitempty"`
	Version     string   `json:"version"`
	Requires    []string `json:"requires,omitempty"` // IDs of capabilities that are added with it, before it
	// Config is the closed JSON Schema (2020-12) of an object; nil: there is nothing to
	// configure. Every configuration may also have RenameKey.
	Config json.RawMessage `json:"config_schema,omitempty"`
	// Wants is the authority that it needs, in policy terms for people, as
	// "network GET https://**" or "commands **".
	Wants []string `json:"wants,omitempty"`
	// ReadOnly: its tools change nothing. A call that could have a side effect is denied.
	ReadOnly bool `json:"is_readonly,omitempty"`
}

// Offer is a tool as it is offered to an agent's model.
type Offer struct {
	Name string      // for the model: a letter, then letters, digits, _ and -, at most 64 in all; unique in an agent
	Tool permit.Tool // nil: the tool of this ID in the catalog
	ID   tool.ID
	// Defaults has arguments that the model may leave out: see Offer.Args and Offer.Input.
	Defaults tool.Args
	// ReadOnly is the ID of the read-only capability that it is a tool of, or "".
	ReadOnly string
}

// Bounds are the policies of the offer's calls besides the grant's: of a read-only
// capability one that denies every side effect.
func (o Offer) Bounds() []*policy.Policy {
	if o.ReadOnly == "" {
		return nil
	}
	var effects []string
	for _, e := range (^tool.Harmless).List() {
		effects = append(effects, e.String())
	}
	p, err := policy.Parse("capability "+o.ReadOnly, []byte("version: 1\nname: "+o.ReadOnly+" is_readonly\nrest: inherit\nside_effects: {deny: ["+strings.Join(effects, ", ")+"]}\n"))
	if err != nil {
		return []*policy.Policy{{}} // denies everything; the text is constant but for a valid ID
	}
	return []*policy.Policy{p}
}

// Own offers a capability's own tool.
func Own(name string, t permit.Tool) Offer { return Offer{Name: name, Tool: t, ID: t.Spec().ID} }

// Part is what a capability adds to an agent.
type Part struct {
	Prompt   string
	Tools    []Offer
	Warnings []string // for people: parts of the configuration without effect
	// Source is the text of a capability that is a file. It is recorded, so that a replay
	// needs no file.
	Source string
}

// Capability is something that an agent can be given. It is safe for concurrent use and
// has no state of its own.
type Capability interface {
	Info() Info
	// Part returns what the capability adds to a session of an agent. config is valid under
	// Info().Config, or nil if the agent has no configuration. s is the zero Session if
	// only the specifications of tools are needed.
	Part(s Session, config json.RawMessage) (Part, error)
}

// Hooked is a Capability that is called around the calls of its own tools. As the operator's
// hooks, it can refuse a call before it runs, and add notes to the record. It cannot allow, change
// or repeat one.
type Hooked interface {
	Capability
	// Around returns a note for the record; "": none. At runner.HookBefore, an error refuses the
	// call.
	Around(ctx context.Context, e runner.HookEvent) (note string, err error)
}

// Session is the part of a session that its capabilities can use.
type Session struct {
	ID       uuid.UUID
	Files    Files    // nil: the session has no files
	Children Children // nil: the session can have no sub-agents
	// Match gives the sorted IDs of the catalog's tools that match a pattern, as
	// "mcp:github:*"; nil: the catalog is not known.
	Match func(pattern string) []tool.ID
}

// File is a file of a session, or a folder.
type File struct {
	Path     string // absolute, clean, with slashes: "/docs/readme.txt"
	Folder   bool
	Size     int64 // bytes
	Version  int   // from 1; grows with every change of the path
	SHA256   [32]byte
	Created  time.Time
	Modified time.Time
	ReadOnly bool
}

// Files is a session's own file system, kept in the ledger's database. Each use needs the
// permit of a call that is under way. Paths are absolute and cleaned; ".." does not leave
// the root. Errors: fault.NotFound, Conflict, FilesFull, ArgsInvalid.
type Files interface {
	Stat(ctx context.Context, p permit.Permit, path string) (File, error)
	Read(ctx context.Context, p permit.Permit, path string) ([]byte, File, error)
	// Write creates the file and the folders above it. If version is not 0, the file must
	// be at that version, or with MustBeNew must not exist (fault.Conflict). It reports
	// whether the file is new.
	Write(ctx context.Context, p permit.Permit, path string, content []byte, version int) (File, bool, error)
	// List lists a folder, folders first, sorted by name.
	List(ctx context.Context, p permit.Permit, path string) ([]File, error)
	// Delete removes a file, or with recursive a folder and all that is in it. It gives how
	// many files and folders were removed.
	Delete(ctx context.Context, p permit.Permit, path string, recursive bool) (int, error)
	// All lists every file, without folders, below a folder, sorted by path.
	All(ctx context.Context, p permit.Permit, path string) ([]File, error)
}

// MustBeNew is the version for Files.Write if the file must not exist yet.
const MustBeNew = -1

// Children manages the sub-agents of a session. Each has a grant that is delegated from
// the session's own.
type Children interface {
	// Spawn starts a child with a task.
	Spawn(ctx context.Context, p permit.Permit, q SpawnRequest) (Child, error)
	// Send sends a child another message.
	Send(ctx context.Context, p permit.Permit, child, text string) (Child, error)
	// Wait waits until the turns of the children (all of them, if none is named) are over,
	// at most for a time.
	Wait(ctx context.Context, p permit.Permit, children []string, most time.Duration) ([]Child, error)
	List(ctx context.Context, p permit.Permit) ([]Child, error)
	// Stop ends a child and its own children for good.
	Stop(ctx context.Context, p permit.Permit, child string) (Child, error)
	// Delegate gives a child that was spawned without authority (Pending) a grant.
	Delegate(ctx context.Context, p permit.Permit, child, policy string) (Child, error)
}

// SpawnRequest describes a new child.
type SpawnRequest struct {
	Name    string // for people and models
	Agent   string // an agent's ID or name; "": the parent's own agent
	Task    string // its first message
	Policy  string // as YAML or JSON; narrows its grant; "": none
	Pending bool   // it has no authority, and does nothing, until Delegate
	// Quarantine: the child has a context of its own, and only values of the schema Answer
	// come back from it.
	Quarantine bool
	Answer     json.RawMessage
	// Commitments must hold before the child counts as done.
	Commitments []commitment.Commitment
}

// Child is a sub-agent as its parent sees it.
type Child struct {
	ID      string // of its session
	Name    string
	Status  string // "pending", "working", "idle", "failed", "stopped"
	Reply   string // its last answer
	Session uuid.UUID
	// Of a quarantined child: its answer, with references for withheld values, and the code of the
	// error that ended its last turn.
	Answer map[string]any
	Error  string
}
