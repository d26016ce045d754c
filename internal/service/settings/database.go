package settings

import (
	"net/url"
	"time"

	"github.com/remitrun/remit/internal/base/document"
)

// Database is the PostgreSQL database that keeps the ledger.
type Database struct {
	URL   string        // without a password, or "secret:NAME" for a stored one; "": a file of $REMIT_HOME
	Lease time.Duration // how long a node stays a member without renewing; 0: the default
}

func (r *reader) database(into *string) document.Field {
	return func(n *document.Node, path string) {
		text, ok := r.Text(n, path)
		if !ok {
			return
		}
		*into = text
		if _, stored := StoredSecret(text); stored {
			*into = r.stored(n, path)
			return
		}
		u, err := url.Parse(text)
		switch {
		case err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql":
			r.Fail(n, path, "must be a URL as postgres://user@host/name, or secret:NAME")
		case hasPassword(u):
			r.Fail(n, path, "must not contain a password").Hint = "put the password into ~/.pgpass; or store the whole URL with remit secret set NAME, and write secret:NAME here"
		}
	}
}

func hasPassword(u *url.URL) bool {
	_, set := u.User.Password()
	return set || u.Query().Has("password")
}

// Bounds of a lease: a shorter one is lost to a slow commit.
const (
	minLease = 500 * time.Millisecond
	maxLease = 5 * time.Minute
)

func (r *reader) lease(into *time.Duration) document.Field {
	return func(n *document.Node, path string) {
		d, err := document.ParseDuration(n.Text)
		if n.Kind != document.String || err != nil || d < minLease || d > maxLease {
			r.Expected(n, path, "a time from 500ms to 5m")
			return
		}
		*into = d
	}
}
