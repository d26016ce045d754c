package policy_test

import (
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
)

// Writes are held if any policy of the chain says so, and no later one can say
// otherwise.
func TestHold(t *testing.T) {
	for name, tc := range map[string]struct {
		docs []string
		want bool
	}{
		"nobody":           {[]string{"files: {write: {allow: ['**']}}"}, false},
		"the only one":     {[]string{"files: {write: {hold: true}}"}, true},
		"said not to":      {[]string{"files: {write: {hold: false}}"}, false},
		"the outer one":    {[]string{"files: {write: {hold: true}}", "files: {write: {hold: false}}"}, true},
		"a narrower one":   {[]string{"files: {write: {allow: ['**']}}", "files: {write: {hold: true}}"}, true},
		"one that is left": {[]string{"files: {write: {hold: true}}", "rest: inherit"}, true},
	} {
		if got := chain(t, tc.docs...).Limits().Hold; got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
	p, err := policy.Parse("p.yaml", []byte("version: 1\nfiles: {write: {hold: true}}"))
	if err != nil || !strings.Contains(string(p.Print()), "hold: true") {
		t.Errorf("it is printed as\n%s (%v)", p.Print(), err)
	}
	if _, err := policy.Parse("p.yaml", []byte("version: 1\nfiles: {write: {hold: sometimes}}")); err == nil || !strings.Contains(err.Error(), "p.yaml:2:23: files.write.hold") {
		t.Errorf("got %v", err)
	}
}
