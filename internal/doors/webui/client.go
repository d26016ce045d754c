package webui

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/doors/httpapi"
)

// client makes requests to the API within this process, under the grant of one device.
type client struct {
	api   http.Handler
	r     *http.Request // the browser's, for its host, address and end
	token string
}

// get reads a resource into out.
func (c client) get(path string, query url.Values, out any) error {
	return c.do(http.MethodGet, path, query, nil, nil, out)
}

// post sends a value, and reads the answer into out unless that is nil.
func (c client) post(path string, in, out any) error {
	return c.do(http.MethodPost, path, nil, nil, in, out)
}

func (c client) do(method, path string, query url.Values, header http.Header, in, out any) error {
	var answer buffer
	if err := c.serve(&answer, method, path, query, header, in); err != nil {
		return err
	}
	if answer.status >= http.StatusBadRequest {
		return answer.problem()
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(answer.body.Bytes(), out); err != nil {
		return fault.Wrap(fault.Internal, err, "an answer of the API to %s cannot be read", path)
	}
	return nil
}

// serve makes a request whose answer is written to w.
func (c client) serve(w http.ResponseWriter, method, path string, query url.Values, header http.Header, in any) error {
	var body io.Reader = http.NoBody
	var size int
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return fault.Wrap(fault.Internal, err, "a request cannot be encoded")
		}
		body, size = bytes.NewReader(b), len(b)
	}
	target, err := url.Parse(path) // its parts are escaped
	if err != nil {
		return fault.New(fault.Usage, "the address cannot be read")
	}
	target.RawQuery = query.Encode()
	r, err := http.NewRequestWithContext(c.r.Context(), method, target.String(), body)
	if err != nil {
		return fault.New(fault.Usage, "the address cannot be read")
	}
	r.Host, r.RemoteAddr, r.RequestURI, r.ContentLength = c.r.Host, c.r.RemoteAddr, target.RequestURI(), int64(size)
	for name, values := range header {
		r.Header[name] = values
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	if in != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	c.api.ServeHTTP(w, r)
	return nil
}

// escaped is a path of several parts as a part of an address.
func escaped(path string) string { return (&url.URL{Path: path}).EscapedPath() }

// buffer is an answer in memory.
type buffer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (b *buffer) Header() http.Header {
	if b.header == nil {
		b.header = http.Header{}
	}
	return b.header
}

// WriteHeader implements http.ResponseWriter.
func (b *buffer) WriteHeader(status int) {
	if b.status == 0 {
		b.status = status
	}
}

// Write implements http.ResponseWriter.
func (b *buffer) Write(p []byte) (int, error) {
	b.WriteHeader(http.StatusOK)
	return b.body.Write(p)
}

// problem reads the answer as an error.
func (b *buffer) problem() *httpapi.Problem {
	p := &httpapi.Problem{}
	if err := json.Unmarshal(b.body.Bytes(), p); err != nil || p.Status == 0 {
		return &httpapi.Problem{Status: b.status, Title: http.StatusText(b.status), Detail: "the service cannot do this now"}
	}
	return p
}

// problemOf makes a problem of an error. Only the API's message is shown.
func problemOf(err error) *httpapi.Problem {
	var p *httpapi.Problem
	if errors.As(err, &p) {
		return p
	}
	status := http.StatusInternalServerError
	detail, hint := "the service cannot do this now", "look at the service's log"
	var one *fault.Error
	if errors.As(err, &one) && one.Code != fault.Internal && one.Code != fault.StoreFailed {
		detail, hint, status = one.Msg, one.Hint, http.StatusBadRequest
		if one.Code == fault.NotFound {
			status = http.StatusNotFound
		}
	}
	return &httpapi.Problem{Status: status, Title: http.StatusText(status), Detail: detail, Hint: hint, Code: fault.CodeOf(err).Error()}
}
