package packages_test

import (
	"slices"
	"testing"

	"github.com/remitrun/remit/internal/tools/packages"
)

func TestGoOrigins(t *testing.T) {
	for name, tt := range map[string]struct {
		proxy, sums string
		want        []string // nil: refused
	}{
		"a list":                  {"https://a.example/x,https://b.example|direct", "off", []string{"https://a.example", "https://b.example"}},
		"the database's name":     {"https://a.example", "sums.example", []string{"https://a.example", "https://sums.example"}},
		"the database's key":      {"off", "sums.example+1a2b+AbC", []string{"https://sums.example"}},
		"the database's address":  {"direct", "sums.example https://mirror.example/sums", []string{"https://mirror.example"}},
		"one host":                {"https://a.example", "a.example", []string{"https://a.example"}},
		"a folder":                {"file:///srv/modules", "off", nil},
		"not encrypted":           {"http://a.example", "off", nil},
		"a user":                  {"https://me:secret@a.example", "off", nil},
		"a database without host": {"off", "+1a2b", nil},
	} {
		got, err := packages.GoOrigins(tt.proxy, tt.sums)
		if (err != nil) != (tt.want == nil) || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, %v; want %q", name, got, err, tt.want)
		}
	}
}

func TestCargoOrigins(t *testing.T) {
	src := "[registries.own]\nindex = \"sparse+https://b.example/index/\"\n[source.crates-io]\nreplace-with = \"m\"\n[source.m]\nregistry = \"https://a.example/git\"\n"
	if got, err := packages.CargoOrigins([]byte(src)); err != nil || !slices.Equal(got, []string{"https://a.example", "https://b.example"}) {
		t.Errorf("%q, %v", got, err)
	}
	for _, bad := range []string{"[registries.x]\nindex = \"http://a.example\"", "[", "[registries.x]\nindex = \"ssh://git@a.example/x\""} {
		if got, err := packages.CargoOrigins([]byte(bad)); err == nil {
			t.Errorf("%s: %q", bad, got)
		}
	}
}

func TestReadGoEnv(t *testing.T) {
	if got := packages.ReadGoEnv([]byte("GOFLAGS=-x\nGOPROXY=https://a.example,direct\n"), "GOPROXY"); got != "https://a.example,direct" {
		t.Error(got)
	}
}
