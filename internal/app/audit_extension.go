package app

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/tools/extension"
)

// extension is whose tool an event's call is of, or whose slash command made it, ""
// for none. A command can call any tool: its record has the bounds that the
// extension's permissions came to.
func (au *auditor) extension(ctx context.Context, call ledger.Stored) (string, error) {
	if id := extensionOf(call.Event.Tool); id != "" {
		return id, nil
	}
	p, there := call.Parts[ledger.PartBounds]
	if !there {
		return "", nil
	}
	b, err := au.st.Load(ctx, p)
	if err != nil {
		return "", err
	}
	var bounds ledger.CallBounds
	if err := json.Unmarshal(b, &bounds); err != nil {
		return "", fault.Wrap(fault.StoreCorrupt, err, "what bounded the call of event %d cannot be read", call.Seq)
	}
	for _, src := range bounds.Policies {
		if id, ok := extension.OfBounds(src.File); ok {
			return id, nil
		}
	}
	return "", nil
}

// extensionOf is the extension that a tool's ID says it is of, or "".
func extensionOf(id tool.ID) string {
	rest, ok := strings.CutPrefix(string(id), "ext:")
	if name, _, more := strings.Cut(rest, ":"); ok && more {
		return name
	}
	return ""
}
