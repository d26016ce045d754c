package typed_test

import (
	"fmt"

	"github.com/remitrun/remit/internal/base/tool"
)

// A policy decides on the actions of a prepared call before it runs.
func ExampleNew() {
	count := Tools()[0]
	call, err := count.Prepare(tool.Env{Workspace: "/work"}, tool.Args{"path": "docs/../notes.txt", "needle": "todo"})
	fmt.Println(call.Actions, err)
	// Output: [files.read "/work/notes.txt"] <nil>
}
