// Package store defines the contract of a store for the ledger. Each backend is a
// sub-package and passes `storetest.Store`. Start at [Store].
package store

import (
	"context"
	"io"
	"iter"
	"time"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
)

// Store is an append-only place for events and their payloads. It is safe for
// concurrent use, also by several processes on one database.
type Store interface {
	// Append writes entries, all or none, in order, and returns the first one's
	// Seq. Concurrent calls share one commit. It returns once the entries are
	// committed, and durable against a loss of power where an entry says so.
	Append(ctx context.Context, entries ...ledger.Entry) (ledger.Seq, error)

	// Runs lists runs, newest first.
	Runs(ctx context.Context, f RunFilter) ([]ledger.Run, error)
	// CheckedRuns is Runs for people. The list of runs is not sealed, so the runs that the filter
	// leaves out are compared with their events: one whose row was changed is listed, with
	// Unverified. It reports false if it did not compare all: with a filter by tool, and where
	// there are too many. Verify alone finds a removed run.
	CheckedRuns(ctx context.Context, f RunFilter) (runs []ledger.Run, checked bool, err error)
	// Run finds one run by its ID or a unique prefix of it (at least 4
	// characters). An unknown one is fault.RunUnknown.
	Run(ctx context.Context, id string) (ledger.Run, error)
	// Calls gives a run's calls in the order of their Index.
	Calls(ctx context.Context, run ledger.Seq) iter.Seq2[ledger.Call, error]
	// CallsFrom is Calls from the call with this Index on. It takes the same time whatever
	// came before.
	CallsFrom(ctx context.Context, run ledger.Seq, index int) iter.Seq2[ledger.Call, error]
	// Call finds one call of a run; fault.RunUnknown if there is none of that Index.
	Call(ctx context.Context, run ledger.Seq, index int) (ledger.Call, error)
	// LastCall gives the highest Index of a run's calls; 0 if it has none. It takes the same
	// time for long runs as for short ones.
	LastCall(ctx context.Context, run ledger.Seq) (int, error)
	// Events gives events in the order of Seq, beginning at from.
	Events(ctx context.Context, from ledger.Seq) iter.Seq2[ledger.Stored, error]
	// Find gives events, newest first. They include every event that the filter chooses, and may
	// include others: the indexes differ between stores.
	Find(ctx context.Context, f EventFilter) iter.Seq2[ledger.Stored, error]
	// Load gives a part's bytes, wherever they are. It checks a blob's address.
	Load(ctx context.Context, p ledger.Part) ([]byte, error)

	// Recover closes, as interrupted, the runs and calls whose process is
	// provably dead, and says how many runs it closed. It may wait until it knows.
	Recover(ctx context.Context) (int, error)
	// RecoverKnown is Recover without a wait. It leaves the runs of processes that may live.
	RecoverKnown(ctx context.Context) (int, error)
	// Deaths counts the dead processes that Recover has found through this store. A process
	// counts if it had begun a run, or to apply or undo changes.
	Deaths() uint64

	// Checkpoint signs the current state of the log and keeps the signed note.
	Checkpoint(ctx context.Context) ([]byte, error)
	// Verify recomputes the whole log, or one run of it, and reports every altered
	// record (up to a limit).
	Verify(ctx context.Context, o VerifyOptions) (VerifyReport, error)
	// Prove exports a proof that a run's events are in the log.
	Prove(ctx context.Context, run ledger.Seq, w io.Writer) error

	// Head returns the newest state of the log. Its Prev is the size of the newest checkpoint.
	Head(ctx context.Context) (ledger.Checkpoint, error)
	// Newest returns the newest signed checkpoint, unverified; nil: there is none.
	Newest(ctx context.Context) (signed []byte, err error)
	// TreeAt returns the root that the log had at a size that it has or had.
	TreeAt(ctx context.Context, size int64) (tlog.Hash, error)
	// ProveExtension proves that the log of a size extends the one of an old size above 0
	// (RFC 6962, section 2.1.2).
	ProveExtension(ctx context.Context, size, old int64) (tlog.TreeProof, error)
	// OpenCheckpoint reads a checkpoint that this ledger signed.
	OpenCheckpoint(signed []byte) (ledger.Checkpoint, error)

	Close() error
}

