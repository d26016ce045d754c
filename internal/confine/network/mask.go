package network

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// hidden stands where a secret was.
const hidden = "***"

// mask is the spellings of the secrets that a request was sent with, the longest
// first. It removes them from the response: a server that echoes a header must
// not reveal the secret to the caller. A hostile server can spell it in some
// other way.
type mask []string

// add gives a mask that also hides a secret, as it is and as it stands in URLs,
// JSON and Base64.
func (m mask) add(secret string) mask {
	quoted, err := json.Marshal(secret)
	if err != nil {
		quoted = []byte(`""`) // a string can always be written
	}
	for _, s := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret), strings.Trim(string(quoted), `"`),
		base64.StdEncoding.EncodeToString([]byte(secret)), base64.RawURLEncoding.EncodeToString([]byte(secret))} {
		if s != "" && !slices.Contains(m, s) {
			m = append(m, s)
		}
	}
	slices.SortFunc(m, func(a, b string) int { return len(b) - len(a) })
	return m
}

// text hides the secrets in a text.
func (m mask) text(s string) string {
	for _, secret := range m {
		s = strings.ReplaceAll(s, secret, hidden)
	}
	return s
}

// err gives an error whose text, and whatever it wraps, holds no secret.
func (m mask) err(err error) error {
	if err == nil || len(m) == 0 {
		return err
	}
	if clean := m.text(err.Error()); clean != err.Error() {
		return errors.New(clean)
	}
	return err
}

func (m mask) header(h http.Header) {
	if len(m) == 0 {
		return
	}
	for name, values := range h {
		clean := m.text(name)
		if clean != name {
			delete(h, name)
		}
		for i := range values {
			values[i] = m.text(values[i])
		}
		h[clean] = values
	}
}

// masked hides secrets in the bytes that are read from it.
type masked struct {
	io.ReadCloser
	mask  mask
	first [256]bool // the bytes that a secret can begin with
	ready []byte    // to be given out
	held  []byte    // may be the beginning of a secret
	err   error
}

func (m mask) body(b io.ReadCloser) io.ReadCloser {
	if len(m) == 0 {
		return b
	}
	r := &masked{ReadCloser: b, mask: m}
	for _, s := range m {
		r.first[s[0]] = true
	}
	return r
}

func (r *masked) Read(p []byte) (int, error) {
	for len(r.ready) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		var chunk [4 << 10]byte
		n, err := r.ReadCloser.Read(chunk[:])
		r.take(append(r.held, chunk[:n]...), err)
	}
	n := copy(p, r.ready)
	r.ready = r.ready[n:]
	return n, nil
}

// take hides secrets in the bytes read and keeps back a possible beginning of
// one. If the answer breaks off, that beginning is dropped.
func (r *masked) take(b []byte, err error) {
	r.ready, r.held, r.err = nil, nil, err
	for len(b) > 0 {
		secret, begun := r.at(b)
		switch {
		case begun && err == nil:
			r.held = b
			return
		case begun && !errors.Is(err, io.EOF):
			return
		case secret > 0:
			r.ready, b = append(r.ready, hidden...), b[secret:]
		default:
			n := 1
			for n < len(b) && !r.first[b[n]] {
				n++
			}
			r.ready, b = append(r.ready, b[:n]...), b[n:]
		}
	}
}

// at gives the length of the secret that b begins with, or reports that b may be
// the beginning of one: then more must be read to know, also where a shorter one
// is there already.
func (r *masked) at(b []byte) (length int, begun bool) {
	for _, s := range r.mask { // the longest first
		if len(b) < len(s) && s[:len(b)] == string(b) {
			begun = true
		}
		if length == 0 && bytes.HasPrefix(b, []byte(s)) {
			length = len(s)
		}
	}
	return length, begun
}
