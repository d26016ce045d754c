//go:build linux && (amd64 || arm64)

package linux

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// query makes a question of a name server's client.
func query(t testing.TB, name string, kind dnsmessage.Type) []byte {
	t.Helper()
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: 7, RecursionDesired: true})
	n, err := dnsmessage.NewName(name)
	if err == nil {
		err = b.StartQuestions()
	}
	if err == nil {
		err = b.Question(dnsmessage.Question{Name: n, Type: kind, Class: dnsmessage.ClassINET})
	}
	if err != nil {
		t.Fatal(err)
	}
	out, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// ask returns the addresses of a name, or the code of an error.
func (h *hostNames) ask(t testing.TB, name string, kind dnsmessage.Type) string {
	t.Helper()
	var m dnsmessage.Message
	if err := m.Unpack(h.answer(query(t, name, kind))); err != nil {
		t.Fatal(err)
	}
	if m.ID != 7 || !m.Response || len(m.Questions) != 1 {
		t.Errorf("the answer to %s is %+v", name, m)
	}
	got := ""
	for _, r := range m.Answers {
		switch r := r.Body.(type) {
		case *dnsmessage.AResource:
			got += fmt.Sprint(r.A)
		case *dnsmessage.AAAAResource:
			got += fmt.Sprint(r.AAAA)
		}
	}
	if m.RCode != dnsmessage.RCodeSuccess {
		got += m.RCode.String()
	}
	return got
}

func TestAnswersOfTheNameService(t *testing.T) {
	h := new(hostNames)
	const a, aaaa, mx = dnsmessage.TypeA, dnsmessage.TypeAAAA, dnsmessage.TypeMX
	for _, tt := range []struct {
		name string
		kind dnsmessage.Type
		want string
	}{
		{"a.test.", a, "[198 18 0 1]"},
		{"b.test.", a, "[198 18 0 2]"},
		{"A.Test.", a, "[198 18 0 1]"},
		{"a.test.", aaaa, ""},
		{"c.test.", mx, ""},
		{"localhost.", a, "[127 0 0 1]"},
		{"web.localhost.", aaaa, "[0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1]"},
		{"localhost.", mx, ""},
		{"1.0.18.198.in-addr.arpa.", dnsmessage.TypePTR, "RCodeNameError"},
		{"o'dd.test.", a, "RCodeNameError"},
		{"späße.test.", a, "RCodeNameError"},
		{"d e.test.", a, "RCodeNameError"},
		{".", a, "RCodeNameError"},
	} {
		if got := h.ask(t, tt.name, tt.kind); got != tt.want {
			t.Errorf("%s %v: %s, want %s", tt.name, tt.kind, got, tt.want)
		}
	}
	if len(h.order) != 2 {
		t.Errorf("the names are %q", h.order)
	}
}

// Each name keeps its own address, up to the bound.
func TestTheNumberOfNamesIsBounded(t *testing.T) {
	h := new(hostNames)
	seen := map[string]bool{}
	for i := range maxHostNames {
		got := h.ask(t, fmt.Sprintf("n%d.test.", i), dnsmessage.TypeA)
		if seen[got] || !strings.HasPrefix(got, "[198 18 ") {
			t.Fatalf("n%d has the address %s", i, got)
		}
		seen[got] = true
	}
	if got := h.ask(t, "more.test.", dnsmessage.TypeA); got != "RCodeServerFailure" {
		t.Errorf("one more: %s", got)
	}
	for _, i := range []int{0, 255, 256, maxHostNames - 1} {
		name := fmt.Sprintf("n%d.test", i)
		if at, ok := h.address(name); !ok || h.host(at) != name {
			t.Errorf("%s stands for %s", at, h.host(at))
		}
	}
}

func FuzzNameService(f *testing.F) {
	f.Add(query(f, "a.test.", dnsmessage.TypeA))
	f.Add(query(f, "localhost.", dnsmessage.TypeAAAA))
	f.Add([]byte{0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xc0, 12, 0, 1, 0, 1}) // a name that refers to itself
	f.Fuzz(func(t *testing.T, msg []byte) {
		h := new(hostNames)
		out := h.answer(msg)
		var m dnsmessage.Message
		if out != nil && m.Unpack(out) != nil {
			t.Errorf("%x is no answer", out)
		}
		for _, name := range h.order {
			if !isHostName(name) {
				t.Errorf("%q has an address", name)
			}
		}
	})
}
