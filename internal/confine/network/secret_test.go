package network_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/network"
)

const secretPolicy = `  allow:
    - {url: "https://example.com/v1/**", secret: {header: Authorization, env: TOKEN, prefix: "Bearer "}}
    - {url: "GET https://a.example.com/**", secret: {header: X-Key, env: TOKEN}}
    - https://example.com
    - https://b.example.com
    - http://example.com
`

const token = "s3cr3t/+\"token"

// keys is Remit's own environment.
func keys(name string) (string, bool) {
	v, ok := map[string]string{"TOKEN": token, "EMPTY": "", "BROKEN": "a\nb"}[name]
	return v, ok
}

// secure is a client of a world in which every host is a TLS server served by h.
func secure(t *testing.T, p permit.Permit, h http.HandlerFunc) *network.Client {
	t.Helper()
	s := httptest.NewTLSServer(h)
	t.Cleanup(s.Close)
	w := &world{server: s.Listener.Addr().String(), answers: map[string][][]netip.Addr{
		"example.com": addrs("8.8.8.8"), "a.example.com": addrs("8.8.8.8"), "b.example.com": addrs("8.8.8.8")}}
	c := w.client(p)
	c.Transport.SetRoots(s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs)
	c.Transport.Secret = keys
	return c
}

// seen is what the server was sent of the headers that may carry a secret.
func seen(r *http.Request) string {
	return strings.TrimSpace(r.Header.Get("Authorization") + " " + r.Header.Get("X-Key"))
}

func TestSecretsAreAddedOnlyToRequestsThatMatch(t *testing.T) {
	tests := map[string]struct {
		method, url string
		want        string
	}{
		"its path":                {"GET", "https://example.com/v1/x", "Bearer " + token},
		"its path, any method":    {"POST", "https://example.com/v1/x", "Bearer " + token},
		"another path":            {"GET", "https://example.com/v2/x", ""},
		"dots to another path":    {"GET", "https://example.com/v1/../v2", ""},
		"dots to its path":        {"GET", "https://example.com/v2/../v1/x", "Bearer " + token},
		"another host":            {"GET", "https://b.example.com/v1/x", ""},
		"another host's":          {"GET", "https://a.example.com/", token},
		"on, to another path":     {"GET", "https://example.com/v1/to?https://example.com/v2", ""},
		"on, to another host":     {"GET", "https://example.com/v1/to?https://b.example.com/v1/x", ""},
		"on, to where it belongs": {"GET", "https://b.example.com/to?https://example.com/v1/x", "Bearer " + token},
		"on, to another's":        {"GET", "https://example.com/v1/to?https://a.example.com/", token},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := make(chan string, 4)
			c := secure(t, allowing(t, secretPolicy), func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/to") {
					http.Redirect(w, r, r.URL.RawQuery, http.StatusFound)
					return
				}
				got <- seen(r)
			})
			resp, err := c.Do(t.Context(), network.Request{Method: tt.method, URL: tt.url})
			if err != nil {
				t.Fatal(err)
			}
			body(t, resp)
			if s := <-got; s != tt.want {
				t.Errorf("the server was sent %q, want %q", s, tt.want)
			}
		})
	}
}

func TestASecretThatCannotBeAddedRefusesTheRequest(t *testing.T) {
	tests := map[string]struct {
		env    string
		header http.Header
		want   string
	}{
		"not set":             {"NONE", nil, `"NONE" is not set`},
		"empty":               {"EMPTY", nil, `"EMPTY" is not set`},
		"of two lines":        {"BROKEN", nil, "cannot stand in a header"},
		"one of the caller's": {"TOKEN", http.Header{"Authorization": {"mine"}}, "is Remit's to set"},
		"in odd spelling":     {"TOKEN", http.Header{"AUTHORIZATION": {"mine"}}, "is Remit's to set"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := allowing(t, fmt.Sprintf("  allow:\n    - {url: https://example.com, secret: {header: Authorization, env: %s}}\n", tt.env))
			c := secure(t, p, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
			_, err := c.Do(t.Context(), network.Request{URL: "https://example.com/", Header: tt.header})
			if !errors.Is(err, fault.HandleRefused) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if strings.Contains(fmt.Sprintf("%+v", err), token) {
				t.Errorf("the error tells the secret: %v", err)
			}
		})
	}
}

