package cli_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/cli"
)

// A call that needs approval is told to a webhook, without its arguments; a receiver that is
// gone changes nothing for the call, and the loss is in the log.
func TestApprovalsReachWebhooks(t *testing.T) {
	r := newRemit(t)
	got := make(chan []byte, 10)
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		b, err := io.ReadAll(req.Body)
		if err != nil || !strings.HasPrefix(req.Header.Get("Webhook-Signature"), "v1,") {
			t.Errorf("%v, signature %q", err, req.Header.Get("Webhook-Signature"))
		}
		got <- b
	}))
	defer srv.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	must(t, os.MkdirAll(r.home, 0o700))
	must(t, os.WriteFile(filepath.Join(r.home, "config.yaml"), []byte(`
secrets: {keyring: false}
notifications:
  bell: true
  webhooks:
    ops: {url: "`+srv.URL+`", key: "secret:hook"}
    gone: {url: "`+gone.URL+`/address-to-keep"}
`), 0o600))
	policy, plan := filepath.Join(r.dir, "p.yaml"), filepath.Join(r.dir, "plan.yaml")
	must(t, os.WriteFile(policy, []byte("version: 1\nfiles: {write: {ask: ['**']}}\n"), 0o600))
	must(t, os.WriteFile(plan, []byte("steps:\n  - {tool: fs.write, args: {path: private-name.txt, content: private-text}}\n"), 0o600))
	run := func(in string, args ...string) (int, string) {
		var out bytes.Buffer
		status := r.main(cli.Streams{In: strings.NewReader(in), Out: &out, Err: &out}, args...)
		return status, out.String()
	}
	if status, out := run("hook-key-of-tests", "secret", "set", "hook"); status != 0 {
		t.Fatal(out)
	}
	status, out := run("", "run", plan, "-p", policy, "-w", r.dir)
	if status != 3 || !strings.Contains(out, "E1002") || strings.Contains(out, "\a") {
		t.Fatalf("status %d: %s", status, out)
	}
	body := <-got
	var v struct {
		Type, ID string
		Data     map[string]string
	}
	must(t, json.Unmarshal(body, &v))
	if v.Type != "approval.requested" || v.Data["tool"] != "fs.write" || v.Data["approvers"] != "1" || bytes.Contains(body, []byte("private")) {
		t.Errorf("sent %s", body)
	}
	log, err := os.ReadFile(filepath.Join(r.home, "logs", "remit.log"))
	must(t, err)
	if !bytes.Contains(log, []byte(`"webhook gone"`)) || !bytes.Contains(log, []byte(v.ID)) || bytes.Contains(log, []byte("address-to-keep")) {
		t.Errorf("the log does not have the notification that waits: %s", log)
	}
	if status, out := run("", "approvals", "show", v.ID); status != 0 || !strings.Contains(out, "private-name.txt") {
		t.Errorf("status %d: %s", status, out)
	}
	status, out = run("", "notify", "test")
	if status != 1 || !strings.Contains(out, "✓ webhook ops\n") || !strings.Contains(out, "✗ webhook gone: ") || strings.Contains(out, "address-to-keep") {
		t.Errorf("status %d: %s", status, out)
	}
	if status, out := run("", "notify"); status != 0 || !strings.Contains(out, "webhook ops\n") || !strings.Contains(out, "webhook gone, 1 waiting\n") || !strings.Contains(out, "terminal bell\n") {
		t.Errorf("status %d: %s", status, out)
	}
}
