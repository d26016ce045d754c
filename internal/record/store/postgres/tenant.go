package postgres

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store/tables"
)

// Tenant is a database for one ledger, with a role that can reach no other tenant's.
type Tenant struct {
	Database string   `json:"database"`
	Role     string   `json:"role"`
	Password string   `json:"-"`
	URL      string   `json:"url"` // without the password
	Open     []string `json:"open,omitempty"`
	Trusted  bool     `json:"trusted,omitempty"`
}

// TenantConnections is how many connections a tenant may have at once: those of six nodes.
const TenantConnections = 100

// passfile is the URL's parameter that names a file with the password.
const passfile = "passfile"

// isTenantName reports whether a name begins with a letter, and has no others than small ones,
// digits and _.
func isTenantName(name string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	return name != "" && len(name) <= 40 && strings.Contains(letters, name[:1]) && strings.Trim(name, letters+"0123456789_") == ""
}

// MakeTenant makes the role and the database of a tenant, as a role that may make both. The
// database is the boundary: nothing inside one (tables, locks, notifications) is seen from another,
// and only the tenant's role may connect to it.
func MakeTenant(ctx context.Context, admin, name string) (Tenant, error) {
	t := Tenant{Database: "remit_" + name, Role: "remit_" + name, Password: rand.Text()}
	if !isTenantName(name) {
		return t, fault.New(fault.Usage, "%q is not a valid name of a tenant; expected lower-case letters, digits and _, as blue_team", tables.Clean(name))
	}
	config, err := pgx.ParseConfig(admin)
	u, uerr := url.Parse(admin)
	if err != nil || uerr != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return t, fault.New(fault.Usage, "the database's URL is not valid").WithHint("write it as postgres://user@host/name") // the error may have the password
	}
	where := address(config)
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return t, tables.Fault(err, "the server cannot be reached", where, explain)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if err := t.make(ctx, conn); err != nil {
		return t, tables.Fault(err, "the tenant cannot be made", where, explain)
	}
	t.URL = t.urlFrom(u)
	if t.Open, err = t.reaches(ctx, conn); err != nil {
		return t, tables.Fault(err, "the tenant's rights cannot be read", where, explain)
	}
	t.Trusted = t.trusted(ctx, config)
	return t, nil
}

// make makes the role and the database, or nothing.
func (t Tenant) make(ctx context.Context, conn *pgx.Conn) error {
	var roles, databases int
	err := conn.QueryRow(ctx, "SELECT (SELECT count(*) FROM pg_roles WHERE rolname = $1), (SELECT count(*) FROM pg_database WHERE datname = $2)", t.Role, t.Database).Scan(&roles, &databases)
	if err != nil {
		return err
	}
	if roles+databases > 0 {
		return fault.New(fault.Conflict, "the server has a role or a database %q already", t.Role).WithHint("choose another name, or remove them first: their data would be lost")
	}
	verifier, err := scramVerifier(t.Password)
	if err != nil {
		return err
	}
	role, database := pgx.Identifier{t.Role}.Sanitize(), pgx.Identifier{t.Database}.Sanitize()
	statements := []string{ // the server's log may have them: the password is not in them
		fmt.Sprintf("CREATE ROLE %s LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS CONNECTION LIMIT %d PASSWORD '%s'", role, TenantConnections, verifier),
		"GRANT " + role + " TO CURRENT_USER",
		"CREATE DATABASE " + database + " OWNER " + role + " TEMPLATE template0 ENCODING 'UTF8'",
		"REVOKE ALL ON DATABASE " + database + " FROM PUBLIC",
		"REVOKE " + role + " FROM CURRENT_USER",
	}
	for i, s := range statements {
		if _, err := conn.Exec(ctx, s); err != nil {
			for _, undo := range []string{"DROP DATABASE IF EXISTS " + database, "DROP ROLE IF EXISTS " + role} {
				if i == 0 {
					break // it made nothing
				}
				if _, uerr := conn.Exec(context.WithoutCancel(ctx), undo); uerr != nil {
					err = errors.Join(err, uerr)
				}
			}
			return err
		}
	}
	return nil
}

// urlFrom is the URL of the tenant's database on the server of another one.
func (t Tenant) urlFrom(admin *url.URL) string {
	out, q := *admin, admin.Query()
	for _, name := range []string{"user", "password", "dbname", "database", "search_path", "options", passfile} {
		q.Del(name)
	}
	out.User, out.Path, out.RawQuery = url.User(t.Role), "/"+t.Database, q.Encode()
	return out.String()
}

// WithPassfile adds the name of a file that has the password, in the form of ~/.pgpass.
func (t *Tenant) WithPassfile(file string) (content string) {
	if u, err := url.Parse(t.URL); err == nil {
		q := u.Query()
		q.Set(passfile, file)
		u.RawQuery = q.Encode()
		t.URL = u.String()
	}
	return strings.Join([]string{"*", "*", t.Database, t.Role, t.Password}, ":") + "\n"
}

// reaches lists the other databases to which the tenant's role may connect: there it could
// meet other tenants, or hold locks that others wait for.
func (t Tenant) reaches(ctx context.Context, conn *pgx.Conn) ([]string, error) {
	rows, err := conn.Query(ctx, "SELECT datname FROM pg_database WHERE datallowconn AND datname <> $1 AND has_database_privilege($2, oid, 'CONNECT') ORDER BY datname", t.Database, t.Role)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// trusted reports whether the server lets the tenant's role in without its password.
func (t Tenant) trusted(ctx context.Context, admin *pgx.ConnConfig) bool {
	c := admin.Copy()
	c.User, c.Database, c.Password = t.Role, t.Database, "not the password"
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return false
	}
	_ = conn.Close(ctx)
	return true
}

// scramRounds are PostgreSQL's.
const scramRounds = 4096

// scramVerifier is what PostgreSQL keeps of a password (RFC 5803), so that it need not be sent.
// The password is ASCII, which SASLprep leaves as it is.
func scramVerifier(password string) (string, error) {
	salt := make([]byte, 16)
	if _, err := rand.Read(salt); err != nil {
		return "", err
	}
	return scramWith(password, salt)
}

func scramWith(password string, salt []byte) (string, error) {
	salted, err := pbkdf2.Key(sha256.New, password, salt, scramRounds, sha256.Size)
	if err != nil {
		return "", err
	}
	mac := func(text string) []byte {
		m := hmac.New(sha256.New, salted)
		_, _ = m.Write([]byte(text)) // never fails
		return m.Sum(nil)
	}
	stored := sha256.Sum256(mac("Client Key"))
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", scramRounds, b64(salt), b64(stored[:]), b64(mac("Server Key"))), nil
}
