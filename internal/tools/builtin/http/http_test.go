package httptool_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.uber.org/goleak"
	"golang.org/x/net/http/httpguts"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	httptool "github.com/remitrun/remit/internal/tools/builtin/http"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func pick(t *testing.T, id tool.ID) permit.Tool {
	t.Helper()
	for _, x := range httptool.Tools(nil) {
		if x.Spec().ID == id {
			return x
		}
	}
	t.Fatalf("no tool %s", id)
	return nil
}

func under(t *testing.T, rule, settings string) permit.Permit {
	t.Helper()
	p, err := policy.Parse("test.yaml", fmt.Appendf(nil, "version: 1\nname: test\nnetwork:\n  allow:\n    - %q\n%s", rule, settings))
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Bind(policy.Env{Workspace: "/w"})
	if err != nil {
		t.Fatal(err)
	}
	chain := policy.Chain{r}
	return permit.Mint(permit.Terms{Chain: chain, Limits: chain.Limits()})
}

// run validates the arguments, as the runner does, runs the tool, and gives the
// output as JSON decodes it, after validating that too.
func run(t *testing.T, id tool.ID, p permit.Permit, args string) (map[string]any, error) {
	t.Helper()
	x := pick(t, id)
	a := decode(t, []byte(args))
	if err := schema(t, x.Spec().Input).Validate(a); err != nil {
		return nil, fault.Wrap(fault.ArgsInvalid, err, "schema")
	}
	if _, err := permittest.Actions(x, tool.Env{}, a); err != nil {
		return nil, err
	}
	res, err := permittest.Run(t.Context(), x, p, a)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(res.Output)
	if err != nil {
		t.Fatal(err)
	}
	out := decode(t, text)
	if err := schema(t, x.Spec().Output).Validate(out); err != nil {
		t.Errorf("output %s: %v", text, err)
	}
	return out, nil
}

func decode(t *testing.T, text []byte) map[string]any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var out map[string]any
	if err := d.Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

func schema(t *testing.T, src []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(src))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("mem:schema", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("mem:schema")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func TestGet(t *testing.T) {
	long := strings.Repeat("é", 100)
	tests := map[string]struct {
		answer   http.HandlerFunc
		args     string // besides the URL
		settings string
		want     map[string]any // of the output
	}{
		"text": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hé") }, "", "",
			map[string]any{"status": "200", "status_text": "OK", "content": "hé", "encoding": "utf-8", "truncated": false, "bytes_total": "3", "bytes_returned": "3", "next_offset": nil, "content_base64": nil}},
		"an error status is an answer": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "gone", 410) }, "", "",
			map[string]any{"status": "410", "status_text": "Gone", "content": "gone\n"}},
		"bytes": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte{0xff, 0}) }, "", "",
			map[string]any{"content_base64": "/wA=", "encoding": "base64", "content": nil}},
		"an image is not text": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "image/x-text")
			_, _ = io.WriteString(w, "abc")
		}, "", "", map[string]any{"content_base64": "YWJj", "encoding": "base64"}},
		"empty": {func(http.ResponseWriter, *http.Request) {}, "", "", map[string]any{"content": "", "bytes_total": "0", "truncated": false}},
		"cut between characters": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, long) }, `,"max_bytes":11`, "",
			map[string]any{"content": "ééééé", "truncated": true, "bytes_total": "200", "bytes_returned": "10", "next_offset": "10"}},
		"cut by the policy": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 2000)) }, `,"max_bytes":999999999`, "  max_bytes: 1KiB\n",
			map[string]any{"truncated": true, "bytes_total": "2000", "bytes_returned": "1024"}},
		"not cut at exactly the bound": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "abc") }, `,"max_bytes":3`, "",
			map[string]any{"truncated": false, "content": "abc"}},
		"nothing asked for": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "abc") }, `,"max_bytes":0`, "",
			map[string]any{"truncated": true, "content": "", "bytes_returned": "0", "bytes_total": "3"}},
		"a bomb": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = z.Write(make([]byte, 8<<20))
			_ = z.Close()
		}, `,"max_bytes":1000`, "", map[string]any{"truncated": true, "bytes_returned": "1000", "bytes_total": nil}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			url := serve(t, tc.answer)
			out, err := run(t, "http.get", under(t, url, tc.settings), fmt.Sprintf(`{"url":%q%s}`, url, tc.args))
			if err != nil {
				t.Fatal(err)
			}
			for k, want := range tc.want {
				got := out[k]
				if n, ok := got.(json.Number); ok {
					got = n.String()
				}
				if !reflect.DeepEqual(got, want) {
					t.Errorf("%s is %v, want %v", k, got, want)
				}
			}
		})
	}
}

