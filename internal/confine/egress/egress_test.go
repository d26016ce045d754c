package egress_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/egress"
)

func get(t testing.TB, c *http.Client, url string) (status int, body string, h http.Header) {
	t.Helper()
	resp, err := c.Get(url)
	if err != nil {
		return 0, err.Error(), nil
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp.StatusCode, string(b) + " BROKE OFF", resp.Header
	}
	return resp.StatusCode, string(b), resp.Header
}

func TestPlainRequestsAreDecidedOneByOne(t *testing.T) {
	srv := newCanary(t, false, nil)
	w := &world{servers: map[uint16]string{0: srv.at()}}
	b := serve(t, w, egress.Options{Permit: allowing(t, `{allow: ["GET http://*.example.com/v1/**", "POST http://api.example.com/form"], deny: ["http://api.example.com/v1/private/**"]}`)})
	c := b.client(t, nil)
	tests := []struct {
		method, url, body string
		status            int
		rule              string
	}{
		{"GET", "http://api.example.com/v1/a?q=1", "", 200, `network.allow[0]`},
		{"GET", "http://api.example.com/v1/b%20c", "", 200, `network.allow[0]`},
		{"GET", "http://api.example.com/v2", "", 403, `default`},
		{"PUT", "http://api.example.com/v1/a", "x", 403, `default`},
		{"GET", "http://api.example.com/v1/private/x", "", 403, `network.deny[0]`},
		{"GET", "http://api.example.com/v1/../v3", "", 403, `default`},
		{"GET", "http://example.com/v1/a", "", 403, `default`},
		{"GET", "http://api.example.com:8080/v1/a", "", 403, `default`},
		{"POST", "http://api.example.com/form", "a=b", 200, `network.allow[1]`},
		{"GET", "http://missing.example.com/v1/", "", 502, `network.allow[0]`},
	}
	for _, tt := range tests {
		req, _ := http.NewRequest(tt.method, tt.url, strings.NewReader(tt.body))
		if tt.body == "" {
			req.Body = nil
		}
		resp, err := c.Do(req)
		if err != nil {
			t.Fatalf("%s %s: %v", tt.method, tt.url, err)
		}
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		denied := resp.Header.Get("Remit-Denied")
		if resp.StatusCode != tt.status || tt.status == 403 && !strings.HasPrefix(denied, tt.rule) || tt.status != 403 && denied != "" {
			t.Errorf("%s %s: %d %q %q", tt.method, tt.url, resp.StatusCode, denied, text)
		}
	}
	want := []string{`GET api.example.com/v1/a?q=1 ""`, `GET api.example.com/v1/b%20c ""`, `POST api.example.com/form "a=b"`}
	if got := srv.requests(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the host saw\n%q, want\n%q", got, want)
	}
	report := b.Connections()
	if len(report) != len(tests) {
		t.Fatalf("%d connections in the report: %+v", len(report), report)
	}
	for i, r := range report {
		if r.Via != "http" || r.Protocol != "http" || r.Method != tests[i].method || !strings.HasPrefix(r.Rule, tests[i].rule) ||
			r.Refused() != (tests[i].status == 403) || r.Status != tests[i].status {
			t.Errorf("%d: %+v", i, r)
		}
	}
	if r := report[0]; r.Addr != public || r.In < 30 || r.Out < 60 || r.Duration <= 0 || r.Path != "/v1/a" || r.Port != 80 {
		t.Errorf("%+v", r)
	}
}

