package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/remitrun/remit/internal/service/nodes"
)

// Parts lists the additions to this service, without values of secrets.
type Parts interface {
	Parts(ctx context.Context) (PartList, error)
}

// PartList has what people added to a service.
type PartList struct {
	Servers       []ServerPart    `json:"servers"`
	Extensions    []ExtensionPart `json:"extensions"`
	Secrets       []SecretPart    `json:"secrets"`
	Notifications []string        `json:"notifications" doc:"The channels, by name"`
	Nodes         []nodes.Service `json:"nodes" doc:"The services that share the ledger, if it is in a database"`
	ClockAhead    int             `json:"clock_ahead_s,omitempty" doc:"Seconds that the clock of this service is ahead of that of the ledger, from 5 on; negative: behind"`
}

// ServerPart is an MCP server.
type ServerPart struct {
	Name    string   `json:"name"`
	URL     string   `json:"url,omitempty" doc:"Of a server elsewhere"`
	Command []string `json:"command,omitempty" doc:"Of a server that Remit starts"`
	Package string   `json:"package,omitempty" doc:"The pinned package"`
	By      string   `json:"by" doc:"Who added it"`
}

// ExtensionPart is an installed extension.
type ExtensionPart struct {
	ID          string    `json:"id"`
	Name        string    `json:"name"`
	Version     string    `json:"version"`
	Description string    `json:"description"`
	Author      string    `json:"author,omitempty"`
	Enabled     bool      `json:"enabled"`
	Commands    []string  `json:"commands"`
	Tools       []string  `json:"tools"`
	Signer      string    `json:"signer,omitempty"`
	Installed   time.Time `json:"installed"`
	By          string    `json:"by"`
}

// SecretPart is a stored secret: never its value.
type SecretPart struct {
	Name string    `json:"name"`
	Set  time.Time `json:"set" doc:"When the value was last set"`
	Uses []string  `json:"uses" doc:"The entries of policies that use it"`
}

func (s *Server) parts() {
	if s.o.Parts == nil {
		return
	}
	route(s, operation{
		id: "listParts", method: http.MethodGet, path: "/v1/parts", tag: "service", action: "parts.read", summary: "List servers, extensions, secrets and notifications",
		text: "What people added to this service, and the services that share its ledger. Secrets have their names alone.", answer: map[string]any{"servers": []any{}, "extensions": []any{}, "secrets": []any{}, "notifications": []any{"desktop"}, "nodes": []any{}},
	}, func(ctx context.Context, _ *struct{ asked }) (*struct{ Body PartList }, error) {
		p, err := s.o.Parts.Parts(ctx)
		if p.Nodes = []nodes.Service{}; err == nil && s.o.Nodes != nil {
			p.Nodes, p.ClockAhead, err = s.o.Nodes(ctx)
		}
		return &struct{ Body PartList }{p}, err
	})
}
