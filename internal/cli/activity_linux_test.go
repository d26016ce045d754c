package cli_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// Work that takes long is shown on a terminal, and the line is erased when it ends.
func TestLongWorkIsShown(t *testing.T) {
	r := newRemit(t)
	asked, release := make(chan struct{}), make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-release
		_, _ = w.Write([]byte(`{"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "servers": [{"url": "https://example.org"}],
			"paths": {"/a": {"get": {"operationId": "a", "responses": {"200": {"description": "ok"}}}}}}`))
	}))
	defer srv.Close()
	_, await, done := r.onTerminal("", []string{"NO_COLOR="}, "api", "add", "slow", srv.URL+"/doc.json")
	<-asked
	await("\r⠋ reading the document  ") // the animation goes round
	await("\x1b[K")
	close(release)
	await("\r\x1b[K")
	await("slow: 1 tools")
	ends(t, done, 0)
}
