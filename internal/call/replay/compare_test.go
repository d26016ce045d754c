package replay

import (
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
)

func TestAnOlderReasonWithoutAPolicyIsTheSame(t *testing.T) {
	err := fault.New(fault.Denied, "denied: %s", policy.NoPolicy)
	for was, same := range map[string]bool{
		fault.ForModel(err): true,
		`denied: no entry of tools.allow matches "time.now"; a policy with tools.allow needs an entry`: true,
		`denied: commands.deny[0]`: false,
	} {
		if got := errText(err, was) == was; got != same {
			t.Errorf("%q: %v, want %v", was, got, same)
		}
	}
}
