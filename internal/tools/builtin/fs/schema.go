package fs

import (
	"embed"
	"encoding/json"
)

//go:embed schema/*.json
var schemas embed.FS

// schemaOf returns a schema of this package; a missing one fails every test, for
// it is not JSON.
func schemaOf(name string) json.RawMessage {
	b, err := schemas.ReadFile("schema/" + name + ".json")
	if err != nil {
		return nil
	}
	return b
}
