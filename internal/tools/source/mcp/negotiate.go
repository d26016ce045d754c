package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
)

// rejected is the code of the SDK's own error for a request that its transport did not send.
const rejected = -32005

// noteRefusal keeps a server's refusal to begin as the reason why the connection is of no use. The
// SDK closes a connection that it cannot begin, which ends the server.
// Its message is quoted later, by word.
func (l *live) noteRefusal(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		res, err := next(ctx, method, req)
		if method != "initialize" {
			return res, err
		}
		if werr := (*jsonrpc.Error)(nil); errors.As(err, &werr) && werr.Code != rejected {
			l.fail(fault.Wrap(fault.ToolFailed, werr, "it refused to begin (%d): %s%s", werr.Code, clip.Text(werr.Message, 300), supportedNote(werr)))
		}
		if r, ok := res.(*sdk.InitializeResult); ok && err == nil && !slices.Contains(Protocols(), r.ProtocolVersion) {
			l.fail(fault.New(fault.ToolFailed, "it answered with the revision %s of the protocol; Remit knows %s",
				cmp.Or(clip.Text(r.ProtocolVersion, 40), "(none)"), strings.Join(Protocols(), ", ")))
		}
		return res, err
	}
}

// supported are the revisions that a server lists in its refusal to begin.
func supported(err error) []string {
	werr := (*jsonrpc.Error)(nil)
	var data struct {
		Supported []string `json:"supported"`
	}
	if !errors.As(err, &werr) || json.Unmarshal(werr.Data, &data) != nil {
		return nil
	}
	return data.Supported
}

func supportedNote(err error) string {
	if list := supported(err); len(list) > 0 {
		return "; it knows " + clip.Text(strings.Join(list, ", "), 100) + ", Remit knows " + strings.Join(Protocols(), ", ")
	}
	return ""
}

// commonRevision is the newest revision that Remit and a server know that refused to begin; "" if
// there is none, or the server does not say. A revision with a handshake goes first, as the server
// refused one.
func commonRevision(err error) string {
	theirs, newest := supported(err), ""
	for _, r := range Protocols() {
		if !slices.Contains(theirs, r) {
			continue
		}
		if r <= legacy {
			return r
		}
		if newest == "" {
			newest = r
		}
	}
	return newest
}