func TestOutputNamesWhereItCameFrom(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("X-Two", "1")
		w.Header().Add("X-Two", "2")
		if r.URL.Path == "/" {
			http.Redirect(w, r, "/end", http.StatusFound)
		}
	})
	out, err := run(t, "http.get", under(t, url, ""), fmt.Sprintf(`{"url":%q}`, url+"#x"))
	if err != nil {
		t.Fatal(err)
	}
	if out["url"] != url+"/end" || !reflect.DeepEqual(out["redirects"], []any{url + "/"}) ||
		!reflect.DeepEqual(out["headers"].(map[string]any)["x-two"], []any{"1", "2"}) {
		t.Errorf("%v", out)
	}
}

func TestRequestBodies(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s %q", r.Method, r.Header.Get("Content-Type"), r.Header.Get("Authorization"), b)
	})
	for args, want := range map[string]string{
		`"method":"POST","body":"a\u0000b"`:                                      `POST   "a\x00b"`,
		`"method":"put","body_base64":"/w=="`:                                    `PUT   "\xff"`,
		`"method":"POST","json":{"b":1.50,"a":"<"}`:                              `POST application/json  "{\"a\":\"<\",\"b\":1.50}"`,
		`"method":"POST","json":null,"headers":{"content-type":"application/x"}`: `POST application/x  "null"`,
		`"method":"DELETE","headers":{"Authorization":"Bearer x"}`:               `DELETE  Bearer x ""`,
		`"method":"POST","body":""`:                                              `POST   ""`,
	} {
		out, err := run(t, "http.request", under(t, url, ""), fmt.Sprintf(`{"url":%q,%s}`, url, args))
		if err != nil || out["content"] != want {
			t.Errorf("%s: %v, %v; want %s", args, out["content"], err, want)
		}
	}
}

func TestRefusedArguments(t *testing.T) {
	for name, args := range map[string]string{
		"no URL": `{}`, "URL is no text": `{"url":1}`, "empty URL": `{"url":""}`, "file": `{"url":"file:///etc/passwd"}`, "tcp": `{"url":"tcp://h:1"}`,
		"unknown argument": `{"url":"http://h","proxy":"x"}`, "userinfo": `{"url":"http://a:b@h"}`,
		"host header": `{"url":"http://h","headers":{"Host":"x"}}`, "length": `{"url":"http://h","headers":{"content-length":"1"}}`,
		"coding": `{"url":"http://h","headers":{"TRANSFER-ENCODING":"chunked"}}`, "connection": `{"url":"http://h","headers":{"Connection":"x"}}`,
		"proxy": `{"url":"http://h","headers":{"Proxy-Authorization":"x"}}`, "override": `{"url":"http://h","headers":{"X-HTTP-Method-Override":"PUT"}}`,
		"line break": `{"url":"http://h","headers":{"X":"a\r\nHost: x"}}`, "line break in name": `{"url":"http://h","headers":{"X\r\nY":"a"}}`, "colon in name": `{"url":"http://h","headers":{"X:":"a"}}`,
		"empty name": `{"url":"http://h","headers":{"":"a"}}`, "NUL": `{"url":"http://h","headers":{"X":"\u0000"}}`, "list": `{"url":"http://h","headers":{"X":["a"]}}`,
		"twice": `{"url":"http://h","headers":{"X-a":"1","x-A":"2"}}`, "negative": `{"url":"http://h","max_bytes":-1}`, "fraction": `{"url":"http://h","max_bytes":1.5}`, "huge": `{"url":"http://h","max_bytes":1e30}`,
	} {
		if out, err := run(t, "http.get", under(t, "http://h", ""), args); !errors.Is(err, fault.ArgsInvalid) {
			t.Errorf("%s: %v, %v", name, out, err)
		}
	}
	for name, args := range map[string]string{
		"no method": `{"url":"http://h"}`, "bad method": `{"url":"http://h","method":"G T"}`, "CONNECT": `{"url":"http://h","method":"connect"}`,
		"two bodies": `{"url":"http://h","method":"POST","body":"","json":1}`, "not Base64": `{"url":"http://h","method":"POST","body_base64":"?"}`,
	} {
		if out, err := run(t, "http.request", under(t, "http://h", ""), args); !errors.Is(err, fault.ArgsInvalid) {
			t.Errorf("%s: %v, %v", name, out, err)
		}
	}
}

