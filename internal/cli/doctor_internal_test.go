package cli

import (
	"testing"

	"github.com/remitrun/remit/internal/confine/sandbox"
)

func TestDoctorHasOneRowForAllThatWorks(t *testing.T) {
	rows, ready := layerRows([]sandbox.Layer{
		{Name: "seccomp", Available: true, Required: true, Detail: sandbox.Works},
		{Name: "cgroups", Detail: "no", Hint: "mount them"},
		{Name: "namespaces", Available: true, Required: true, Detail: sandbox.Works},
		{Name: "whole sandbox", Required: true, Detail: "refused"},
	})
	want := [][2]string{{"✓ tried: works", "seccomp, namespaces"}, {"– cgroups", "no"}, {"", "→ mount them"}, {"✗ whole sandbox", "refused"}}
	if ready || len(rows) != len(want) {
		t.Fatalf("ready %v, %v", ready, rows)
	}
	for i, w := range want {
		if rows[i][0].text != w[0] || rows[i][1].text != w[1] {
			t.Errorf("row %d is %v, want %v", i, rows[i], w)
		}
	}
}
