package webui

import (
	"net/url"
	"strconv"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/doors/httpapi"
	"github.com/remitrun/remit/internal/record/ledger"
)

const (
	treeSize  = 25 // calls in the tree
	modelTool = "model.chat"
)

// callTree has the calls of a run around one of them, to step through beside its page.
type callTree struct {
	Calls []treeCall
	Run   string // path of the run's page
	Total int
}

// treeCall is a call in the tree.
type treeCall struct {
	callLine
	Bar  bar
	In   int  // 1: an answer of the model asked for it
	Here bool // the page shows it
	Near bool // Here, or the call before or after that
}

// treeOf reads the calls around one call of a run.
func (x *exchange) treeOf(run ledger.Run, at int) (callTree, error) {
	t := callTree{Run: "/ui/runs/" + run.ID.String(), Total: run.Total}
	from := max(1, min(at-treeSize/2, run.Total-treeSize+1))
	var list httpapi.CallList
	if err := x.api.get(x.runPath()+"/calls", url.Values{"from": {strconv.Itoa(from)}, "limit": {strconv.Itoa(treeSize)}}, &list); err != nil {
		return t, err
	}
	var lines []callLine
	for _, raw := range list.Items {
		step, err := readStep(raw)
		if err != nil {
			return t, err
		}
		lines = append(lines, newCallLine(run.ID.String(), run.Started, step))
	}
	bars := newTimeline(lines, 0, false).Bars
	for i, c := range lines {
		one := treeCall{callLine: c, Bar: bars[i], Here: c.Index == at, Near: c.Index >= at-1 && c.Index <= at+1}
		if run.Session != uuid.Nil && c.Tool != modelTool {
			one.In = 1
		}
		t.Calls = append(t.Calls, one)
	}
	return t, nil
}
