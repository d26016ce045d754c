package runs

import (
	"errors"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/runner"
)

// hinted is a typed command's error with the way out, where a policy lists the
// tools that may be called and does not know that this is one.
func hinted(o runner.Outcome) error {
	var e *fault.Error
	if !errors.As(o.Err, &e) || e.Code != fault.Denied || e.Hint != "" {
		return o.Err
	}
	for _, r := range o.Decision.Refusals {
		if r.Action != string(ExecID) || r.Effect != policy.Deny || r.Rule == nil {
			continue
		}
		if r.Rule.Pattern != "" {
			return e.WithHint("the entry denies every command that is typed: remove it, or write a narrower one under commands.deny")
		}
		where := r.Rule.File
		switch where {
		case "(no policy)":
			return e.WithHint("give a policy with -p, or have one written: remit exec --learn -o policy.yaml -- ...")
		case "":
			where = r.Rule.Policy
		}
		return e.WithHint("to remit exec, add \"exec\" to tools.allow of %s, or remove tools.allow: then the tools that are built in are allowed", where)
	}
	return o.Err
}