func TestTunnelsForTLS(t *testing.T) {
	srv := newCanary(t, true, nil)
	w := &world{servers: map[uint16]string{0: srv.at()}}
	p := allowing(t, `{allow: [example.com, "https://example.com:8443", "GET b.example.com", "https://c.example.com/x/**"]}`)
	b := serve(t, w, egress.Options{Permit: p})
	c := b.client(t, pool(t, srv))
	for _, u := range []string{"https://example.com/any/path", "https://example.com:8443/"} {
		if status, body, _ := get(t, c, u); status != 200 || !strings.HasPrefix(body, "hello") {
			t.Errorf("%s: %d %s", u, status, body)
		}
	}
	for _, u := range []string{"https://b.example.com/", "https://c.example.com/x/y", "https://d.example.com", "https://example.com:444/"} {
		if status, body, _ := get(t, c, u); status != 0 || !strings.Contains(body, "Forbidden") {
			t.Errorf("%s: %d %s", u, status, body)
		}
	}
	b.Close()
	got := refusals(b)
	if len(got) != 4 || !strings.Contains(got[0], "inspect: true") || !strings.Contains(got[1], "inspect: true") || strings.Contains(got[2], "inspect") {
		t.Errorf("%q", got)
	}
	first := b.Connections()[0]
	if first.Protocol != "tls" || first.Via != "connect" || first.Host != "example.com" || first.In < 500 || first.Out < 200 || first.Refused() {
		t.Errorf("%+v", first)
	}
	refused, more := p.Refused()
	if len(refused) != 4 || more != 0 || !slices.Contains(refused, tool.Refused{
		Action: "network https://d.example.com", Rule: "default", Reason: "no entry of network.allow matches https://d.example.com", Count: 1,
	}) {
		t.Errorf("the permit was told of %d refusals and %d more: %+v", len(refused), more, refused)
	}
	notes, _ := p.Happened()
	if n := slices.IndexFunc(notes, func(h tool.Happened) bool { return h.On == "https://example.com" }); n < 0 ||
		notes[n].Address != public.String()+":443" || notes[n].Received < 500 || notes[n].Bytes < 200 || !strings.HasPrefix(notes[n].Rule, "network.allow[0]") {
		t.Errorf("a connection's note: %+v", notes)
	}
	if len(notes) != 3 || notes[0].Effect != tool.NetworkDNS || notes[2].Effect != tool.NetworkSocket || notes[2].On != "https://example.com" && notes[2].On != "https://example.com:8443" {
		t.Errorf("notes %+v", notes)
	}
}

