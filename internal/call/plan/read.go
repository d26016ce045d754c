package plan

import (
	"fmt"

	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/regex"
)

var intPattern = regex.Lazy(`^[-+]?[0-9]+$`)

// maxAliased bounds how many values aliases may repeat in all.
const maxAliased = 10_000

// reader collects problems while a plan is read.
type reader struct {
	*document.Reader
	file string

	pending [][]*ref           // the references of each step
	needPos [][]*document.Node // the needs of each step, by its index
}

func newReader(file string) *reader {
	return &reader{file: file, Reader: document.NewReader(file, document.Options{Code: fault.PlanInvalid, Noun: "plan", MaxBytes: MaxSize,
		MaxDepth: maxDepth, MaxNodes: maxValues, MaxKey: MaxKey, Aliases: maxAliased, AnyText: true, CoreTags: true})}
}

// problem reports one problem with its code and the way out.
func (r *reader) problem(code fault.Code, at *document.Node, field, hint, format string, args ...any) {
	e := r.Fail(at, field, "%s", fmt.Sprintf(format, args...))
	e.Code, e.Hint = code, document.Visible(hint)
}

func (r *reader) bad(at *document.Node, field, hint, format string, args ...any) {
	r.problem(fault.PlanInvalid, at, field, hint, format, args...)
}

// refusePolicy reports a policy in the place of a plan. Each of its keys would be unknown.
func (r *reader) refusePolicy(root *document.Node) {
	if root.Lookup("steps") != nil {
		return
	}
	for _, section := range []string{"files", "commands", "network", "tools", "models", "limits", "secrets"} {
		if root.Lookup(section) != nil {
			r.bad(root, "", "a plan has steps; name a policy with -p: remit run PLAN -p "+r.file, "this looks like a policy, not a plan")
			return
		}
	}
}
