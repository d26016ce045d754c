package mcp_test

import (
	"testing"

	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/infer"
)

func TestRecallStartsNothing(t *testing.T) {
	s, p := newServer(t, "")
	yes := true
	got := s.Recall(&tool.Spec{ID: "mcp:t:echo", Description: "d", Source: "mcp"}, infer.Hints{ReadOnly: &yes})
	if spec, h := got.Spec(), got.Hints(); spec.ID != "mcp:t:echo" || h.ReadOnly != &yes || !h.Cannot.Has(tool.NetworkHTTP) {
		t.Errorf("recalled is %+v with %+v", spec, h)
	}
	if n := p.starts.Load(); n != 0 {
		t.Errorf("the server was started %d times", n)
	}
}
