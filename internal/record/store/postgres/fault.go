package postgres

import (
	"errors"
	"io/fs"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/remitrun/remit/internal/base/fault"
)

// The codes of errors that remit_expect raises.
const (
	codeMoved  = "RM001" // another node changed a run
	codeFenced = "RM002" // the node was removed from table members, or its last batch has another number on the server
)

// The codes of the server's own errors.
const (
	codeLockTimeout     = "55P03"
	codeDeadlock        = "40P01"
	codeCheckViolation  = "23514"
	codeUniqueViolation = "23505"
	codeDuplicateTable  = "42P07"
)

// explain returns the code, the message and the hint for an error of the server.
func explain(err error) (fault.Code, string, string) {
	var pe *pgconn.PgError
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fault.StoreReadOnly, "it cannot be written", "check the owner and mode of the home folder"
	case !errors.As(err, &pe):
		return fault.StoreFailed, "the server cannot be reached, or ended the connection", "check that PostgreSQL runs at this address and accepts connections"
	}
	switch pe.Code {
	case codeFenced:
		return fault.StoreFailed, "the lease of this node was over", "try again: the node joins anew by itself"
	case "53100", "53200", "53400":
		return fault.StoreFull, "the server has no space left", "free some space; nothing that was acknowledged is lost"
	case "25006", "42501":
		return fault.StoreReadOnly, "the server does not permit writing", "check the role's privileges, and that the server is not a standby"
	case codeLockTimeout, "57014", codeDeadlock:
		return fault.StoreFailed, "the server was busy for too long", "try again"
	case "28000", "28P01", "3D000", "3F000":
		return fault.StoreFailed, "the server refused the connection: " + pe.Message, "check the user, the password and the database of the URL"
	case "42P01", "42703", "42883":
		return fault.StoreCorrupt, "a table, column or function of the ledger is missing", "remit verify lists the changed records; if a newer Remit has updated the tables, use that one"
	}
	return fault.StoreFailed, "PostgreSQL reported: " + pe.Message + " (" + pe.Code + ")", "try again; remit verify tells whether the ledger is sound"
}

func isCode(err error, code string) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && pe.Code == code
}
