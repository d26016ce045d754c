// Package openapi makes tools of OpenAPI documents: one for each operation, with a closed
// schema of its arguments. Requests are sent under the call's permit, with the credentials
// that the operator configured and the caller never sees. Start at [Compile] and [New].
//
// Documents of versions 3.0 and 3.1 are read, in JSON or YAML. Nothing is fetched
// for one: a reference to another document is an error. Schemas only find bad arguments
// early, since the server checks them itself. So parts that cannot be kept (an unsupported
// pattern, too many definitions) are left out.
package openapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/gob"

	"github.com/remitrun/remit/internal/base/fault"
)

// Bounds of a document.
const (
	MaxDocument   = 32 << 20 // bytes of a document
	maxOperations = 10000
	maxSchema     = 128 << 10 // bytes of one tool's schema
	maxText       = 600       // bytes of a description
)

// Document is the parts of an OpenAPI document that tools are made of.
type Document struct {
	Title      string
	Version    string   // of the API, as the document says
	Base       string   // the URL that paths are appended to; "" if the document names none
	Wants      []string // the credentials that the document speaks of, as they are configured: "bearer=SECRET"
	Operations []Operation
}

// Operation is one operation of a document.
type Operation struct {
	Name        string // the last part of the tool's ID
	Method      string // in capitals
	Path        string // with {parameters}
	Base        string // the operation's own base; "": the document's
	Title       string
	Description string
	Params      []Param
	Body        *Body  // nil: it has none
	Input       []byte // JSON Schema
	Open        bool   // the document says that it needs no credentials
	Deprecated  bool
}

// Param is one parameter of an operation.
type Param struct {
	Arg      string // the argument's name
	Name     string // the parameter's
	In       string // path, query, header or cookie
	Style    string
	Explode  bool
	Required bool
	JSON     bool // written as JSON
	Segments bool // of a path: may hold slashes, each part is written by itself
}

// Body is an operation's request body.
type Body struct {
	Arg      string // the argument's name
	Media    string
	Required bool
	Base64   bool     // the argument is text in Base64
	Binary   []string // fields of a form that are Base64
}

// format numbers the encoding of compiled documents.
const format = "remit-api-2\n"

// Encode writes a compiled document, with a check sum.
func (d *Document) Encode() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(format)
	if err := gob.NewEncoder(&b).Encode(d); err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the compiled document cannot be written")
	}
	sum := sha256.Sum256(b.Bytes())
	return append(b.Bytes(), sum[:]...), nil
}

// Decode reads what Encode wrote. A damaged document, or one written by another version, is an
// error: the document is then compiled again.
func Decode(src []byte) (*Document, error) {
	n := len(src) - sha256.Size
	if n < len(format) || string(src[:len(format)]) != format || sha256.Sum256(src[:n]) != [sha256.Size]byte(src[n:]) {
		return nil, fault.New(fault.StoreCorrupt, "the compiled document is damaged or of another version")
	}
	d := &Document{}
	if err := gob.NewDecoder(bytes.NewReader(src[len(format):n])).Decode(d); err != nil {
		return nil, fault.Wrap(fault.StoreCorrupt, err, "the compiled document is damaged")
	}
	return d, nil
}
