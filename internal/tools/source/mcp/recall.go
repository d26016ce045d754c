package mcp

import (
	"strings"

	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/infer"
)

// Recall makes a tool from its record. The server is not started: it is for who looks at past
// calls.
func (s *Server) Recall(spec *tool.Spec, said infer.Hints) *Tool {
	said.Cannot = s.cfg.Cannot
	return &Tool{server: s, name: strings.TrimPrefix(string(spec.ID), s.Name()+":"), spec: *spec, hints: said}
}
