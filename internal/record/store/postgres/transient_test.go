package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/remitrun/remit/internal/base/fault"
)

// sqlStates are the classes of SQLSTATE that PostgreSQL documents, and codes whose class is not
// enough.
const sqlStates = "00 01 02 03 08 09 0A 0B 0F 0L 0P 0Z 20 21 22 23 24 25 26 27 28 2B 2D 2F 34 38 39 3B 3D 3F 40 42 44 53 54 55 57 58 72 F0 HV P0 XX RM"

// finals are those whose errors stay the same.
const finals = "0L 0P 20 21 22 23 27 2B 2F 38 39 42 44 P0 RM"

// TestErrorsAreTransientUntilProvedOtherwise: every class of SQLSTATE, and the errors of the driver.
func TestErrorsAreTransientUntilProvedOtherwise(t *testing.T) {
	for _, class := range strings.Fields(sqlStates) {
		err := fmt.Errorf("query: %w", &pgconn.PgError{Code: class + "001"})
		if got, want := transient(err), !strings.Contains(finals, class) && class != "XX"; got != want {
			t.Errorf("class %s: transient is %v, want %v", class, got, want)
		}
	}
	_, connect := pgconn.Connect(t.Context(), "postgres://127.0.0.1:1/none")
	for err, want := range map[error]bool{
		&pgconn.PgError{Code: "57P01"}: true, &pgconn.PgError{Code: "57P02"}: true, &pgconn.PgError{Code: "57P03"}: true, &pgconn.PgError{Code: "57P05"}: true,
		&pgconn.PgError{Code: "08006"}: true, &pgconn.PgError{Code: "08P01"}: true, &pgconn.PgError{Code: "53100"}: true, &pgconn.PgError{Code: "53300"}: true,
		&pgconn.PgError{Code: "40001"}: true, &pgconn.PgError{Code: "40P01"}: true, &pgconn.PgError{Code: "55P03"}: true, &pgconn.PgError{Code: "57014"}: true,
		&pgconn.PgError{Code: "25006"}: true, &pgconn.PgError{Code: "XX000"}: true, &pgconn.PgError{Code: "XX002"}: false, &pgconn.PgError{}: true,
		&pgconn.PgError{Code: codeFenced}: false, &pgconn.PgError{Code: codeMoved}: false, &pgconn.PgError{Code: "42P01"}: false,
		io.EOF: true, io.ErrUnexpectedEOF: true, net.ErrClosed: true, driver.ErrBadConn: true, sql.ErrConnDone: true, connect: true,
		context.DeadlineExceeded: true, os.ErrDeadlineExceeded: true, syscall.ECONNRESET: true, syscall.ECONNREFUSED: true, errors.New("conn closed"): true,
		fmt.Errorf("%sof a column: %w", scanError, io.EOF): false, sql.ErrNoRows: false, fault.New(fault.StoreFailed, "Remit's own"): false, fault.New(fault.Denied, "no"): false,
		fault.Wrap(fault.StoreFailed, io.EOF, "the ledger cannot be read"): true, fault.Wrap(fault.StoreCorrupt, io.EOF, "damaged"): false, nil: false,
	} {
		if got := transient(err); got != want {
			t.Errorf("%v: transient is %v, want %v", err, got, want)
		}
	}
}
