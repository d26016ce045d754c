package mcp

import (
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// HTTP is the transport of a server at a URL, through rt, which decides every
// request and bounds every answer. Redirects are not followed: the operator named
// this URL.
func HTTP(url string, rt http.RoundTripper, login auth.OAuthHandler) sdk.Transport {
	return &sdk.StreamableClientTransport{
		Endpoint: url, MaxEventSize: MaxMessage, MaxRetries: 2,
		HTTPClient:   &http.Client{Transport: rt, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		OAuthHandler: login,
	}
}
