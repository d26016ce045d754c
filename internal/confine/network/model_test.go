package network_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/network"
)

// asking makes a permit that allows some models and no network.
func asking(t *testing.T, models string, in, out int64) permit.Permit {
	t.Helper()
	p, err := policy.Parse("test.yaml", []byte("version: 1\nname: test\nmodels: {allow: ["+models+"]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Bind(policy.Env{Workspace: "/w"})
	if err != nil {
		t.Fatal(err)
	}
	return permit.Mint(permit.Terms{Chain: policy.Chain{r}, BytesIn: in, BytesOut: out})
}

// modelWay makes a way to a service in a world in which every host is s.
func modelWay(t *testing.T, p permit.Permit, s *httptest.Server, of network.ModelService, w *world) *network.ModelTransport {
	t.Helper()
	m, err := network.NewModelTransport(p, of)
	if err != nil {
		t.Fatal(err)
	}
	w.server = s.Listener.Addr().String()
	like := w.client(p).Transport
	if s.TLS != nil {
		like.SetRoots(s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs)
	}
	m.SetModelWorld(like)
	m.Secret = keys
	return m
}

func post(t *testing.T, rt http.RoundTripper, url string, header ...string) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

var api = network.ModelService{Model: "one/a", Base: "https://api.example.com/v1", Header: "Authorization", Prefix: "Bearer ", Key: "TOKEN"}

func TestAModelsServiceAndNothingElse(t *testing.T) {
	tests := map[string]struct {
		url    string
		header []string
		want   fault.Code // 0: it is sent
	}{
		"its path":               {"https://api.example.com/v1/chat", nil, 0},
		"its root":               {"https://api.example.com/v1", nil, 0},
		"a query":                {"https://api.example.com/v1/chat?version=1", nil, 0},
		"dots within":            {"https://api.example.com/v1/x/../chat", nil, 0},
		"another path":           {"https://api.example.com/v2/chat", nil, fault.HandleRefused},
		"a path that begins so":  {"https://api.example.com/v1evil/chat", nil, fault.HandleRefused},
		"dots out of it":         {"https://api.example.com/v1/../admin", nil, fault.HandleRefused},
		"encoded dots out of it": {"https://api.example.com/v1/%2e%2e/admin", nil, fault.HandleRefused},
		"an encoded slash":       {"https://api.example.com/v1%2fchat", nil, fault.HandleRefused},
		"another host":           {"https://evil.example.com/v1/chat", nil, fault.HandleRefused},
		"another port":           {"https://api.example.com:8443/v1/chat", nil, fault.HandleRefused},
		"plain text":             {"http://api.example.com/v1/chat", nil, fault.HandleRefused},
		"a user":                 {"https://me:pw@api.example.com/v1/chat", nil, fault.HandleRefused},
		"its own key":            {"https://api.example.com/v1/chat", []string{"Authorization", "Bearer mine"}, fault.HandleRefused},
		"another Host":           {"https://api.example.com/v1/chat", []string{"X-Forwarded-Host", "evil"}, fault.HandleRefused},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got http.Header
			s := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
			defer s.Close()
			w := &world{answers: map[string][][]netip.Addr{"api.example.com": addrs("8.8.8.8"), "evil.example.com": addrs("8.8.8.8")}}
			_, err := post(t, modelWay(t, asking(t, `"one/*"`, 0, 0), s, api, w), tt.url, append(tt.header, "X-Stainless-OS", "Linux", "User-Agent", "sdk 1.2")...)
			if (err != nil) != (tt.want != 0) || err != nil && !errors.Is(err, tt.want) {
				t.Fatalf("got %v, want %v", err, tt.want)
			}
			if err != nil {
				if len(w.dialed)+len(w.looked) > 0 {
					t.Errorf("%v was looked up and %v dialled all the same", w.looked, w.dialed)
				}
				return
			}
			if got.Get("Authorization") != "Bearer "+token || got.Get("X-Stainless-OS") != "" || got.Get("User-Agent") != "remit" {
				t.Errorf("the service was sent %v", got)
			}
		})
	}
}

