package notify_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/service/notify"
	"github.com/remitrun/remit/internal/service/settings"
)

func none(string) (string, bool) { return "", false }

func stored(values map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := values[name]
		return v, ok
	}
}

// logText is a log that tests read.
type logText struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logText) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// received is a request as a receiver saw it.
type received struct {
	header http.Header
	body   []byte
}

// receiver starts an HTTP receiver that answers with the statuses, and then with 200.
func receiver(t *testing.T, statuses ...int) (url string, got chan received) {
	t.Helper()
	got = make(chan received, 100)
	var mu sync.Mutex
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		status := http.StatusOK
		if len(statuses) > 0 {
			status, statuses = statuses[0], statuses[1:]
		}
		mu.Unlock()
		got <- received{r.Header, b}
		w.WriteHeader(status)
	}))
	t.Cleanup(srv.Close)
	return srv.URL, got
}

func next(t *testing.T, got chan received) received {
	t.Helper()
	select {
	case r := <-got:
		return r
	case <-time.After(time.Minute):
		t.Fatal("nothing was received")
		return received{}
	}
}

func event() notify.Event {
	return notify.Event{
		Kind: notify.ApprovalRequested, ID: "0199", Title: "shell.run needs approval\x1b[2J", Do: "remit approvals show 0199",
		Facts: map[string]string{"run": "0198", "tool": "mcp:x:<!channel>[a](https://evil.test)\n"}, Link: "https://remit.test/approvals/0199",
		At: time.Date(2026, 11, 23, 5, 0, 0, 0, time.UTC),
	}
}

func TestWebhooksAreSigned(t *testing.T) {
	url, got := receiver(t)
	c := notify.Webhook(settings.Webhook{Name: "ops", URL: url, Key: "secret:hook", Token: "secret:bearer"}, stored(map[string]string{"hook": "whsec_c2VjcmV0IGtleSBvZiB0ZXN0cw==", "bearer": "tk_1234567"}))
	if err := c.Deliver(context.Background(), event()); err != nil {
		t.Fatal(err)
	}
	r := next(t, got)
	id, at := r.header.Get("Webhook-Id"), r.header.Get("Webhook-Timestamp")
	// The key without its prefix is Base64 of "secret key of tests".
	if want := notify.Signature("secret key of tests", id, at, r.body); r.header.Get("Webhook-Signature") != want {
		t.Errorf("signature %q, want %q", r.header.Get("Webhook-Signature"), want)
	}
	if changed := notify.Signature("secret key of tests", id, at, append(r.body, ' ')); r.header.Get("Webhook-Signature") == changed {
		t.Error("the signature does not cover the body")
	}
	if id != "approval.requested.0199" || r.header.Get("Authorization") != "Bearer tk_1234567" {
		t.Errorf("id %q, authorization %q", id, r.header.Get("Authorization"))
	}
	var v map[string]any
	if err := json.Unmarshal(r.body, &v); err != nil {
		t.Fatal(err)
	}
	if v["type"] != "approval.requested" || v["id"] != "0199" || v["link"] != "https://remit.test/approvals/0199" || v["timestamp"] != "2026-11-23T05:00:00Z" {
		t.Errorf("payload %s", r.body)
	}
}