func TestInspectedRequestsAreDecidedOneByOne(t *testing.T) {
	srv := newCanary(t, true, nil)
	w := &world{servers: map[uint16]string{0: srv.at()}}
	for name, section := range map[string]string{
		"for all":       `{inspect: true, allow: ["GET https://example.com/v1/**", "POST https://example.com/form"]}`,
		"for the entry": `{allow: [{url: "GET https://example.com/v1/**", inspect: true}, "POST https://example.com/form"]}`,
	} {
		t.Run(name, func(t *testing.T) {
			b := serve(t, w, egress.Options{Permit: allowing(t, section), RootCAs: pool(t, srv)})
			c := b.client(t, pool(t, nil, b.CA()))
			if status, body, _ := get(t, c, "https://example.com/v1/a"); status != 200 || body != "hello from example.com" {
				t.Errorf("%d %s", status, body)
			}
			if status, _, h := get(t, c, "https://example.com/v2/a"); status != 403 || h.Get("Remit-Denied") != "default" {
				t.Errorf("%d %v", status, h)
			}
			resp, err := c.Post("https://example.com/form", "text/plain", strings.NewReader(strings.Repeat("x", 100000)))
			if err != nil || resp.StatusCode != 200 {
				t.Fatalf("%v %v", resp, err)
			}
			resp.Body.Close()
			if status, _, _ := get(t, b.client(t, pool(t, srv)), "https://example.com/v1/a"); status != 0 {
				t.Errorf("a client that does not trust Remit got %d", status)
			}
			b.Close()
			r := b.Connections()
			if len(r) != 4 || r[0].Protocol != "https" || r[0].Method != "GET" || r[0].Path != "/v1/a" || r[0].Via != "connect" || r[0].Addr != public ||
				!r[1].Refused() || r[2].Out < 100000 || !strings.Contains(r[3].Reason, "certificate") {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestAHostIsVerifiedWhenInspected(t *testing.T) {
	srv := newCanary(t, true, nil)
	w := &world{servers: map[uint16]string{0: srv.at()}}
	b := serve(t, w, egress.Options{Permit: allowing(t, `{inspect: true, allow: ["*"]}`), RootCAs: pool(t, srv)})
	c := b.client(t, pool(t, nil, b.CA()))
	if status, body, _ := get(t, c, "https://other.test/"); status != 502 || !strings.Contains(body, "certificate") {
		t.Errorf("%d %s", status, body)
	}
	untrusted := serve(t, w, egress.Options{Permit: allowing(t, `{inspect: true, allow: ["*"]}`), RootCAs: pool(t, nil, b.CA())})
	if status, _, _ := get(t, untrusted.client(t, pool(t, nil, untrusted.CA())), "https://example.com/"); status != 502 {
		t.Errorf("%d", status)
	}
	if got := srv.requests(); len(got) != 0 {
		t.Errorf("the host saw %q", got)
	}
}

func TestSecretsAreAddedOnlyWhereTheyBelong(t *testing.T) {
	const value = "s3cr3t-value"
	srv := newCanary(t, true, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/redirect" {
			http.Redirect(w, r, "https://other.example.com/v1/caught", http.StatusFound)
			return
		}
		_, _ = io.WriteString(w, "ok")
	})
	w := &world{servers: map[uint16]string{0: srv.at()}}
	section := `{inspect: true, allow: [{url: "GET https://example.com/v1/**", secret: {header: Authorization, env: TOKEN, prefix: "Bearer "}},
		example.com, "*.example.com", {url: "GET https://unset.example.com/", secret: {header: X-Key, env: UNSET}}, {url: "https://bad.example.com/", secret: {header: X-Key, env: BAD}}]}`
	b := serve(t, w, egress.Options{Permit: allowing(t, section), RootCAs: pool(t, srv), Secret: func(name string) (string, bool) {
		v, ok := map[string]string{"TOKEN": value, "BAD": "a\r\nX: y"}[name]
		return v, ok
	}})
	c := b.client(t, pool(t, nil, b.CA()))
	c.CheckRedirect = nil // it follows them
	do := func(method, url string, header ...string) (int, string) {
		req, _ := http.NewRequest(method, url, nil)
		for i := 0; i+1 < len(header); i += 2 {
			req.Header[header[i]] = []string{header[i+1]}
		}
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode, resp.Header.Get("Remit-Denied")
	}
	tests := []struct {
		method, url  string
		header       []string
		status       int
		rule         string
		withTheValue bool
	}{
		{"GET", "https://example.com/v1/a", nil, 200, "", true},
		{"GET", "https://example.com/v2/a", nil, 200, "", false},
		{"POST", "https://example.com/v1/a", nil, 200, "", false},
		{"GET", "https://www.example.com/v1/a", nil, 200, "", false},
		{"GET", "https://example.com/v1/a", []string{"Authorization", "Bearer mine"}, 403, "secret", false},
		{"GET", "https://example.com/v1/a", []string{"authorization", "x"}, 403, "secret", false},
		{"GET", "https://example.com/v1/a", []string{"Connection", "authorization"}, 200, "", true},
		{"GET", "https://unset.example.com/", nil, 403, "secret", false},
		{"GET", "https://bad.example.com/", nil, 403, "secret", false},
		{"GET", "https://example.com/v1/" + value, nil, 200, "", true},
	}
	for _, tt := range tests {
		before := len(srv.requests())
		status, rule := do(tt.method, tt.url, tt.header...)
		if status != tt.status || rule != tt.rule {
			t.Errorf("%s %s %v: %d %q", tt.method, tt.url, tt.header, status, rule)
		}
		seen := strings.Join(srv.requests()[before:], "\n")
		if got := strings.Contains(seen, "Authorization=Bearer "+value); got != tt.withTheValue {
			t.Errorf("%s %s %v: the host saw %q", tt.method, tt.url, tt.header, seen)
		}
	}
	before := len(srv.requests())
	if status, _ := do("GET", "https://example.com/v1/redirect"); status != 200 {
		t.Errorf("redirect: %d", status)
	}
	if seen := srv.requests()[before:]; len(seen) != 2 || !strings.Contains(seen[0], value) || strings.Contains(seen[1], value) {
		t.Errorf("the redirect's hosts saw %q", seen)
	}
	b.Close()
	if text := fmt.Sprintf("%+v", b.Connections()); strings.Contains(text, value) || !strings.Contains(text, "/v1/***") {
		t.Errorf("the record shows the secret: %s", text)
	}
}

func TestSOCKS5(t *testing.T) {
	plain, secure := newCanary(t, false, nil), newCanary(t, true, nil)
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { echo.Close() })
	go func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); c.Close() }()
		}
	}()
	w := &world{servers: map[uint16]string{80: plain.at(), 443: secure.at(), 22: echo.Addr().String()}}
	b := serve(t, w, egress.Options{Permit: allowing(t, `{allow: ["tcp://git.example.com:22", "GET http://example.com/ok", example.com, "tcp://127.0.0.1:22", "tcp://[2001:4860::8888]:22"]}`)})

	v4 := []byte{5, 1, 0, 1, 127, 0, 0, 1, 0, 22}
	v6 := append(append([]byte{5, 1, 0, 4}, netip.MustParseAddr("2001:4860::8888").AsSlice()...), 0, 22)
	for name, request := range map[string][]byte{"name": socksName(1, "git.example.com", 22), "IPv4": v4, "IPv6": v6} {
		c, code := b.socks(t, b.Password(), request)
		if c == nil {
			t.Fatalf("%s: reply %d", name, code)
		}
		fmt.Fprint(c, "SSH-2.0-x\r\n")
		got := make([]byte, 11)
		if _, err := io.ReadFull(c, got); err != nil || string(got) != "SSH-2.0-x\r\n" {
			t.Errorf("%s: %q %v", name, got, err)
		}
		c.Close()
	}
	u, _ := url.Parse(strings.Replace(b.Env(b.port)["ALL_PROXY"], "socks5h", "socks5", 1)) // in Go both resolve at the proxy
	tr := &http.Transport{Proxy: http.ProxyURL(u), TLSClientConfig: &tls.Config{RootCAs: pool(t, secure)}}
	t.Cleanup(tr.CloseIdleConnections)
	c := &http.Client{Transport: tr}
	for url, want := range map[string]int{"http://example.com/ok": 200, "http://example.com/no": 403, "https://example.com/any": 200} {
		if status, body, _ := get(t, c, url); status != want {
			t.Errorf("%s: %d %s", url, status, body)
		}
	}
	refusedTests := map[string]struct {
		request []byte
		code    int
	}{
		"BIND":                 {socksName(2, "git.example.com", 22), 7},
		"UDP ASSOCIATE":        {socksName(3, "git.example.com", 22), 7},
		"another command":      {socksName(9, "git.example.com", 22), 7},
		"another port":         {socksName(1, "git.example.com", 23), 2},
		"another name":         {socksName(1, "evil.example.com", 22), 2},
		"no name":              {socksName(1, "", 22), 2},
		"a name with NUL":      {socksName(1, "git.example.com\x00.evil", 22), 2},
		"mapped IPv6":          {append(append([]byte{5, 1, 0, 4}, netip.MustParseAddr("::ffff:127.0.0.1").AsSlice()...), 0, 22), 2},
		"port 0":               {socksName(1, "git.example.com", 0), 2},
		"unknown address kind": {[]byte{5, 1, 0, 2, 0, 0}, 8},
		"unresolvable":         {socksName(1, "missing", 22), 2},
	}
	for name, tt := range refusedTests {
		if c, code := b.socks(t, b.Password(), tt.request); c != nil || code != tt.code {
			t.Errorf("%s: reply %d", name, code)
		}
	}
	if c, code := b.socks(t, "wrong", v4); c != nil || code != -1 {
		t.Errorf("wrong password: %d", code)
	}
	if got := b.raw(t, "\x05\x01\x00"); got != "\x05\xff" {
		t.Errorf("no password offered: %q", got)
	}
	if got := b.raw(t, "\x04\x01\x00\x16\x7f\x00\x00\x01\x00"); got != "" {
		t.Errorf("SOCKS4: %q", got)
	}
}

