// Package redact replaces text that looks like a secret, in text and JSON, with a
// marker, and makes untrusted text safe to print on a terminal. It is pure. Start at
// [New], [Redactor.Text] and [Show].
//
// [Redactor] serves logs and reports: the ledger keeps the original text and commits to it by hash. [Keys] serves what goes to a model. Finding
// secrets by their looks is a net with holes; it stands beside, and never in place of, keeping
// secrets out of calls.
package redact

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/regex"
)

// minSecret is the length in bytes below which a value is too common a word to
// be searched for.
const minSecret = 8

// Redactor replaces secrets by markers such as [redacted:jwt]. Its methods are
// safe for concurrent use. The zero Redactor, also a nil one, knows the
// well-known formats and no values of its own.
type Redactor struct {
	off      bool
	known    bool     // looks for the known values alone
	values   []string // every spelling of every known value, longest first
	replacer *strings.Replacer
}

// New makes a Redactor that also knows the values of the named variables: values of at least 8
// bytes whose name looks secret (KEY, TOKEN, SECRET, PASSWORD, ...). Values are found as they are
// and in base64, hexadecimal, URL and JSON spelling.
func New(secrets map[string]string) *Redactor {
	seen := map[string]bool{}
	for name, value := range secrets {
		if SecretName(name) {
			for _, v := range spellings(value) {
				seen[v] = true
			}
		}
	}
	r := &Redactor{}
	for v := range seen {
		r.values = append(r.values, v)
	}
	slices.SortFunc(r.values, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	pairs := make([]string, 0, 2*len(r.values))
	for _, v := range r.values {
		pairs = append(pairs, v, marker("env"))
	}
	if len(pairs) > 0 {
		r.replacer = strings.NewReplacer(pairs...)
	}
	return r
}

// None makes a Redactor that changes nothing, for results as opposed to logs
// and reports.
func None() *Redactor { return &Redactor{off: true} }

// Known gives a Redactor that knows the same values and no formats. It is for what a
// person approves: a format matches text that a caller can shape, and would hide what
// the caller runs.
func (r *Redactor) Known() *Redactor {
	out := &Redactor{known: true}
	if r != nil {
		out.off, out.values, out.replacer = r.off, r.values, r.replacer
	}
	return out
}

// formats reports whether secrets are also found by their looks and by the names of
// their fields.
func (r *Redactor) formats() bool { return r == nil || !r.known }

var (
	secretName = regex.Lazy(`(?i)(KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|PRIVATE|_PASS$|_PAT$|_PWD$)`)
	placeName  = regex.Lazy(`(?i)(_PATH|_FILE|_DIR|_HOME|_SOCK)$`)
)

// SecretName reports whether a variable of this name is taken to hold a secret,
// rather than, say, the path of a file that does.
func SecretName(name string) bool {
	return secretName.MatchString(name) && !placeName.MatchString(name)
}

// spellings lists how a value may appear. One that the markers themselves hold
// could never be removed from a text, so it is not treated as a secret.
func spellings(v string) []string {
	v = strings.TrimSpace(v)
	if len(v) < minSecret || markerPart(v) {
		return nil
	}
	raw := []byte(v)
	quoted, _ := json.Marshal(v) // a string always has a JSON form
	out := []string{v}
	for _, s := range []string{
		strings.Trim(string(quoted), `"`), url.QueryEscape(v), url.PathEscape(v),
		base64.StdEncoding.EncodeToString(raw), base64.RawStdEncoding.EncodeToString(raw),
		base64.URLEncoding.EncodeToString(raw), base64.RawURLEncoding.EncodeToString(raw),
		hex.EncodeToString(raw), strings.ToUpper(hex.EncodeToString(raw)),
	} {
		if len(s) >= minSecret && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// marker is what stands in a secret's place.
func marker(kind string) string { return "[redacted:" + kind + "]" }

// markerPart reports whether some marker holds s.
func markerPart(s string) bool {
	for _, k := range kinds() {
		if strings.Contains(marker(k), s) {
			return true
		}
	}
	return false
}

// Text replaces the secrets in s. Doing it twice changes nothing more.
func (r *Redactor) Text(s string) string {
	if r != nil && r.off || len(s) < minSecret { // nothing known is that short, nor does any format fit
		return s
	}
	s = r.hide(s)
	if r.formats() {
		s = formats(s)
	}
	// A replacement can, with the text around it, form a known value anew.
	return r.hide(s)
}

// hide replaces the known values. A replacement can make a new occurrence, so
// it goes on until there is none; text that never settles is dropped as a whole.
func (r *Redactor) hide(s string) string {
	if r == nil || r.replacer == nil {
		return s
	}
	for range 8 {
		if !r.holds(s) {
			return s
		}
		next := r.replacer.Replace(s)
		if next == s {
			return s
		}
		s = next
	}
	return marker("env")
}

// holds reports whether s holds a known value: a search for each is faster than
// the replacer, which looks at every byte.
func (r *Redactor) holds(s string) bool {
	return slices.ContainsFunc(r.values, func(v string) bool { return strings.Contains(s, v) })
}