// TestSignatureOfTheSpecification: the example of the Standard Webhooks documentation.
func TestSignatureOfTheSpecification(t *testing.T) {
	got := notify.Signature("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestFormats(t *testing.T) {
	hostile := event()
	hostile.Title = "mcp:x:<!channel>[a](https://evil.test) needs approval\x1b[2J\u202e"
	for format, want := range map[string][]string{
		"json":  {`"title":"mcp:x:\u003c!channel\u003e[a](https://evil.test) needs approval\\x1b[2J\\u202e"`},
		"slack": {`"text":"mcp:x:\u0026lt;!channel\u0026gt;[a]`, `"type":"plain_text"`},
		"teams": {`"type":"TextRun"`, `"type":"RichTextBlock"`, `"contentType":"application/vnd.microsoft.card.adaptive"`},
		"ntfy":  {`mcp:x:<!channel>[a](https://evil.test) needs approval\x1b[2J\u202e · remit approvals show 0199`},
	} {
		t.Run(format, func(t *testing.T) {
			url, got := receiver(t)
			n := notify.New([]notify.Channel{notify.Webhook(settings.Webhook{Name: "ops", URL: url, Format: format}, none)}, func() *slog.Logger { return nil })
			if r := n.Try(context.Background(), hostile); r[0].Err != nil {
				t.Fatal(r[0].Err)
			}
			r := next(t, got)
			for _, part := range want {
				if !strings.Contains(string(r.body), part) {
					t.Errorf("no %q in %s", part, r.body)
				}
			}
			if bytes.ContainsAny(r.body, "\x1b\u202e") {
				t.Errorf("control characters in %q", r.body)
			}
			if click := r.header.Get("Click"); format == "ntfy" && click != hostile.Link {
				t.Errorf("ntfy opens %q", click)
			}
		})
	}
}

func TestFailuresAreTriedAgain(t *testing.T) {
	url, got := receiver(t, 500, 429)
	var log logText
	n := notify.NewQuick([]notify.Channel{notify.Webhook(settings.Webhook{Name: "ops", URL: url}, none)}, log.logger, time.Nanosecond, time.Nanosecond)
	n.Notify(event())
	first := next(t, got)
	for range 2 {
		if r := next(t, got); r.header.Get("Webhook-Id") != first.header.Get("Webhook-Id") {
			t.Error("a repetition has another ID")
		}
	}
	n.Close()
	if text := log.String(); text != "" {
		t.Errorf("logged: %s", text)
	}
}

func TestGivenUpDeliveriesAreLogged(t *testing.T) {
	for name, tt := range map[string]struct {
		statuses []int
		attempts int
	}{
		"too many attempts": {[]int{500, 500, 500}, 2},
		"refused":           {[]int{410}, 1},
		"redirected":        {[]int{302}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			url, got := receiver(t, tt.statuses...)
			var log logText
			n := notify.NewQuick([]notify.Channel{notify.Webhook(settings.Webhook{Name: "ops", URL: url + "/hook-of-a-secret"}, none)}, log.logger, time.Nanosecond)
			n.Notify(event())
			for range tt.attempts {
				next(t, got)
			}
			n.Close()
			if text := log.String(); !strings.Contains(text, `channel="webhook ops" event=approval.requested id=0199`) || strings.Contains(text, "hook-of-a-secret") {
				t.Errorf("logged: %s", text)
			}
			if len(got) != 0 {
				t.Errorf("%d more attempts", len(got))
			}
		})
	}
}

// stuck is a channel that delivers nothing until it is released.
type stuck struct{ begun, release chan struct{} }

func (stuck) Name() string { return "stuck" }

func (s stuck) Deliver(ctx context.Context, _ notify.Event) error {
	s.begun <- struct{}{}
	select {
	case <-s.release:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestADeadReceiverDelaysNothing(t *testing.T) {
	s := stuck{make(chan struct{}, 1000), make(chan struct{})}
	var log logText
	n := notify.New([]notify.Channel{s}, log.logger)
	n.Notify(event())
	<-s.begun // and does not come back
	const more = 10
	for range notify.MaxWaiting + more {
		n.Notify(event())
	}
	if dropped := strings.Count(log.String(), "was dropped"); dropped != more {
		t.Errorf("%d notifications dropped, want %d", dropped, more)
	}
	close(s.release)
	n.Close()
	n.Notify(event()) // after the end nothing is sent
}

func TestCloseDoesNotWaitForADeadReceiver(t *testing.T) {
	s := stuck{make(chan struct{}, 1000), make(chan struct{})}
	var log logText
	n := notify.New([]notify.Channel{s}, log.logger)
	n.Notify(event())
	<-s.begun
	n.Close()
	if !strings.Contains(log.String(), "context canceled") {
		t.Errorf("logged: %s", log.String())
	}
}

func TestLateNotificationsAreNotSent(t *testing.T) {
	s := stuck{make(chan struct{}, 1000), make(chan struct{})}
	var log logText
	n := notify.New([]notify.Channel{s}, log.logger)
	e := event()
	e.Until = time.Now().Add(-time.Second)
	n.Notify(e)
	n.Close()
	if len(s.begun) != 0 || !strings.Contains(log.String(), "not delivered in time") {
		t.Errorf("%d attempts; logged: %s", len(s.begun), log.String())
	}
}

func TestAddresses(t *testing.T) {
	for url, want := range map[string]string{
		"secret:hook":             "", // leads to a receiver on loopback
		"secret:missing":          `no secret "missing" is stored`,
		"secret:plain":            "expected https",
		"http://example.org/hook": "expected https",
		"https://127.0.0.1:1/":    "refused",
	} {
		t.Run(url, func(t *testing.T) {
			at, _ := receiver(t)
			c := notify.Webhook(settings.Webhook{Name: "ops", URL: url}, stored(map[string]string{"hook": at, "plain": "http://192.0.2.1/"}))
			err := c.Deliver(context.Background(), event())
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("error %v, want %q", err, want)
			}
		})
	}
}

// TestNothingConfigured: the zero and the nil Notifier send nothing and need no care.
func TestNothingConfigured(t *testing.T) {
	var n *notify.Notifier
	n.Notify(event())
	if r := n.Try(context.Background(), event()); len(r) != 0 {
		t.Error(r)
	}
	n.Close()
	some := notify.New(nil, func() *slog.Logger { return nil })
	some.Notify(event())
	some.Close()
	if err := notify.Desktop(none).Deliver(context.Background(), event()); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("a desktop without a bus: %v", err)
	}
}
