//go:build !race

package remit_test

import (
	"go/ast"
	"strings"
	"testing"
)

// asks are the places that take a person's answer, and what holds a person to the policies'
// terms there. Those that decide by themselves ask the terms: [policy.Terms.AnswersHere] or
// [policy.Terms.NeedsOthers].
var asks = map[string]string{
	"internal/call/approval/approval.go":      "terms",  // terminals, chats, and clients of the gateway: all are its Here
	"internal/call/runner/gates.go":           "terms",  // the user of an agent with a hook
	"internal/service/runs/exec.go":           "terms",  // the person who typed a command, and its connections
	"internal/service/agents/runs.go":         "desk",   // a session's questions
	"internal/service/approvals/approvals.go": "desk",   // remit approvals, the web UI and the HTTP API: the vote is checked where it is recorded
	"internal/service/approvals/propose.go":   "vote",   // likewise, for changes of policies
	"internal/call/replay/replay.go":          "record", // answers that were given
	"internal/record/store/tables/votes.go":   "itself", // checks each vote that is recorded
}

// A new place that takes answers must be added here, with what holds it to the terms.
func TestPlacesThatAsk(t *testing.T) {
	found := map[string]bool{}
	for _, s := range sources(t) {
		if s.pkg == "record/store/storetest" {
			continue
		}
		asksPeople, usesTerms := placeThatAsks(s.file)
		if !asksPeople {
			continue
		}
		found[s.name] = true
		how, known := asks[s.name]
		if !known || how == "terms" && !usesTerms {
			t.Errorf("%s takes a person's answer without the terms of the policies", s.name)
		}
	}
	for name, how := range asks {
		if !found[name] && how != "itself" {
			t.Errorf("%s takes no answers; remove it from the list", name)
		}
	}
}

// placeThatAsks finds askers of the runner, uses of the answers of clients' users, and calls
// that record a vote.
func placeThatAsks(f *ast.File) (asksPeople, usesTerms bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Recv != nil && n.Body != nil && n.Name.Name == "Ask" && len(n.Type.Params.List) == 2 && strings.HasSuffix(nameOf(n.Type.Params.List[1].Type), "Question") {
				asksPeople = true
			}
		case *ast.CallExpr:
			asksPeople = asksPeople || nameOf(n.Fun) == "Vote" && len(n.Args) == 3
		case *ast.SelectorExpr:
			asksPeople = asksPeople || n.Sel.Name == "ClientAsks" && nameOf(n.X) == "run"
			usesTerms = usesTerms || n.Sel.Name == "NeedsOthers" || n.Sel.Name == "AnswersHere"
		}
		return true
	})
	return asksPeople, usesTerms
}

// nameOf is the last name of a name or selector.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}
