package codebox_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/agents/capability/capabilitytest"
	"github.com/remitrun/remit/internal/agents/capability/codebox"
	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

// BenchmarkExecute runs a shell program that changes one of ten files.
func BenchmarkExecute(b *testing.B) {
	box := linux.New(linux.Config{Getenv: os.LookupEnv, State: b.TempDir()})
	defer func() { _ = box.Close() }()
	files := &capabilitytest.SessionFiles{}
	p := permittest.PermitFor(b, b.TempDir(), all)
	for i := range 10 {
		if _, _, err := files.Write(b.Context(), p, fmt.Sprintf("/d/%d", i), make([]byte, 10_000), 0); err != nil {
			b.Fatal(err)
		}
	}
	part, err := codebox.New(box).Part(capability.Session{Files: files}, nil)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := permittest.Run(b.Context(), part.Tools[0].Tool, p, tool.Args{"language": "shell", "code": "date > d/1"}); err != nil {
			b.Fatal(err)
		}
	}
}