func TestPrivateAddressesOfServices(t *testing.T) {
	tests := map[string]struct {
		base, answer string
		want         fault.Code
	}{
		"a public one":               {"http://api.example.com/v1", "8.8.8.8", 0},
		"a private one":              {"http://api.example.com/v1", "10.0.0.7", fault.HandleRefused},
		"a public and a private one": {"http://api.example.com/v1", "8.8.8.8 127.0.0.1", fault.HandleRefused},
		"the metadata service":       {"http://api.example.com/v1", "169.254.169.254", fault.HandleRefused},
		"a mapped loopback":          {"http://api.example.com/v1", "::ffff:127.0.0.1", fault.HandleRefused},
		"none":                       {"http://api.example.com/v1", "", fault.NotFound},
		"named itself":               {"http://10.0.0.7:8000/v1", "", 0},
		"localhost":                  {"http://localhost:11434/v1", "127.0.0.1", 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			defer s.Close()
			of := api
			of.Base, of.Key = tt.base, ""
			w := &world{answers: map[string][][]netip.Addr{"api.example.com": addrs(tt.answer), "localhost": addrs("127.0.0.1")}}
			_, err := post(t, modelWay(t, asking(t, `"one/*"`, 0, 0), s, of, w), tt.base+"/chat")
			if (err != nil) != (tt.want != 0) || err != nil && !errors.Is(err, tt.want) {
				t.Fatalf("got %v, want %v", err, tt.want)
			}
			if err != nil && len(w.dialed) > 0 {
				t.Errorf("%v was dialled all the same", w.dialed)
			}
		})
	}
}

func TestTheModelIsCheckedAtEachRequest(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) {})
	of := api
	of.Base = s.URL + "/v1"
	p := asking(t, `"one/*"`, 0, 0)
	m := modelWay(t, p, s, of, &world{})
	if _, err := post(t, m, of.Base+"/chat"); err != nil {
		t.Fatal(err)
	}
	p.End()
	if _, err := post(t, m, of.Base+"/chat"); !errors.Is(err, fault.HandleRefused) {
		t.Errorf("after the call: got %v", err)
	}
	for _, models := range []string{`"two/*"`, `"one/b"`} {
		if _, err := post(t, modelWay(t, asking(t, models, 0, 0), s, of, &world{}), of.Base+"/chat"); !errors.Is(err, fault.HandleRefused) {
			t.Errorf("allowed is %s: got %v", models, err)
		}
	}
	var zero network.ModelTransport
	if _, err := post(t, &zero, of.Base+"/chat"); !errors.Is(err, fault.HandleRefused) {
		t.Errorf("of nothing: got %v", err)
	}
	for _, base := range []string{"", "ftp://x", "https://a/b?c", "https://a/b#c", "https://u:p@a", "tcp://a:1"} {
		of.Base = base
		if _, err := network.NewModelTransport(p, of); !errors.Is(err, fault.HandleRefused) {
			t.Errorf("%q: got %v", base, err)
		}
	}
}

func TestKeysOfServices(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("it was asked") })
	for _, name := range []string{"NONE", "EMPTY", "BROKEN"} {
		of := api
		of.Base, of.Key = s.URL, name
		_, err := post(t, modelWay(t, asking(t, `"one/*"`, 0, 0), s, of, &world{}), s.URL+"/chat")
		var e *fault.Error
		if !errors.As(err, &e) || e.Code != fault.ModelKey || e.Hint == "" || !strings.Contains(e.Msg, name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestAKeyNeverComesBack in whatever way it is cut, spelled or told.
func TestAKeyNeverComesBack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		around := rapid.StringMatching(`[a-z/+"%=]{0,20}`)
		text := around.Draw(rt, "before") + token + around.Draw(rt, "after")
		cut := rapid.IntRange(1, 7).Draw(rt, "cut")
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Echo", token)
			for piece := range slices.Chunk([]byte(text), cut) {
				_, _ = w.Write(piece)
				_ = http.NewResponseController(w).Flush()
			}
		}))
		defer s.Close()
		of := api
		of.Base = s.URL
		m := modelWay(t, asking(t, `"one/*"`, 0, 0), s, of, &world{})
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/chat", http.NoBody)
		if err != nil {
			rt.Fatal(err)
		}
		resp, err := m.RoundTrip(req)
		if err != nil {
			rt.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || bytes.Contains(b, []byte(token)) || strings.Contains(fmt.Sprint(resp.Header), token) {
			rt.Fatalf("got %q and %v (%v)", b, resp.Header, err)
		}
	})
}

