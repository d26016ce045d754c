package capability_test

import (
	"testing"

	"github.com/remitrun/remit/internal/agents/capability"
)

// BenchmarkResolve resolves an agent of eight capabilities, of which one is
// configured and one brings two others along.
func BenchmarkResolve(b *testing.B) {
	list := []capability.Capability{mod("a"), mod("b", "a"), mod("c", "b"), mod("conf").with(configurable),
		mod("math").with(offers(own("math", "add"), own("math", "sub"))), mod("d"), mod("e"), mod("f")}
	reg, err := capability.NewRegistry(list)
	if err != nil {
		b.Fatal(err)
	}
	asked := refs("c", `conf {"servers": ["x"]}`, "math", "d", "e", "f")
	for b.Loop() {
		if _, err := capability.Resolve(reg, asked, capability.Session{}); err != nil {
			b.Fatal(err)
		}
	}
}
