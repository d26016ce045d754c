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

// Page selects a part of a list.
type Page struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"Maximum number of items"`
	Cursor string `query:"cursor" maxLength:"200" doc:"The start of the page: next of the previous page"`
}

// A cursor is opaque to clients. It has the kind of the list and a position in it.
func cursor(kind, at string) string {
	sum := sha256.Sum256([]byte(kind + "\x00" + at))
	return base64.RawURLEncoding.EncodeToString(append(sum[:4], at...))
}

// place reads the cursor of a kind of list; "" is the beginning.
func (p Page) place(kind string) (string, error) {
	if p.Cursor == "" {
		return "", nil
	}
	b, err := base64.RawURLEncoding.DecodeString(p.Cursor)
	if err != nil || len(b) <= 4 || cursor(kind, string(b[4:])) != p.Cursor {
		e := bad(http.StatusBadRequest, fault.Usage, "the cursor does not belong to this list", "use next of the previous page, unchanged")
		e.Errors = []FieldError{{Field: "query.cursor", Message: "does not belong to this list"}}
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

// ifMatch reads the header If-Match: the required version; 0: any.
func ifMatch(header string) (int, error) {
	if header = strings.TrimSpace(header); header == "" || header == "*" {
		return 0, nil
	}
	v, ok := strings.CutPrefix(strings.Trim(header, `"`), "v")
	n, err := strconv.Atoi(v)
	if !ok || err != nil || n < 1 || etag(n) != header {
		e := bad(http.StatusBadRequest, fault.Usage, "If-Match is not an entity tag of this service", "use the ETag from the response that you change")
		e.Errors = []FieldError{{Field: "header.If-Match", Message: "must be an entity tag as \"v3\""}}
		return 0, e
	}
	return n, nil
}

// stale gives a conflict of versions the status 412 if the client required a version.
func stale(err error, ifVersion int) error {
	code := fault.CodeOf(err)
	if ifVersion > 0 && (code == fault.Stale || code == fault.Conflict) {
		return problem(err).as(http.StatusPreconditionFailed)
	}
	return err
}

// missing is the error for things that do not exist, or that the caller may not know of.
func missing(code fault.Code, what, id string) error {
	if len(id) > 64 {
		id = id[:64] + "…"
	}
	return fault.New(code, "no %s has the ID %q", what, id)
}

// checkWholeID checks that an ID is complete. A prefix, which the command line accepts, could name
// something else later.
func checkWholeID(code fault.Code, what, id string) error {
	if u, err := uuid.Parse(id); err != nil || u.String() != id {
		return missing(code, what, id)
	}
	return nil
}
