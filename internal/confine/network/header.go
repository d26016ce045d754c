package network

import "strings"

// refused holds the request headers that would make a server see another
// request than the decided one, and the headers of the connection itself.
var refused = map[string]string{
	"connection": framing, "content-length": framing, "expect": framing, "http2-settings": framing,
	"keep-alive": framing, "te": framing, "trailer": framing, "transfer-encoding": framing, "upgrade": framing,
	"host": hosting, "forwarded": hosting, "x-forwarded-host": hosting, "x-host": hosting, "x-original-host": hosting,
	"x-forwarded-server":     hosting,
	"x-http-method-override": overriding, "x-http-method": overriding, "x-method-override": overriding,
	"x-original-url": overriding, "x-rewrite-url": overriding, "x-override-url": overriding,
}

const (
	framing    = "it belongs to the connection"
	hosting    = "the URL names the host"
	overriding = "it makes some servers take the request for another one"
	proxying   = "no proxy is used"
)

// RefusedHeader says why a request may not carry a header of this name, or ""
// if it may. Underscores count as hyphens, as some servers read them.
func RefusedHeader(name string) string {
	name = strings.ToLower(strings.ReplaceAll(name, "_", "-"))
	if strings.HasPrefix(name, "proxy-") {
		return proxying
	}
	return refused[name]
}