// Backend is everything that one database keeps: the ledger and the state derived
// from it. Each backend implements all of it.
type Backend interface {
	Store
	Grants
	Budgets
	Approvals
	Requests
	Ephemera
	Rates
	Queue
	Claims
	Clock
	Sessions
	Files
	Labels
	Erasing

	// Origin names the ledger in its checkpoints.
	Origin() string
	// SignNote signs a text with the ledger's key, as a note. It refuses text that
	// could be taken for a checkpoint.
	SignNote(text string) (string, error)
	// RotateKey replaces the signing key, after announce recorded the new public key. What the
	// old key signed stays valid.
	RotateKey(ctx context.Context, announce func(public string) error) (ledger.Rotation, error)
	// Rotations returns the rotations of the signing key, oldest first.
	Rotations() []ledger.Rotation
	// PublicKey returns the key that verifies what the ledger signs now; "": the signing key
	// is damaged.
	PublicKey() string
	// CheckPublicKey compares keys/ledger.pub with the signing key. A file that differs is
	// written anew, and repaired is its fault, as "is missing". The error names the fault if the
	// file cannot be written. Nothing else depends on the file.
	CheckPublicKey(ctx context.Context) (repaired string, err error)
	// Verifier checks the notes that SignNote signed.
	Verifier() note.Verifier
}

// RunFilter chooses runs. The zero filter chooses all.
type RunFilter struct {
	Status string // "" for any
	Mode   ledger.Mode
	Since  time.Time
	Until  time.Time
	Failed bool    // runs with a failed call
	Denied bool    // runs with a denied call
	Tool   tool.ID // runs with a call of this tool
	// Without leaves out the live runs whose one call is of one of these tools,
	// while nothing in them was denied, refused or failed.
	Without []tool.ID
	Before  ledger.Seq // for the next page: runs older than this one
	Limit   int        // 0 means 20
}

// LeavesOut reports whether the filter leaves out runs for what their rows say.
func (f RunFilter) LeavesOut() bool {
	return f.Status != "" || f.Mode != 0 || !f.Since.IsZero() || !f.Until.IsZero() || f.Failed || f.Denied || f.Tool != "" || len(f.Without) > 0
}

// VerifyOptions selects the records to verify.
type VerifyOptions struct {
	Run        uuid.UUID // zero: the whole ledger
	Checkpoint []byte    // an older signed checkpoint that this ledger must extend
	// Progress is called from time to time with the number of checked events and of all; nil:
	// nothing is called.
	Progress func(done, total uint64)

	// SinceLast takes the events that the last remembered verification covered from it, and
	// reads only later ones. Without one everything is read. It cannot tell whether earlier
	// events were altered after that verification: only one without it can.
	SinceLast bool
	// Remember keeps a verification of the whole ledger that finds no problem, signed and
	// apart from the verified records.
	Remember bool
}

// VerifyReport is the result of Verify.
type VerifyReport struct {
	OK       bool          `json:"ok"`                 // all is as it was recorded
	Events   uint64        `json:"events"`             // checked
	Blobs    uint64        `json:"blobs"`              // checked
	Runs     uint64        `json:"runs"`               // checked
	Size     uint64        `json:"size"`               // of the log
	Root     string        `json:"root"`               // the log's root hash, base64
	Signed   uint64        `json:"signed"`             // how many of the events the newest signed checkpoint covers
	Erased   uint64        `json:"erased"`             // payloads that were erased
	Reported uint64        `json:"reported,omitempty"` // outcomes that are a client's word: Remit did not execute the calls
	Problems []Discrepancy `json:"problems"`

	// Rotations lists rotations of the ledger's key that events and keys/ do not both have, and
	// a wrong keys/ledger.pub. They do not prove an alteration: a restored backup may be older
	// than a rotation.
	Rotations []string `json:"rotations,omitempty"`

	Earlier      *Earlier `json:"earlier,omitempty"`      // the events that were not read; nil: all were
	Unremembered string   `json:"unremembered,omitempty"` // why the verification could not be remembered
}

// Earlier tells of the events that a verification did not read, because an earlier one had.
type Earlier struct {
	Events     uint64    `json:"events"`      // the first events of the log
	At         time.Time `json:"at"`          // of the verification that this one goes on from
	FullEvents uint64    `json:"full_events"` // how many the last verification of the whole ledger read
	FullAt     time.Time `json:"full_at"`
}

// Discrepancy is one thing that is not as it was recorded.
type Discrepancy struct {
	Table   string     `json:"table"`         // where: "events", "blobs", "runs", "checkpoints", ...
	Key     string     `json:"key"`           // which record, for people
	Seq     ledger.Seq `json:"seq,omitempty"` // the first event concerned
	Message string     `json:"message"`
}