func TestActionsNameTheTarget(t *testing.T) {
	for id, args := range map[tool.ID]tool.Args{
		"http.get":     {"url": "HTTPS://H.test:443/a/../b?c"},
		"http.request": {"url": "https://h.test/b", "method": "get"},
	} {
		got, err := permittest.Actions(pick(t, id), tool.Env{}, args)
		if err != nil || len(got) != 1 || got[0].String() != "network GET https://h.test/b" {
			t.Errorf("%s: %v, %v", id, got, err)
		}
	}
}

func TestWithoutAuthority(t *testing.T) {
	url := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the server was reached") })
	for name, p := range map[string]permit.Permit{"no permit": {}, "another host": under(t, "http://127.0.0.2", ""), "a wildcard": under(t, "http://*", "")} {
		if _, err := run(t, "http.get", p, fmt.Sprintf(`{"url":%q}`, url)); !errors.Is(err, fault.HandleRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNoServerIsAFailure(t *testing.T) {
	s := httptest.NewServer(nil)
	s.Close()
	if _, err := run(t, "http.get", under(t, s.URL, ""), fmt.Sprintf(`{"url":%q}`, s.URL)); !errors.Is(err, fault.ToolFailed) {
		t.Error(err)
	}
}

// Whatever the bytes are, they come back as they were.
func FuzzBodyComesBack(f *testing.F) {
	f.Add([]byte("text"), "text/plain")
	f.Add([]byte{0xc3}, "application/json; charset=x")
	f.Add([]byte{0}, "image/png")
	f.Fuzz(func(t *testing.T, b []byte, kind string) {
		if !httpguts.ValidHeaderFieldValue(kind) {
			return // no client takes such an answer
		}
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = w.Write(b)
		})
		out, err := run(t, "http.get", under(t, url, ""), fmt.Sprintf(`{"url":%q}`, url))
		if err != nil {
			t.Fatal(err)
		}
		got := []byte(fmt.Sprint(out["content"]))
		if out["encoding"] == "base64" {
			if got, err = base64.StdEncoding.DecodeString(out["content_base64"].(string)); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(got, b) {
			t.Errorf("%q came back as %q", b, got)
		}
	})
}

func TestTheSecretOfAnEntryIsAdded(t *testing.T) {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of clients that do not trust it
	s.StartTLS()
	defer s.Close()
	p, err := policy.Parse("test.yaml", fmt.Appendf(nil, "version: 1\nnetwork:\n  allow:\n    - {url: %q, secret: {header: X-Key, env: TOKEN}}\n", s.URL))
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Bind(policy.Env{Workspace: "/w"})
	if err != nil {
		t.Fatal(err)
	}
	for want, lookup := range map[string]func(string) (string, bool){
		`"TOKEN" is not set`: nil,
		"certificate":        func(name string) (string, bool) { return "s3cr3t", name == "TOKEN" }, // so far it came
	} {
		for _, x := range httptool.Tools(lookup) {
			args := tool.Args{"url": s.URL}
			if x.Spec().ID == "http.request" {
				args["method"] = "GET"
			}
			pm := permit.Mint(permit.Terms{Chain: policy.Chain{r}, Limits: policy.Chain{r}.Limits()})
			_, err := permittest.Run(t.Context(), x, pm, args)
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("%s: %v, want %s", x.Spec().ID, err, want)
			}
		}
	}
}
