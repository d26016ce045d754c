package mcp

import (
	"encoding/json"
	"io"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// Mend mends the result of a request of this method.
func Mend(method, result string) (json.RawMessage, error) {
	r := &jsonrpc.Response{Result: json.RawMessage(result)}
	mend(r, method)
	return r.Result, r.Error
}

// Messages reads the messages of a server's output.
func Messages(r io.Reader, noise io.Writer) io.Reader {
	return Stdio(io.NopCloser(r), nil, noise).(*stdio).lines
}
