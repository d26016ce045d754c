package gateway_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/grants"
)

// sessionOf begins a session and opens its stream.
func sessionOf(t *testing.T, addr, token string) *http.Response {
	t.Helper()
	send := func(method, body, session string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+addr, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + token} {
			r.Header.Set(name, value)
		}
		if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode/100 != 2 {
			t.Fatalf("%s: %d", method, res.StatusCode)
		}
		return res
	}
	hello := send(http.MethodPost, helloMessage, "")
	_ = hello.Body.Close()
	id := hello.Header.Get("Mcp-Session-Id")
	_ = send(http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, id).Body.Close()
	return send(http.MethodGet, "", id)
}

// TestARevokedClientLosesItsStreamAndPlace: the streams of a revoked grant end, and another client
// of the same root grant gets a place. The stream of another grant stays.
func TestARevokedClientLosesItsStreamAndPlace(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	w := newWorld(t)
	root := w.grant(w.policy(policy), "agent:x")
	narrowed, err := w.app.Grants.Narrow(root, grants.Terms{Workspace: w.workspace, Expires: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	w.app.Home.Settings.Limits.Clients = 64
	addr := w.listen(app.MCPRequest{})
	other := sessionOf(t, addr, w.grant(w.policy(policy), "agent:y"))
	defer func() { _ = other.Body.Close() }()
	var streams []*http.Response
	for range 32 {
		streams = append(streams, sessionOf(t, addr, narrowed.Text)) //nolint:bodyclose // closed below
	}
	if got := greet(t, addr, root); got != http.StatusServiceUnavailable {
		t.Fatalf("client 33 of the root grant: %d", got)
	}
	if _, err := w.app.Grants.SetStanding(t.Context(), narrowed.Claims.Leaf().String(), store.Revoked, "lost"); err != nil {
		t.Fatal(err)
	}
	for _, s := range streams {
		ended := make(chan struct{})
		go func() {
			_, _ = io.Copy(io.Discard, s.Body)
			close(ended)
		}()
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Fatal("a stream of the revoked grant stays open")
		}
		_ = s.Body.Close()
	}
	if got := greet(t, addr, root); got != http.StatusOK {
		t.Errorf("a client after the revocation: %d", got)
	}
	read := make(chan error, 1)
	go func() {
		_, err := other.Body.Read(make([]byte, 1))
		read <- err
	}()
	select {
	case err := <-read:
		if err != nil {
			t.Errorf("the stream of another grant ended: %v", err)
		}
	default:
	}
}