func TestAskHoldsTheConnection(t *testing.T) {
	srv := newCanary(t, false, nil)
	w := &world{servers: map[uint16]string{0: srv.at()}}
	asked := make(chan tool.Action, 10)
	answer := make(chan bool)
	b := serve(t, w, egress.Options{
		Permit: allowing(t, `{ask: ["GET http://a.example.com", "GET http://c.example.com", "tcp://b.example.com:9"]}`),
		Ask: func(ctx context.Context, a tool.Action, d policy.Decision) bool {
			if d.Effect != policy.Ask || len(a.Addrs) > 0 {
				t.Errorf("asked %+v %+v", a, d)
			}
			asked <- a
			select {
			case yes := <-answer:
				return yes
			case <-ctx.Done():
				return false
			}
		},
	})
	c := b.client(t, nil)
	var wg sync.WaitGroup
	results := make(chan int, 3)
	for range 3 {
		wg.Go(func() {
			status, _, _ := get(t, c, "http://a.example.com/x")
			results <- status
		})
	}
	if a := <-asked; a.Target.Host != "a.example.com" || a.Target.Path != "/x" {
		t.Errorf("%v", a)
	}
	if names, dialled := w.saw(); len(names)+len(dialled) > 0 {
		t.Errorf("before the answer: %v %v", names, dialled)
	}
	answer <- true
	wg.Wait()
	for range 3 {
		if s := <-results; s != 200 {
			t.Errorf("status %d", s)
		}
	}
	go func() { <-asked; answer <- false }()
	if conn, reply := b.connect(t, "b.example.com:9"); conn != nil || !strings.Contains(reply, "403") {
		t.Errorf("after a no: %q", reply)
	}
	if conn, _ := b.connect(t, "b.example.com:9"); conn != nil {
		t.Error("the no was forgotten")
	}
	if len(asked) != 0 {
		t.Errorf("asked %d times more", len(asked))
	}
	held := make(chan string, 1)
	go func() { _, r, _ := get(t, c, "http://c.example.com/held"); held <- r }()
	<-asked
	b.Close()
	<-held
	for _, r := range b.Connections() {
		if r.Path == "/x" && r.Effect != policy.Ask {
			t.Errorf("%+v", r)
		}
	}
}

