package store

import (
	"context"

	"github.com/google/uuid"
)

// Turns says which node of a fleet works on a session. Only a store that several machines
// use implements it; elsewhere the session's open run says it.
type Turns interface {
	// TakeTurn gives a session's turn to this node, unless another member has it: the error is
	// fault.SessionBusy and names that node. The epoch is higher than that of each turn before. The
	// caller is encoded as another node needs it to continue the turn; it is kept encrypted under
	// the ledger's keys until the turn ends.
	TakeTurn(ctx context.Context, session uuid.UUID, caller []byte) (epoch int64, err error)
	// EndTurn ends a turn of this node. It does nothing to a turn that another node has taken
	// since.
	EndTurn(ctx context.Context, session uuid.UUID, epoch int64) error
	// LeaveTurn leaves a turn of this node with a request: BeginTurn or CancelTurn, which this
	// node or, if it dies, another one carries out.
	LeaveTurn(ctx context.Context, session uuid.UUID, epoch int64, r TurnRequest) error
	// AskTurn asks the other member that has a session's turn for something. It reports
	// false if there is none.
	AskTurn(ctx context.Context, session uuid.UUID, r TurnRequest) (bool, error)
	// PollTurns returns the requests to this node's turns, each until AnswerTurn, and
	// whether there are turns of nodes that are dead.
	PollTurns(ctx context.Context) (asked []AskedTurn, dead bool, err error)
	// AnswerTurn removes a request that was carried out.
	AnswerTurn(ctx context.Context, a AskedTurn) error
	// AdoptTurns gives the turns of all removed nodes to this one, with the request
	// BeginTurn.
	AdoptTurns(ctx context.Context) error
}

// TurnRequest is a request of one node to the node that has a turn.
type TurnRequest int64

// The requests.
const (
	NoRequest    TurnRequest = 0 // only whether another member has the turn
	CancelTurn   TurnRequest = 1
	PauseTurn    TurnRequest = 2
	ContinueTurn TurnRequest = 3
	BeginTurn    TurnRequest = 4 // of AdoptTurns and LeaveTurn: the turn is to be continued
)

// AskedTurn is a turn of this node, with the requests for it.
type AskedTurn struct {
	Session uuid.UUID
	Epoch   int64
	Request TurnRequest
	Caller  []byte // as TakeTurn was given it; nil: it cannot be decrypted
}
