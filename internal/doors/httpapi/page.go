package httpapi

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
)

// Page chooses a part of a list.
type Page struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"At most so many items"`
	Cursor string `query:"cursor" maxLength:"200" doc:"Where the page begins: next of the page before"`
}

// A cursor is opaque to clients: what kind of list it is of, and where in it.
func cursor(kind, at string) string {
	sum := sha256.Sum256([]byte(kind + "\x00" + at))
	return base64.RawURLEncoding.EncodeToString(append(sum[:4], at...))
}

// place reads a cursor of a kind of list; "" is the beginning.
func (p Page) place(kind string) (string, error) {
	if p.Cursor == "" {
		return "", nil
	}
	b, err := base64.RawURLEncoding.DecodeString(p.Cursor)
	if err != nil || len(b) <= 4 || cursor(kind, string(b[4:])) != p.Cursor {
		e := bad(http.StatusBadRequest, fault.Usage, "the cursor is not one of this list", "pass next of the page before, unchanged")
		e.Errors = []FieldError{{Field: "query.cursor", Message: "it is not a cursor of this list"}}
		return "", e
	}
	return string(b[4:]), nil
}

func (p Page) uuid(kind string) (uuid.UUID, error) {
	at, err := p.place(kind)
	if err != nil || at == "" {
		return uuid.Nil, err
	}
	return uuid.Parse(at)
}

func (p Page) number(kind string) (uint64, error) {
	at, err := p.place(kind)
	if err != nil || at == "" {
		return 0, err
	}
	return strconv.ParseUint(at, 10, 64)
}

// etag is a version as an entity tag.
func etag(version int) string { return `"v` + strconv.Itoa(version) + `"` }

// ifMatch reads the header If-Match: the version that must be there, 0 for any.
func ifMatch(header string) (int, error) {
	if header = strings.TrimSpace(header); header == "" || header == "*" {
		return 0, nil
	}
	v, ok := strings.CutPrefix(strings.Trim(header, `"`), "v")
	n, err := strconv.Atoi(v)
	if !ok || err != nil || n < 1 || etag(n) != header {
		e := bad(http.StatusBadRequest, fault.Usage, "If-Match is not an entity tag of this service", "pass the ETag that came with what you change")
		e.Errors = []FieldError{{Field: "header.If-Match", Message: "it is no entity tag as \"v3\""}}
		return 0, e
	}
	return n, nil
}

// stale tells a conflict of versions as 412 where the client said which one it
// meant.
func stale(err error, ifVersion int) error {
	code := fault.CodeOf(err)
	if ifVersion > 0 && (code == fault.Stale || code == fault.Conflict) {
		return problem(err).as(http.StatusPreconditionFailed)
	}
	return err
}

// missing is what tells of things that there are not, and of those that the caller
// may not know of.
func missing(code fault.Code, what, id string) error {
	if len(id) > 64 {
		id = id[:64] + "…"
	}
	return fault.New(code, "no %s has the ID %q", what, id)
}

// whole checks that an ID is a whole one: the beginning of one, which people may
// type elsewhere, could come to name another thing.
func whole(code fault.Code, what, id string) error {
	if u, err := uuid.Parse(id); err != nil || u.String() != id {
		return missing(code, what, id)
	}
	return nil
}