func TestASecretThatIsEchoedIsHidden(t *testing.T) {
	spellings := map[string]string{
		"as it is": token, "in a query": url.QueryEscape(token), "in JSON": `s3cr3t/+\"token`,
		"in Base64": base64.StdEncoding.EncodeToString([]byte(token)),
	}
	for name, spelt := range spellings {
		t.Run(name, func(t *testing.T) {
			c := secure(t, allowing(t, secretPolicy), func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-Echo", "got "+spelt)
				for _, part := range []string{"before ", spelt[:3]} {
					_, _ = io.WriteString(w, part)
					w.(http.Flusher).Flush()
				}
				_, _ = io.WriteString(w, spelt[3:]+" after s3cr")
			})
			resp, err := c.Do(t.Context(), network.Request{URL: "https://example.com/v1/x"})
			if err != nil {
				t.Fatal(err)
			}
			if got := resp.Header.Get("X-Echo"); got != "got ***" {
				t.Errorf("the header is %q", got)
			}
			if got := body(t, resp); got != "before *** after s3cr" {
				t.Errorf("the body is %q", got)
			}
		})
	}
}

func TestAnEchoInARedirectIsHidden(t *testing.T) {
	c := secure(t, allowing(t, secretPolicy), func(w http.ResponseWriter, r *http.Request) {
		if r.Host == "example.com" {
			http.Redirect(w, r, "https://b.example.com/?k="+url.QueryEscape(token), http.StatusFound)
			return
		}
		_, _ = io.WriteString(w, r.URL.RawQuery)
	})
	resp, err := c.Do(t.Context(), network.Request{URL: "https://example.com/v1/x"})
	if err != nil {
		t.Fatal(err)
	}
	if got := body(t, resp) + resp.URL; strings.Contains(got, "s3cr3t") {
		t.Errorf("the secret went along: %q", got)
	}
}

func TestAnAnswerThatCannotBeLookedThroughIsRefused(t *testing.T) {
	c := secure(t, allowing(t, secretPolicy), func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "br")
		_, _ = io.WriteString(w, "?")
	})
	if _, err := c.Do(t.Context(), network.Request{URL: "https://example.com/v1/x", Header: http.Header{"Accept-Encoding": {"br"}}}); !errors.Is(err, fault.ToolFailed) {
		t.Errorf("%v", err)
	}
	if resp, err := c.Do(t.Context(), network.Request{URL: "https://example.com/v2"}); err != nil || body(t, resp) != "?" {
		t.Errorf("without a secret: %v", err)
	}
}

// What a server says that speaks no HTTP is quoted in errors.
func TestASecretThatIsEchoedInAnErrorIsHidden(t *testing.T) {
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	defer s.Close()
	inner, outer := net.Pipe()
	defer inner.Close()
	c := network.NewClient(allowing(t, secretPolicy))
	c.Transport.Secret = keys
	c.Transport.SetLookup((&world{answers: map[string][][]netip.Addr{"example.com": addrs("8.8.8.8")}}).lookup)
	c.Transport.SetRoots(s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs)
	c.Transport.SetDial(func(context.Context, netip.AddrPort, func(string) error) (net.Conn, error) { return outer, nil })
	done := make(chan struct{})
	go func() {
		defer close(done)
		tc := tlsServer(inner, s)
		_, _ = bufio.NewReader(tc).ReadString('\n')
		_, _ = io.WriteString(tc, "HTTP/9 "+token+"\r\n\r\n")
		_ = tc.Close()
	}()
	_, err := c.Do(t.Context(), network.Request{URL: "https://example.com/v1/x"})
	<-done
	if err == nil {
		t.Fatal("there is an answer")
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		if strings.Contains(e.Error(), "s3cr3t") {
			t.Errorf("%v", e)
		}
	}
}

// TestMaskHidesWhateverTheCuts: a secret is found wherever an answer is cut into
// pieces, and nothing else is changed.
func TestMaskHidesWhateverTheCuts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[ab]{1,4}`)
		secrets := rapid.SliceOfN(word, 1, 3).Draw(t, "secrets")
		text := rapid.StringMatching(`[abc]{0,40}`).Draw(t, "text")
		cut := rapid.IntRange(1, 5).Draw(t, "cut")
		got, err := network.Mask(secrets, text, cut)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := network.Mask(secrets, text, len(text)+1)
		if err != nil || whole != got {
			t.Fatalf("cut into pieces of %d: %q, at once: %q (%v)", cut, got, whole, err)
		}
		for _, s := range secrets {
			if strings.Contains(got, s) {
				t.Fatalf("%q is in %q", s, got)
			}
		}
		if !strings.ContainsAny(text, "ab") && got != text {
			t.Fatalf("%q became %q", text, got)
		}
	})
}

// tlsServer speaks TLS on a connection with a test server's certificate.
func tlsServer(c net.Conn, s *httptest.Server) *tls.Conn {
	conf := s.TLS.Clone()
	conf.NextProtos = []string{"http/1.1"}
	return tls.Server(c, conf)
}
