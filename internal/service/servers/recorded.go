package servers

import (
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/service/runs"
)

// RecordedTools are the tools of recorded runs of MCP servers, which run nothing.
func RecordedTools() (runner.Catalog, error) {
	return catalog.New(recordedServer{}, recordedReach{})
}

// IsMCPRun reports whether a run's first call is a server's.
func IsMCPRun(id tool.ID) bool { return id == mcpServerID || id == mcpReachID }

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

// Unlisted are the tools of the servers' own runs, which no catalog lists.
func Unlisted() []*tool.Spec {
	return []*tool.Spec{(&serverRun{}).Spec(), (&connection{}).Spec()}
}
