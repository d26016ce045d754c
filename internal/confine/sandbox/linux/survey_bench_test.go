//go:build linux && (amd64 || arm64)

package linux_test

import (
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

// BenchmarkSurveyAgain is what a later command of a process costs under a policy that opens
// the whole disk: every folder is compared with what is known of it.
func BenchmarkSurveyAgain(b *testing.B) {
	p, err := policy.Parse("p", []byte("version: 1\nfiles: {read: {allow: ['/**']}, write: {allow: ['**']}}\n"))
	if err != nil {
		b.Fatal(err)
	}
	r, err := p.Bind(policy.Env{Workspace: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	box := linux.New(linux.Config{State: b.TempDir()})
	defer func() { _ = box.Close() }() // it runs nothing
	look := func() int {
		listed, err := box.SurveyListed(&sandbox.Inputs{Chain: policy.Chain{r}, Dir: "/", Isolation: policy.FullIsolation})
		if err != nil {
			b.Fatal(err)
		}
		return listed
	}
	all, again := look(), 0
	for b.Loop() {
		again += look()
	}
	b.ReportMetric(float64(all), "folders")
	b.ReportMetric(float64(again)/float64(b.N), "listed/op")
}
