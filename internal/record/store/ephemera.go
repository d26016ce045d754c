package store

import (
	"context"
	"time"
)

// Ephemera keeps small records that all processes of a ledger share, each until a time:
// logins that wait, sign-in codes, browsers, sessions of MCP clients. No event tells of them.
type Ephemera interface {
	// SaveEphemeral writes a record, or replaces the one of the same version. It reports
	// false if the stored one has another version, or if there is none and e.Version is not 0.
	// A record that has expired counts as missing. A new record beyond a bound is
	// fault.LimitReached.
	SaveEphemeral(ctx context.Context, e Ephemeral, b EphemeralBounds) (saved bool, err error)
	// Ephemeral finds a record that has not expired; false: there is none.
	Ephemeral(ctx context.Context, kind string, key [32]byte) (Ephemeral, bool, error)
	// Ephemerals lists the records of a kind and an owner that have not expired, the first to
	// expire first.
	Ephemerals(ctx context.Context, kind, owner string) ([]Ephemeral, error)
	// DropEphemeral removes a record. It reports false if the stored one has another version,
	// has expired, or is not there: of several callers one removes it.
	DropEphemeral(ctx context.Context, e Ephemeral) (dropped bool, err error)
}

// Ephemeral is a record of Ephemera.
type Ephemeral struct {
	Kind    string
	Key     [32]byte // digest of the record's name, such as a secret
	Owner   string   // that its bound counts for: an address, a host, a grant
	Version int64    // how often the record was written; 0: it is new
	Until   time.Time
	Data    []byte // kept encrypted under the ledger's keys
}

// EphemeralBounds bounds new records of a kind. Zero fields do not limit.
type EphemeralBounds struct {
	All  int // of the kind
	Each int // of the kind and one owner
}
