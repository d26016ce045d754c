package network_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/network"
)

// site is a client in a world of two public origins, a.test and b.test, served
// by h; all of both is allowed over http on port 80 and 81.
func site(t *testing.T, h http.HandlerFunc) (*network.Client, *world) {
	t.Helper()
	s := serve(t, h)
	w := &world{server: s.Listener.Addr().String(), answers: map[string][][]netip.Addr{
		"a.test": addrs("8.8.8.8"), "b.test": addrs("8.8.4.4"), "inside.test": addrs("127.0.0.1"), "rebinds.test": addrs("10.0.0.1")}}
	return w.client(allowing(t, allow("http://a.test", "http://b.test", "http://a.test:81", "http://inside.test", "http://rebinds.test", "POST http://post.test"))), w
}

func TestRedirectsAreDecidedAnew(t *testing.T) {
	for name, location := range map[string]string{
		"file":                "file:///etc/passwd",
		"gopher":              "gopher://127.0.0.1:70/_x",
		"data":                "data:text/plain,x",
		"javascript":          "javascript:alert(1)",
		"loopback":            "http://127.0.0.1/",
		"loopback v6":         "http://[::1]/",
		"localhost":           "http://localhost/",
		"metadata":            "http://169.254.169.254/latest/meta-data/",
		"decimal":             "http://2130706433/",
		"scheme relative":     "//127.0.0.1/",
		"backslashes":         `/\127.0.0.1/`,
		"userinfo":            "http://b.test@127.0.0.1/",
		"name to loopback":    "http://inside.test/",
		"name to private":     "http://rebinds.test/",
		"not allowed":         "http://c.test/",
		"not allowed port":    "http://b.test:82/",
		"not allowed scheme":  "https://b.test/",
		"not allowed method":  "http://post.test/",
		"trailing look-alike": "http://b.test.evil.test/",
		"white space":         "http://b.test\t/",
		"encoded slash":       "/x%2f../y",
	} {
		t.Run(name, func(t *testing.T) {
			c, w := site(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", location)
				w.WriteHeader(http.StatusFound)
			})
			resp, err := c.Do(t.Context(), network.Request{URL: "http://a.test/"})
			if err == nil {
				t.Fatalf("followed to %s", resp.URL)
			}
			if !errors.Is(err, fault.HandleRefused) || !strings.Contains(err.Error(), "a.test") {
				t.Errorf("error is %v", err)
			}
			if !slices.Equal(w.dialed, []string{"8.8.8.8:80"}) {
				t.Errorf("dialled %q", w.dialed)
			}
		})
	}
}

func TestRedirectsFollowFetch(t *testing.T) {
	tests := map[string]struct {
		method, body, to string
		status           int
		want             string
	}{
		"302 keeps GET":                       {"GET", "", "/end", 302, "GET / auth=A x=X ct="},
		"302 turns POST into GET":             {"POST", "b", "/end", 302, "GET / auth=A x=X ct="},
		"301 keeps PUT":                       {"PUT", "b", "/end", 301, "PUT b/ auth=A x=X ct=T"},
		"303 turns PUT into GET":              {"PUT", "b", "/end", 303, "GET / auth=A x=X ct="},
		"303 keeps HEAD":                      {"HEAD", "", "/end", 303, ""},
		"307 keeps POST and body":             {"POST", "b", "/end", 307, "POST b/ auth=A x=X ct=T"},
		"308 keeps POST and body":             {"POST", "b", "http://a.test:80/end", 308, "POST b/ auth=A x=X ct=T"},
		"another host gets no headers":        {"GET", "", "http://b.test/end", 302, "GET / auth= x= ct="},
		"another port gets no headers":        {"GET", "", "http://a.test:81/end", 302, "GET / auth= x= ct="},
		"another host gets no body":           {"POST", "b", "http://b.test/end", 307, "refused"},
		"another host gets POST turned GET":   {"POST", "b", "http://b.test/end", 303, "GET / auth= x= ct="},
		"307 without body to another host":    {"DELETE", "", "http://b.test/end", 307, "DELETE / auth= x= ct="},
		"without a location it is the answer": {"GET", "", "", 302, "no location"},
		"300 is an answer":                    {"GET", "", "/end", 300, "no location"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c, _ := site(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/end" {
					if tc.to != "" {
						w.Header().Set("Location", tc.to)
					}
					w.WriteHeader(tc.status)
					_, _ = io.WriteString(w, "no location")
					return
				}
				b, _ := io.ReadAll(r.Body)
				fmt.Fprintf(w, "%s %s/ auth=%s x=%s ct=%s", r.Method, b, r.Header.Get("Authorization"), r.Header.Get("X-Api-Key"), r.Header.Get("Content-Type"))
			})
			req := network.Request{Method: tc.method, URL: "http://a.test/", Header: http.Header{"Authorization": {"A"}, "X-Api-Key": {"X"}, "Cookie": {"C"}}}
			if tc.body != "" {
				req.Body = []byte(tc.body)
				req.Header.Set("Content-Type", "T")
			}
			resp, err := c.Do(t.Context(), req)
			if tc.want == "refused" {
				if !errors.Is(err, fault.HandleRefused) {
					t.Errorf("error is %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := body(t, resp); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if len(req.Header) < 3 {
				t.Error("the caller's headers were changed")
			}
		})
	}
}

