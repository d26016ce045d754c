// Package capability says what a module is that an agent can be given: text for
// its prompt, tools, configuration, and what it needs of others. Modules are
// sub-packages; all pass capabilitytest.Capability. Start at [Capability], [Registry] and
// [Resolve].
package capability

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/tool"
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
	Requires    []string `json:"requires,omitempty"` // IDs of capabilities that come with it, before it
	// Config is the closed JSON Schema (2020-12) of an object; nil: there is nothing
	// to configure. Beside what it says, every capability can be given RenameKey.
	Config json.RawMessage `json:"config_schema,omitempty"`
	// Wants is the authority that it will need, in policy terms and for people, as
	// "network GET https://**", "commands **".
	Wants []string `json:"wants,omitempty"`
}

// Offer is a tool as an agent's model is offered it.
type Offer struct {
	Name string      // that the model calls it by: a letter, then letters, digits, _ and -, at most 64 in all; unique in an agent
	Tool permit.Tool // nil: the tool of this ID in the catalog
	ID   tool.ID
	// Defaults are arguments of which the model need not speak: see Offer.Args and
	// Offer.Input.
	Defaults tool.Args
}

// Own is the offer of a capability's own tool.
func Own(name string, t permit.Tool) Offer { return Offer{Name: name, Tool: t, ID: t.Spec().ID} }

// Part is what a capability adds to an agent.
type Part struct {
	Prompt   string
	Tools    []Offer
	Warnings []string // for people: what of the configuration came to nothing
	// Source is the text of the file that the capability is, where it is one: the
	// record keeps it, so that a replay needs no file.
	Source string
}

// Capability is a module. It is safe for concurrent use, and has no state but
// what it reaches through a Session.
type Capability interface {
	Info() Info
	// Part gives what the capability adds to a session of an agent, configured as
	// the agent says. The configuration fits Info().Config; it is nil where the
	// agent says nothing. s is the zero Session where only the specifications of
	// tools are looked at.
	Part(s Session, config json.RawMessage) (Part, error)
}

// Session is what capabilities may use of the session that they are part of.
type Session struct {
	ID       uuid.UUID
	Files    Files    // nil: there are none
	Children Children // nil: there can be none
	// Match gives the IDs of the catalog's tools that a pattern names, as
	// "mcp:github:*", sorted. nil: the catalog is not known.
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

// Files is a session's own file system, kept in the ledger's database. Each use
// needs the permit of a call that is under way. Paths are absolute and cleaned; ".." leads
// nowhere. Errors: fault.NotFound, Conflict, FilesFull, ArgsInvalid.
type Files interface {
	Stat(ctx context.Context, p permit.Permit, path string) (File, error)
	Read(ctx context.Context, p permit.Permit, path string) ([]byte, File, error)
	// Write makes the file and the folders above it. If version is not 0, the file
	// must have it, or with MustBeNew not be there (fault.Conflict). It reports
	// whether the file is new.
	Write(ctx context.Context, p permit.Permit, path string, content []byte, version int) (File, bool, error)
	// List gives what is in a folder, folders first, sorted by name.
	List(ctx context.Context, p permit.Permit, path string) ([]File, error)
	// Delete removes a file, or with recursive a folder and all in it; it gives how
	// many were removed.
	Delete(ctx context.Context, p permit.Permit, path string, recursive bool) (int, error)
	// All gives every file (no folders) below a folder, sorted by path.
	All(ctx context.Context, p permit.Permit, path string) ([]File, error)
}

// MustBeNew is the version that Files.Write is given for a file that may not be
// there yet.
const MustBeNew = -1

// Children makes and talks to a session's sub-agents. Each has a grant that is
// delegated from the session's own.
type Children interface {
	// Spawn starts a child on a task; Policy, where it is not "", is a policy that
	// narrows its grant further.
	Spawn(ctx context.Context, p permit.Permit, q SpawnRequest) (Child, error)
	// Send gives a child another message.
	Send(ctx context.Context, p permit.Permit, child, text string) (Child, error)
	// Wait waits until the children (all of them, if none is named) have nothing
	// more to do, or a time has passed.
	Wait(ctx context.Context, p permit.Permit, children []string, most time.Duration) ([]Child, error)
	List(ctx context.Context, p permit.Permit) ([]Child, error)
	// Stop ends a child, and what it spawned, for good.
	Stop(ctx context.Context, p permit.Permit, child string) (Child, error)
	// Delegate gives a child that was spawned without authority (Pending) a grant.
	Delegate(ctx context.Context, p permit.Permit, child, policy string) (Child, error)
}

// SpawnRequest says what a child is to be.
type SpawnRequest struct {
	Name    string // for people and models: how the child is called
	Agent   string // an agent's ID or name; "": the parent's own agent
	Task    string // its first message
	Policy  string // YAML or JSON of a policy that narrows its grant; "": none
	Pending bool   // it gets no authority, and does nothing, until Delegate
}

// Child is a sub-agent as its parent sees it.
type Child struct {
	ID      string // of its session
	Name    string
	Status  string // "pending", "working", "idle", "failed", "stopped"
	Reply   string // its last answer
	Session uuid.UUID
}
