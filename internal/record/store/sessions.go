package store

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/record/ledger"
)

// Sessions keeps agents, sessions and their conversations. Each change is an event
// with the whole new state in its payload (ledger.AgentSaved, SessionSaved,
// MessageAdded). The tables only make lookups fast, and are sealed like those of
// grants. Documents are JSON that this package does not read, kept byte for byte.
//
// Saved data survives the end of the process. Agents, and the first and the last
// state of a session, also survive a loss of power; the rest reaches the disk with
// the next durable event, such as the next call's intent.
type Sessions interface {
	// SaveAgent keeps an agent's new state. If r.Version is 0 it must be a new one,
	// else its version must be r.Version: fault.Stale. A deleted one stays so:
	// fault.AgentUnknown. It gives the record as it is kept, with its new version;
	// Created is the first Saved.
	SaveAgent(ctx context.Context, r AgentRecord) (AgentRecord, error)
	// Agent finds one by its ID or a unique prefix of it (at least 4 characters), or
	// by its exact name, where that leaves one: fault.AgentUnknown. Deleted ones are
	// found by their whole ID only.
	Agent(ctx context.Context, id string) (AgentRecord, error)
	// Agents lists the agents that are not deleted, newest first.
	Agents(ctx context.Context, f PageFilter) ([]AgentRecord, error)

	// SaveSession keeps a session's new state, as SaveAgent: fault.Stale, and
	// fault.SessionEnded for a deleted one. Agent and Parent do not change; the store
	// sets Last.
	SaveSession(ctx context.Context, r SessionRecord) (SessionRecord, error)
	// Session finds one by its ID or a unique prefix of it: fault.SessionUnknown.
	// Deleted ones are found by their whole ID only.
	Session(ctx context.Context, id string) (SessionRecord, error)
	// Sessions lists the sessions that are not deleted, newest first.
	Sessions(ctx context.Context, f SessionFilter) ([]SessionRecord, error)

	// AddMessages adds to a session's conversation, after message number after (0:
	// the conversation is empty): all or none, and only if after is the last one
	// (fault.Stale). It gives the last number now. A deleted session takes none:
	// fault.SessionEnded.
	AddMessages(ctx context.Context, session uuid.UUID, after int, m ...MessageRecord) (int, error)
	// Messages gives a conversation from number from (1 is the first) on, in order,
	// or with reverse backwards (from 0: from the last). It reads as far as it is
	// asked to. A conversation of which messages are missing or changed is
	// fault.StoreCorrupt.
	Messages(ctx context.Context, session uuid.UUID, from int, reverse bool) iter.Seq2[MessageRecord, error]

	// SessionRuns gives the runs that belong to a session, also replays, oldest first: the runs
	// with a RunStarted event whose Subject is the session. It must be saved before the run begins.
	SessionRuns(ctx context.Context, session uuid.UUID) ([]ledger.Run, error)
}

// PageFilter chooses a page of a list, newest first.
type PageFilter struct {
	Before uuid.UUID // for the next page: older than this one; zero: from the newest
	Limit  int       // 0 means 20
}

// SessionFilter chooses sessions.
type SessionFilter struct {
	PageFilter
	Agent   uuid.UUID // zero: of any
	Parent  uuid.UUID // children of this session; zero: any
	Deleted bool      // deleted ones, too
}

// AgentRecord is an agent as it is kept.
type AgentRecord struct {
	ID      uuid.UUID // UUIDv7: lists are in its order
	Name    string    // of 1 to 200 bytes; not private: it is a field of the event
	Version int       // from 1
	Deleted bool
	Doc     json.RawMessage
	By      string    // who saved it, as "user:ann"
	Created time.Time // when its first version was saved; the store sets it
	Saved   time.Time // to the microsecond; zero: now
}

// SessionRecord is a session as it is kept.
type SessionRecord struct {
	ID      uuid.UUID // UUIDv7
	Agent   uuid.UUID // zero: of none that is kept
	Parent  uuid.UUID // the session that spawned it; zero: none
	Version int
	Deleted bool
	Last    int // number of its last message; the store sets it
	Doc     json.RawMessage
	By      string
	Created time.Time
	Saved   time.Time
}

// Erased reports whether the session's document was erased.
func (r *SessionRecord) Erased() bool { return r.Deleted && len(r.Doc) == 0 }

// MessageRecord is one message of a conversation.
type MessageRecord struct {
	Number int             // from 1; the store sets it
	Run    ledger.Seq      // the run that it belongs to, which may be over; 0: none
	Doc    json.RawMessage // kept to the byte
	At     time.Time       // to the microsecond; zero: now
}

// MaxPath is how many bytes a session's path may have.
const MaxPath = 1024

// Files keeps the files of sessions: contents in the ledger's blobs (so that equal
// ones are kept once), and of each path every version. Paths are absolute and
// clean ("/docs/readme.txt"), in UTF-8, of at most MaxPath bytes, and never the root:
// fault.ArgsInvalid. A session that is not kept is fault.SessionUnknown.
type Files interface {
	// FileTree gives all paths of a session that are there now, sorted by their
	// bytes. A tree of which something is missing is fault.StoreCorrupt.
	FileTree(ctx context.Context, session uuid.UUID) ([]FileRecord, error)
	// File gives a path's newest version (0), which is there, or the one that is
	// asked for, which may be a deletion: fault.NotFound.
	File(ctx context.Context, session uuid.UUID, path string, version int) (FileRecord, error)
	// LoadFile gives the content of a version that this store gave. A folder has
	// none (fault.Conflict), and neither has a deletion (fault.NotFound).
	LoadFile(ctx context.Context, f FileRecord) ([]byte, error)
	// ChangeFiles makes changes, all or none: each is a new version of its path,
	// which must be at version Was (0: not there, or deleted): fault.Stale. All files
	// must be in existing folders afterwards (fault.Conflict). A change beyond the
	// quota is fault.FilesFull, unless it makes the session smaller. The new versions
	// are returned in the order of the changes. For a deleted session the error is
	// fault.SessionEnded.
	ChangeFiles(ctx context.Context, session uuid.UUID, quota Quota, changes ...FileChange) ([]FileRecord, error)
}

// Quota bounds a session's files. The zero Quota leaves room for nothing.
type Quota struct {
	Bytes int64 // of all that are there now; older versions do not count
	Files int   // and folders
}

// FileRecord is a version of a file or folder.
type FileRecord struct {
	Path     string
	Folder   bool
	Version  int // from 1; goes on after a deletion
	Size     int64
	SHA256   [32]byte // of the content; zero for folders and deletions
	Blob     ledger.BlobRef
	Deleted  bool
	Created  time.Time  // of the path's first version since it was not there
	Modified time.Time  // to the microsecond
	Seq      ledger.Seq // of its event
}

// FileChange is a new version of a path, which no other change of the same call
// has.
type FileChange struct {
	Path    string
	Was     int // the version that it replaces; 0: none is there
	Folder  bool
	Delete  bool
	Content []byte
	At      time.Time
	Run     ledger.Seq // the run that it belongs to; 0: none
	Call    uint32     // the run's call that makes it, where that is known
	By      string     // who makes it, as "user:ann"
}
