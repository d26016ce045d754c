package policy

import (
	"bytes"
	_ "embed" // the schema is a file, so that editors can be pointed at it
)

//go:embed schema.json
var schema []byte

// Schema returns the format's JSON Schema (2020-12), for editors. It is looser than
// [Parse] where a schema cannot express the form of a pattern or a size.
func Schema() []byte { return bytes.Clone(schema) }
