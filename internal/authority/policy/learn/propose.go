package learn

import (
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
)

// Line is one entry of one list of a policy.
type Line struct {
	List string `json:"list"`  // files.read.allow
	Text string `json:"entry"` // in YAML
}

// Narrowest gives the entries that allow one refused action, or one call of a tool, and
// nothing else. why says why there are none: it has a secret, for example. The chain of
// opt is not used.
func Narrowest(u Use, opt Options) (lines []Line, why string) {
	opt.Chain, opt.Exact, opt.Known, opt.Confined = nil, true, nil, false
	if u.Action.Unknown != "" {
		return nil, "it cannot be determined before it runs"
	}
	if u.Action.Kind != tool.NoAction {
		u.Tool = "" // the tool was allowed
	}
	u.Refused = false
	b := &builder{opt: opt, looks: looks{opt.Secret}}
	b.sort(u)
	b.allFiles()
	b.allTargets()
	b.allCommands()
	b.allModels()
	b.allTools()
	if len(b.left) > 0 {
		return nil, b.left[0].why
	}
	for _, e := range b.entries {
		lines = append(lines, Line{e.section + "." + policy.Allow.String(), e.text})
	}
	return lines, ""
}
