// Package sessionfiles has the capability session_file_system: tools for the session's
// own files, which no other session can see. Start at [New].
package sessionfiles

import (
	_ "embed" // the prompt
	"encoding/json"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/typed"
)

// ID is the capability's.
const ID = "session_file_system"

//go:embed prompt.md
var prompt string

// Capability is the capability session_file_system.
type Capability struct{}

// New makes the capability.
func New() Capability { return Capability{} }

// Info describes the capability.
func (Capability) Info() capability.Info {
	return capability.Info{ID: ID, Name: "File System",
		Description: "Tools to access and manipulate files in the session file system - read, write, list, search, edit and delete files.",
		Status:      capability.Available, Icon: "folder", Category: "File Operations", Version: "1"}
}

const (
	pathIn   = `"path":{"type":"string","minLength":1,"maxLength":1024,"description":"Absolute path in the session's files, as /docs/readme.txt."}`
	guardIn  = `"if_version":{"type":"integer","minimum":0,"description":"Only if the file has this version (0: only if it is not there)."}`
	pathOut  = `"path":{"type":"string"}`
	sizesOut = `"size_bytes":{"type":"integer"},"version":{"type":"integer"}`
)

// session has the session that the tools belong to.
type session struct{ capability.Session }

// Part offers the tools.
func (Capability) Part(s capability.Session, _ json.RawMessage) (capability.Part, error) {
	x := session{s}
	read, write, remove := tool.EffectSet(tool.FSRead), tool.EffectSet(tool.FSWrite), tool.EffectSet(tool.FSDelete)
	return capability.Part{Prompt: prompt, Tools: []capability.Offer{
		own("read_file", "Read a file", tool.Low, read,
			"Reads a file of the session. Text comes as it is, anything else as base64. A long file comes in parts: next_offset says where the next one begins.",
			typed.Object(pathIn+`,"offset":{"type":"integer","minimum":0,"description":"Byte at which to begin; default 0."},
				"limit":{"type":"integer","minimum":1,"maximum":1048576,"description":"Most bytes of the file to give; default 262144."}`, "path"),
			typed.Object(pathOut+`,"content":{"type":"string"},"encoding":{"enum":["text","base64"]},"truncated":{"type":"boolean"},"next_offset":{"type":"integer"},`+sizesOut,
				"path", "content", "encoding", "size_bytes", "version", "truncated"), x.read),
		own("write_file", "Write a file", tool.Low, write,
			"Creates a file of the session, or replaces its content. Missing parent folders are made.",
			typed.Object(pathIn+`,"content":{"type":"string","description":"The whole content."},
				"encoding":{"enum":["text","base64"],"description":"How content is encoded; default text."},`+guardIn, "path", "content"),
			typed.Object(pathOut+`,"created":{"type":"boolean"},`+sizesOut, "path", "size_bytes", "created", "version"), x.write),
		own("list_directory", "List a folder", tool.Low, read,
			"Lists the files and folders in a folder of the session, folders first.",
			typed.Object(`"path":{"type":"string","minLength":1,"maxLength":1024,"description":"The folder; default /."}`),
			typed.Object(pathOut+`,"count":{"type":"integer"},"truncated":{"type":"boolean"},"entries":{"type":"array","items":{"type":"object","additionalProperties":false,
				"required":["name","path","is_directory","size_bytes"],"properties":{"name":{"type":"string"},"path":{"type":"string"},"is_directory":{"type":"boolean"},
				"is_readonly":{"type":"boolean"},"updated_at":{"type":"string"},`+sizesOut+`}}}`, "path", "entries", "count", "truncated"), x.list),
		own("grep_files", "Search files", tool.Low, read,
			"Searches the lines of the session's text files for a regular expression (RE2 syntax).",
			typed.Object(`"pattern":{"type":"string","minLength":1,"maxLength":1000,"description":"The regular expression, RE2 syntax; (?i) at its beginning ignores case."},
				"path_pattern":{"type":"string","minLength":1,"maxLength":1000,"description":"Only files that fit, as *.txt (any folder) or /src/**/*.go."}`, "pattern"),
			typed.Object(`"pattern":{"type":"string"},"match_count":{"type":"integer"},"files_searched":{"type":"integer"},"files_skipped":{"type":"integer"},
				"truncated":{"type":"boolean"},"reason":{"type":"string"},"matches":{"type":"array","items":{"type":"object","additionalProperties":false,
				"required":["path","line_number","line"],"properties":{"path":{"type":"string"},"line_number":{"type":"integer"},"line":{"type":"string"}}}}`,
				"pattern", "matches", "match_count", "files_searched", "files_skipped", "truncated"), x.grep),
		own("delete_file", "Delete a file", tool.Medium, remove,
			"Deletes a file or folder of the session. A folder that is not empty needs recursive.",
			typed.Object(pathIn+`,"recursive":{"type":"boolean","description":"Also delete all that is in a folder; default false."}`, "path"),
			typed.Object(pathOut+`,"deleted":{"type":"boolean"},"count":{"type":"integer"}`, "path", "deleted", "count"), x.remove),
		own("stat_file", "Look at a file", tool.Low, read,
			"Tells of a file or folder of the session whether it is there, its size, version and times.",
			typed.Object(pathIn, "path"),
			typed.Object(pathOut+`,"name":{"type":"string"},"exists":{"type":"boolean"},"is_directory":{"type":"boolean"},"is_readonly":{"type":"boolean"},
				"sha256":{"type":"string"},"created_at":{"type":"string"},"updated_at":{"type":"string"},`+sizesOut, "path", "name", "exists"), x.stat),
		own("edit_file", "Edit a file", tool.Low, read|write,
			"Replaces exact text in a text file of the session. old_string must occur exactly once (give more of what surrounds it), unless replace_all is true.",
			typed.Object(pathIn+`,"old_string":{"type":"string","minLength":1,"description":"The exact text to replace, white space included."},
				"new_string":{"type":"string","description":"What to put in its place."},
				"replace_all":{"type":"boolean","description":"Replace every occurrence; default false."},
				"if_version":{"type":"integer","minimum":1,"description":"Only if the file has this version."}`, "path", "old_string", "new_string"),
			typed.Object(pathOut+`,"replacements":{"type":"integer"},"lines":{"type":"array","items":{"type":"integer"}},`+sizesOut, "path", "replacements", "lines", "size_bytes", "version"), x.edit),
	}}, nil
}
