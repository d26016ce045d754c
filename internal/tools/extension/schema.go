package extension

import (
	"bytes"
	_ "embed" // the schemas
)

var (
	//go:embed manifest.schema.json
	manifestSchema []byte
	//go:embed commands.schema.json
	commandsSchema []byte
)

// DocumentSchema returns the JSON Schema (2020-12) of a document of extensions, for
// editors: "manifest" or "commands"; nil for any other.
func DocumentSchema(name string) []byte {
	switch name {
	case "manifest":
		return bytes.Clone(manifestSchema)
	case "commands":
		return bytes.Clone(commandsSchema)
	}
	return nil
}
