package typed_test

import (
	"testing"

	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/base/tool"
)

func TestCount(t *testing.T) {
	count := Tools()[0]
	world := permittest.World{
		Policy: "version: 1\nfiles: {read: {allow: ['**']}}\n",
		Files:  map[string]string{"a.txt": "one two one"},
	}
	args := tool.Args{"path": "a.txt", "needle": "one"}

	permittest.Tool(t, count, world, args) // the contract of every built-in tool

	res, err := permittest.Run(t.Context(), count, world.Permit(t), args)
	if err != nil || res.Output["count"] != 2 {
		t.Errorf("got %v, %v, want 2", res.Output, err)
	}
}