func TestNobodyToAskIsANo(t *testing.T) {
	b := serve(t, &world{}, egress.Options{Permit: allowing(t, `{ask: ["*", "http://*"]}`)})
	c := b.client(t, nil)
	if status, body, _ := get(t, c, "http://a.example.com/"); status != 403 || !strings.Contains(body, "no approver") {
		t.Errorf("%d %s", status, body)
	}
	if status, _, _ := get(t, c, "https://a.example.com/"); status != 0 {
		t.Errorf("%d", status)
	}
}

func TestTheZeroPermitRefusesEverything(t *testing.T) {
	w := &world{}
	over := allowing(t, `{allow: ["*", "http://*", "tcp://a.example.com:1"], inspect: true}`)
	over.End()
	for name, p := range map[string]permit.Permit{"zero": {}, "over": over} {
		b := serve(t, w, egress.Options{Permit: p})
		c := b.client(t, nil)
		for _, u := range []string{"http://a.example.com/", "https://a.example.com/"} {
			if status, body, _ := get(t, c, u); status != 0 && status != 403 {
				t.Errorf("%s: %s: %d %s", name, u, status, body)
			}
		}
		if conn, _ := b.connect(t, "a.example.com:1"); conn != nil {
			t.Errorf("%s: a tunnel", name)
		}
		b.Close()
		if len(refusals(b)) != 3 {
			t.Errorf("%s: %q", name, refusals(b))
		}
	}
	if names, dialled := w.saw(); len(names)+len(dialled) > 0 {
		t.Errorf("%v %v", names, dialled)
	}
}