func TestRedirectsEnd(t *testing.T) {
	n := 0
	c, _ := site(t, func(w http.ResponseWriter, r *http.Request) { n++; http.Redirect(w, r, "/again", http.StatusFound) })
	if _, err := c.Do(t.Context(), network.Request{URL: "http://a.test/"}); !errors.Is(err, fault.ToolFailed) || n != network.MaxRedirects+1 {
		t.Errorf("%d requests, then %v", n, err)
	}
}

func TestRedirectsAreNamed(t *testing.T) {
	c, _ := site(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			http.Redirect(w, r, "/one?x=1#f", http.StatusFound)
		case "/one":
			http.Redirect(w, r, "http://b.test/two#g", http.StatusFound)
		}
	})
	resp, err := c.Do(t.Context(), network.Request{URL: "http://a.test"})
	if err != nil {
		t.Fatal(err)
	}
	body(t, resp)
	if want := []string{"http://a.test/", "http://a.test/one?x=1"}; !slices.Equal(resp.Redirects, want) || resp.URL != "http://b.test/two" {
		t.Errorf("%q to %q", resp.Redirects, resp.URL)
	}
}

func TestRedirectsShareOneTimeout(t *testing.T) {
	addr := rawServer(t, func(c net.Conn) {
		time.Sleep(200 * time.Millisecond)
		_, _ = io.WriteString(c, "HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n")
	})
	start := time.Now()
	c := network.NewClient(allowing(t, allow("http://"+addr)+"  timeout: 500ms\n"))
	if _, err := c.Do(t.Context(), network.Request{URL: "http://" + addr}); !errors.Is(err, fault.ToolTimeout) || time.Since(start) > 20*time.Second {
		t.Errorf("%v after %v", err, time.Since(start))
	}
}

func TestRedirectToAnotherSchemeLosesHeaders(t *testing.T) {
	plain := serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "auth=%s cookie=%s agent=%s", r.Header.Get("Authorization"), r.Header.Get("Cookie"), r.Header.Get("User-Agent"))
	})
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://example.com/", http.StatusFound)
	}))
	defer secure.Close()
	c := network.NewClient(allowing(t, allow("https://example.com", "http://example.com")))
	c.Transport.SetLookup((&world{answers: map[string][][]netip.Addr{"example.com": addrs("8.8.8.8")}}).lookup)
	c.Transport.SetRoots(secure.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs)
	c.Transport.SetDial(func(ctx context.Context, to netip.AddrPort, _ func(string) error) (net.Conn, error) {
		at := plain.Listener.Addr().String()
		if to.Port() == 443 {
			at = secure.Listener.Addr().String()
		}
		var d net.Dialer
		return d.DialContext(ctx, "tcp", at)
	})
	resp, err := c.Do(t.Context(), network.Request{URL: "https://example.com/", Header: http.Header{"Authorization": {"A"}, "Cookie": {"C"}, "User-Agent": {"U"}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := body(t, resp); got != "auth= cookie= agent=U" {
		t.Errorf("the second server saw %q", got)
	}
}
