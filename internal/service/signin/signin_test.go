package signin_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/remitrun/remit/internal/service/signin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestOnlyTheAnswerIsTaken sends what is none before what is one.
func TestOnlyTheAnswerIsTaken(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := "http://" + l.Addr().String() + "/callback"
	c := signin.New(l, at, "/callback")
	defer c.Close()
	defer http.DefaultClient.CloseIdleConnections()
	for _, tc := range []struct {
		method, url string
		status      int
	}{
		{"GET", "http://" + l.Addr().String() + "/?code=x&state=y", 404},
		{"POST", at + "?code=x&state=y", 404},
		{"GET", at + "?code=x", 404},
		{"GET", at + "?code=right&state=s&iss=i", 200},
		{"GET", at + "?code=late&state=s", 200},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tc.method, tc.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != tc.status {
			t.Errorf("%s %s: %d", tc.method, tc.url, resp.StatusCode)
		}
	}
	code, state, issuer, err := c.Wait(t.Context())
	if code != "right" || state != "s" || issuer != "i" || err != nil {
		t.Errorf("%s %s %s %v", code, state, issuer, err)
	}
	late, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer stop()
	if _, _, _, err := c.Wait(late); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nobody comes, and the waiting ends with %v", err)
	}
	if strings.Contains(at, "localhost") {
		t.Error("a name that others could have")
	}
}