func TestCloseEndsEverything(t *testing.T) {
	echo, _ := net.Listen("tcp", "127.0.0.1:0")
	t.Cleanup(func() { echo.Close() })
	var held []net.Conn
	go func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			held = append(held, c)
		}
	}()
	w := &world{servers: map[uint16]string{0: echo.Addr().String()}}
	b := serve(t, w, egress.Options{Permit: allowing(t, `{allow: ["tcp://a.example.com:1", "http://a.example.com"]}`)})
	tunnel, _ := b.connect(t, "a.example.com:1")
	if tunnel == nil {
		t.Fatal("no tunnel")
	}
	go func() { _, _, _ = get(t, b.client(t, nil), "http://a.example.com/never-answered") }()
	idle, _ := net.Dial("tcp", b.addr)
	defer idle.Close()
	for { // until the request has come through
		if _, dialled := w.saw(); len(dialled) == 2 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	begin := time.Now()
	b.Close()
	b.Close()
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("closing took %v", took)
	}
	for _, c := range []net.Conn{tunnel, idle} {
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := c.Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
			t.Errorf("a connection goes on: %v", err)
		}
	}
	if n := len(b.Connections()); n != 2 {
		t.Errorf("%d connections: %+v", n, b.Connections())
	}
}

func TestOnePortForTLSAndPlainHTTP(t *testing.T) {
	plain, secure := newCanary(t, false, nil), newCanary(t, true, nil)
	for name, entry := range map[string]string{"tunnel": `"https://example.com:8080"`, "inspected": `{url: "GET https://example.com:8080/ok", inspect: true}`} {
		w := &world{}
		b := serve(t, w, egress.Options{Permit: allowing(t, `{allow: [`+entry+`, "GET http://example.com:8080/ok"]}`), RootCAs: pool(t, secure)})
		open := func(at string) net.Conn {
			w.mu.Lock()
			w.servers = map[uint16]string{8080: at}
			w.mu.Unlock()
			c, code := b.socks(t, b.Password(), socksName(1, "example.com", 8080))
			if c == nil {
				t.Fatalf("%s: reply %d", name, code)
			}
			return c
		}
		for path, want := range map[string]string{"/ok": "200", "/no": "403"} {
			c := open(plain.at())
			fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: example.com:8080\r\nConnection: close\r\n\r\n", path)
			if got, _ := io.ReadAll(c); !strings.HasPrefix(string(got), "HTTP/1.1 "+want) {
				t.Errorf("%s: plain %s: %q", name, path, got)
			}
		}
		roots := pool(t, secure)
		if ca := b.CA(); ca != nil {
			roots = pool(t, secure, ca)
		}
		c := tls.Client(open(secure.at()), &tls.Config{ServerName: "example.com", RootCAs: roots})
		fmt.Fprint(c, "GET /ok HTTP/1.1\r\nHost: example.com:8080\r\nConnection: close\r\n\r\n")
		if got, err := io.ReadAll(c); !strings.HasPrefix(string(got), "HTTP/1.1 200") {
			t.Errorf("%s: TLS: %q %v", name, got, err)
		}
		c = tls.Client(open(secure.at()), &tls.Config{ServerName: "evil.test", InsecureSkipVerify: true}) //nolint:gosec // it must not come about
		if err := c.Handshake(); err == nil {
			t.Errorf("%s: a handshake for another host", name)
		}
	}
}

func TestKeptConnectionsToTheHost(t *testing.T) {
	var mu sync.Mutex
	conns := map[string]int{}
	srv := newCanary(t, false, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		conns[r.RemoteAddr]++
		mu.Unlock()
		_, _ = io.WriteString(w, "ok")
	})
	w := &world{servers: map[uint16]string{0: srv.at()}}
	b := serve(t, w, egress.Options{Permit: allowing(t, `{allow: ["http://a.test", "http://b.test"]}`)})
	c := b.client(t, nil)
	for range 3 {
		if status, body, _ := get(t, c, "http://a.test/"); status != 200 {
			t.Error(status, body)
		}
	}
	if len(conns) != 1 {
		t.Errorf("%d connections for three requests", len(conns))
	}
	srv.CloseClientConnections() // the next one finds its connection dead
	if status, body, _ := get(t, c, "http://a.test/"); status != 200 || len(conns) != 2 {
		t.Errorf("%d %s, %d connections", status, body, len(conns))
	}
	if status, body, _ := get(t, c, "http://b.test/"); status != 200 || len(conns) != 3 {
		t.Errorf("another host: %d %s, %d connections", status, body, len(conns))
	}
}