func TestBytesOfModelsAreCounted(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1000)) })
	of := api
	of.Base = s.URL
	p := asking(t, `"one/*"`, 0, 0)
	if _, err := post(t, modelWay(t, p, s, of, &world{}), s.URL+"/chat"); err != nil {
		t.Fatal(err)
	}
	if in, out := p.Traffic(); in != 1000 || out != 2 {
		t.Errorf("counted %d in and %d out", in, out)
	}
	notes, _ := p.Happened()
	if len(notes) != 1 || notes[0].Effect != tool.NetworkHTTP || notes[0].On != "POST "+s.URL+"/chat" {
		t.Errorf("noted %v", notes)
	}
	for _, limit := range [][2]int64{{500, 0}, {0, 1}} {
		p := asking(t, `"one/*"`, limit[0], limit[1])
		if _, err := post(t, modelWay(t, p, s, of, &world{}), s.URL+"/chat"); !errors.Is(err, fault.BudgetSpent) {
			t.Errorf("limits %v: got %v", limit, err)
		}
	}
}

// gone waits until who asked is gone, which shows once all was read.
func gone(r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

func TestASilentServiceIsLeft(t *testing.T) {
	tests := map[string]http.HandlerFunc{
		"before it answers": func(_ http.ResponseWriter, r *http.Request) { gone(r) },
		"within the answer": func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte("some"))
			_ = http.NewResponseController(w).Flush()
			gone(r)
		},
	}
	for name, h := range tests {
		t.Run(name, func(t *testing.T) {
			s := serve(t, h)
			of := api
			of.Base, of.Wait = s.URL, 100*time.Millisecond
			if _, err := post(t, modelWay(t, asking(t, `"one/*"`, 0, 0), s, of, &world{}), s.URL+"/chat"); !errors.Is(err, fault.ToolTimeout) {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("one that goes on is not", func(t *testing.T) {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			for range 25 {
				_, _ = w.Write([]byte("x"))
				_ = http.NewResponseController(w).Flush()
				time.Sleep(100 * time.Millisecond) // all of them are longer than Wait, none of them is
			}
		})
		of := api
		of.Base, of.Wait = s.URL, 2*time.Second
		if b, err := post(t, modelWay(t, asking(t, `"one/*"`, 0, 0), s, of, &world{}), s.URL+"/chat"); err != nil || b != strings.Repeat("x", 25) {
			t.Errorf("got %q, %v", b, err)
		}
	})
}

func TestServicesThatGoTooFar(t *testing.T) {
	tests := map[string]struct {
		h    http.HandlerFunc
		want fault.Code
	}{
		"too much": {func(w http.ResponseWriter, _ *http.Request) {
			b := make([]byte, 1<<20)
			for range network.MaxModelBytes>>20 + 2 {
				if _, err := w.Write(b); err != nil {
					return
				}
			}
		}, fault.LimitReached},
		"encoded": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			_, _ = w.Write([]byte("x"))
		}, fault.ToolFailed},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := serve(t, tt.h)
			of := api
			of.Base = s.URL
			if _, err := post(t, modelWay(t, asking(t, `"one/*"`, 0, 0), s, of, &world{}), s.URL+"/chat"); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
	t.Run("a redirect is an answer", func(t *testing.T) {
		var mu sync.Mutex
		var asked []string
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			asked = append(asked, r.URL.Path)
			mu.Unlock()
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		})
		of := api
		of.Base = s.URL
		if _, err := post(t, modelWay(t, asking(t, `"one/*"`, 0, 0), s, of, &world{}), s.URL+"/chat"); err != nil || len(asked) != 1 {
			t.Errorf("got %v after %v", err, asked)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		s := serve(t, func(_ http.ResponseWriter, r *http.Request) { gone(r) })
		of := api
		of.Base = s.URL
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(20*time.Millisecond, cancel)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/chat", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := modelWay(t, asking(t, `"one/*"`, 0, 0), s, of, &world{}).RoundTrip(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		if !errors.Is(err, fault.ToolCancelled) {
			t.Errorf("got %v", err)
		}
	})
}
