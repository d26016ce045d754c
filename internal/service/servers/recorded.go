package servers

import (
	"slices"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/service/runs"
)

// RecordedTools are the tools of recorded runs of MCP servers, which run nothing.
func RecordedTools() (runner.Catalog, error) {
	return catalog.New(recordedServer{}, recordedReach{}, recordedPackage{})
}

// IsMCPRun reports whether a run's first call is a server's.
func IsMCPRun(id tool.ID) bool { return slices.Contains(HelperTools(), id) }

// recordedServer says of a server that was started what that needed.
type recordedServer struct{ runs.RecordedCommand }

func (recordedServer) Spec() *tool.Spec { return (&serverRun{}).Spec() }

// recordedReach says it of one that was reached.
type recordedReach struct{}

func (recordedReach) Spec() *tool.Spec { return (&connection{}).Spec() }

// Prepare gives the actions of the recorded call, which cannot run.
func (recordedReach) Prepare(_ tool.Env, args tool.Args) (permit.Prepared, error) {
	url, _ := args["url"].(string)
	prepared, err := (&connection{url: url}).Prepare(tool.Env{}, nil)
	return permit.Prepared{Actions: prepared.Actions}, err
}

// recordedPackage says it of a package that was resolved and installed.
type recordedPackage struct{}

func (recordedPackage) Spec() *tool.Spec { return (&packageRun{}).Spec() }

// Prepare gives the actions of the recorded call, which cannot run.
func (recordedPackage) Prepare(_ tool.Env, args tool.Args) (permit.Prepared, error) {
	var out permit.Prepared
	list, _ := args["commands"].([]any)
	for _, one := range list {
		words, _ := one.([]any)
		argv := make([]string, len(words))
		for i, w := range words {
			argv[i], _ = w.(string)
		}
		out.Actions = append(out.Actions, packageAction(argv))
	}
	return out, nil
}

// Unlisted are the tools of the servers' own runs, which no catalog lists.
func Unlisted() []*tool.Spec {
	return []*tool.Spec{(&serverRun{}).Spec(), (&connection{}).Spec(), (&packageRun{}).Spec()}
}
