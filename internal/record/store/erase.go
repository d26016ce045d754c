package store

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/record/ledger"
)

// Erasing erases payloads. Events stay, with their commitments, so that the log and every proof
// still verify; an event records the erased payloads, the time and the actor.
type Erasing interface {
	// Erase erases the payloads that are chosen, or with dry only counts them.
	Erase(ctx context.Context, e Erasure, dry bool) (Erased, error)
}

// Erasure chooses payloads: those of one run, of one deleted session with its runs, of the
// runs and deleted sessions of one holder of grants, or of all that ended before a time.
type Erasure struct {
	Run     ledger.Seq
	Session uuid.UUID
	Holder  string
	Before  time.Time

	Runs, Sessions bool // with Before: which are erased

	Scope string // for the record: the request
	By    string // who erases
}

// Erased counts the erased payloads, or in a trial the payloads that would be erased.
type Erased struct {
	Runs     int   `json:"runs"`
	Sessions int   `json:"sessions"`
	Payloads int   `json:"payloads"`
	Blobs    int   `json:"blobs"`
	Bytes    int64 `json:"bytes"` // as stored

	Open   int `json:"open"`   // runs that were left out: they have not ended, or their changes are not applied or discarded
	Live   int `json:"live"`   // sessions that were left out: they are not deleted
	Shared int `json:"shared"` // blobs that stay, since other payloads have the same content

	Left []string `json:"left,omitempty"` // copies in the database's own files that remain

	RunIDs []uuid.UUID `json:"-"` // of Runs
}