func TestOddAnswersOfHosts(t *testing.T) {
	tests := map[string]struct {
		answer string
		want   string // how the answer to the sandbox begins
		body   string
	}{
		"no HTTP":              {"hello\r\n\r\n", "HTTP/1.1 502 ", ""},
		"nothing":              {"", "HTTP/1.1 502 ", ""},
		"switched protocols":   {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\nPRI", "HTTP/1.1 502 ", ""},
		"interim ones first":   {"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 200 ", "ok"},
		"interim ones only":    {strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 20), "HTTP/1.1 502 ", ""},
		"a head without end":   {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<20), "HTTP/1.1 502 ", ""},
		"until it closes":      {"HTTP/1.1 200 OK\r\n\r\nok", "HTTP/1.1 200 ", "2\r\nok\r\n0\r\n\r\n"},
		"shorter than it says": {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok", "HTTP/1.1 200 ", "ok"},
		"length and chunks":    {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "HTTP/1.1 200 ", "2\r\nok\r\n0\r\n\r\n"},
		"two lengths":          {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 502 ", ""},
		"fields of the way":    {"HTTP/1.1 200 OK\r\nProxy-Authenticate: x\r\nRemit-Denied: evil\r\nAlt-Svc: h3=evil\r\nConnection: X-A\r\nX-A: 1\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", "ok"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					_, _ = c.Read(make([]byte, 4096))
					_, _ = io.WriteString(c, tt.answer)
					_ = c.(*net.TCPConn).CloseWrite()
					_, _ = io.Copy(io.Discard, c)
					c.Close()
				}
			}()
			t.Cleanup(func() { l.Close(); <-done })
			b := serve(t, &world{servers: map[uint16]string{0: l.Addr().String()}}, egress.Options{Permit: allowing(t, `{allow: ["http://a.test"]}`)})
			got := b.raw(t, "GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n$AUTH\r\n")
			if !strings.HasPrefix(got, tt.want) || !strings.HasSuffix(got, tt.body) || strings.Count(got, "HTTP/1.1 ") != 1 {
				t.Errorf("%q", got)
			}
			if strings.Contains(got, "evil") || strings.Contains(got, "Proxy-Auth") {
				t.Errorf("%q", got)
			}
			b.Close()
		})
	}
}

func TestATunnelEndsWithItsCall(t *testing.T) {
	at, _ := sink(t)
	p := allowing(t, `{allow: ["tcp://`+at+`"]}`)
	b := serve(t, nil, egress.Options{Permit: p, Limits: egress.Limits{Idle: time.Hour}})
	c, reply := b.connect(t, at)
	if c == nil {
		t.Fatal(reply)
	}
	const much = 1 << 30
	fmt.Fprintf(c, "%d\n", much)
	if _, err := io.ReadFull(c, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	p.End()
	if n, _ := io.Copy(io.Discard, c); n > much/2 {
		t.Errorf("%d bytes came after the call's end", n)
	}
	b.Close()
	if got := refusals(b); len(got) != 1 || !strings.HasPrefix(got[0], "call: ") {
		t.Errorf("%q", got)
	}
}

// A server of the sandbox's own is reached directly, unless the policy means the
// host's.
func TestTheOwnLoopbackNeedsNoProxy(t *testing.T) {
	for entry, want := range map[string]string{
		"api.example.com":            "localhost,127.0.0.1,::1,0.0.0.0",
		"*.example.com":              "localhost,127.0.0.1,::1,0.0.0.0",
		"http://localhost:3000":      "",
		"GET http://127.0.0.1:80/x":  "",
		"tcp://[::1]:22":             "",
		"http://10.0.0.1/not/really": "localhost,127.0.0.1,::1,0.0.0.0",
	} {
		env := egress.New(egress.Options{Permit: allowing(t, "{allow: ['"+entry+"']}")}).Env(1)
		if env["NO_PROXY"] != want || env["no_proxy"] != want {
			t.Errorf("%s: got %q, %q, want %q", entry, env["NO_PROXY"], env["no_proxy"], want)
		}
	}
}
