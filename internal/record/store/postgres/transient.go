package postgres

import (
	"database/sql"
	"errors"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/remitrun/remit/internal/base/fault"
)

// permanentClasses are the classes of SQLSTATE whose errors are final: the server has read the
// statement, and its answer to it will stay the same.
var permanentClasses = []string{
	"0L", "0P", // invalid grantor, invalid role
	"20", "21", // case not found, cardinality
	"22", "23", // data, integrity
	"27", "2B", // triggered data change, dependent privileges
	"2F", "38", "39", // functions
	"42", "44", // syntax or access rule, WITH CHECK OPTION
	"P0", "RM", // raised by functions; RM by those of the ledger
}

// permanentCodes are further final errors, in classes that also have others.
var permanentCodes = []string{"XX001", "XX002"} // damaged data, damaged index

// scanError begins the errors of package sql about a value that does not fit: somebody else has
// written it, and it stays.
const scanError = "sql: Scan error "

// transient reports whether an error can pass by itself. That is true of every error of the driver
// and the server, except for the known final ones. Errors that Remit itself found are final.
func transient(err error) bool {
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		return len(pe.Code) != 5 || !slices.Contains(permanentClasses, pe.Code[:2]) && !slices.Contains(permanentCodes, pe.Code)
	}
	var found *fault.Error
	switch {
	case err == nil, errors.Is(err, sql.ErrNoRows), strings.HasPrefix(err.Error(), scanError):
		return false
	case errors.As(err, &found):
		return found.Code != fault.StoreCorrupt && found.Code/1000 == fault.StoreFailed/1000 && found.Err != nil && transient(found.Err)
	}
	return true
}
