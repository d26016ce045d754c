package policy_test

import (
	"testing"

	"github.com/remitrun/remit/internal/base/tool"
)

func TestShowsKeys(t *testing.T) {
	cat := func(words ...string) tool.Action {
		return tool.Action{Kind: tool.Command, Argv: append([]string{"cat"}, words...), Dir: "/ws/sub"}
	}
	linked := read("shown.js")
	linked.Real = "/ws/other.js"
	spelled, all := files(`"**", "**/shown.js", "config/*.js"`, ""), files(`"**"`, "")
	folders := files(`"src/**", "{lib/**,docs/a.md}", "**"`, "")
	tests := map[string]struct {
		policies []string
		action   tool.Action
		want     bool
	}{
		"by default":                  {[]string{all}, read("shown.js"), false},
		"the setting":                 {[]string{all + "\noutput: {keys: show}"}, read("a"), true},
		"the setting's default":       {[]string{all + "\noutput: {keys: mask}"}, read("a"), false},
		"one of two says so":          {[]string{all + "\noutput: {keys: show}", all}, read("a"), false},
		"the other leaves it":         {[]string{all + "\noutput: {keys: show}", "rest: inherit"}, read("a"), true},
		"a spelled file":              {[]string{spelled}, read("a/shown.js"), true},
		"a file that a wildcard gets": {[]string{spelled}, read("config/a.js"), false},
		"a link to another file":      {[]string{spelled}, linked, false},
		"writing":                     {[]string{spelled}, write("shown.js"), false},
		"spelled by one of two":       {[]string{spelled, all}, read("shown.js"), false},
		"a command's word":            {[]string{spelled}, cat("-n", "shown.js"), true},
		"an absolute word":            {[]string{spelled}, cat("/ws/a/shown.js"), true},
		"the workspace":               {[]string{all}, read("."), false},
		"a word for the workspace":    {[]string{all}, cat("-r", ".."), false},
		"the workspace's path":        {[]string{all}, cat("/ws"), false},
		"all files of a folder":       {[]string{folders}, read("src"), false},
		"one of several folders":      {[]string{folders}, cat("/ws/lib"), false},
		"another word":                {[]string{spelled}, cat("other.js"), false},
	}
	for name, tc := range tests {
		if got := chain(t, tc.policies...).ShowsKeys([]tool.Action{tc.action}); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
