package egress_test

import (
	"net/netip"
	"testing"

	"github.com/remitrun/remit/internal/confine/egress"
)

// What is refused comes with the edit that would allow it; what an entry denies,
// and what fails, comes without.
func TestRefusalsComeWithAHint(t *testing.T) {
	w := &world{answers: map[string][]netip.Addr{"intern.test": {netip.MustParseAddr("10.1.2.3")}}}
	tests := map[string]struct{ policy, url, hint string }{
		"a request": {`{allow: [a.test]}`, "http://b.test/x", `network.allow: ["GET http://b.test/x"] would allow it`},
		"a tunnel":  {`{allow: [a.test]}`, "https://b.test/x", `network.allow: ["https://b.test"] would allow TLS to it`},
		"a tunnel to another port": {`{allow: [a.test]}`, "https://a.test:8443/x",
			`network.allow: ["https://a.test:8443"] would allow TLS to it, network.allow: ["tcp://a.test:8443"] anything`},
		"a tunnel to inspect": {`{allow: ["GET a.test"]}`, "https://a.test/x", "write the entry as {url: ..., inspect: true}"},
		"a private address": {`{allow: ["http://intern.test"]}`, "http://intern.test/x",
			`only an entry that names the address allows it: {url: "http://intern.test", addresses: ["10.1.2.3"]}`},
		"nothing is allowed": {`{deny: [a.test]}`, "http://b.test/x", `network.allow: ["GET http://b.test/x"] would allow it`},
		"denied":             {`{allow: ["*"], deny: [a.test]}`, "https://a.test/x", ""},
		"failed":             {`{allow: ["http://*"]}`, "http://missing.test/x", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := serve(t, w, egress.Options{Permit: allowing(t, tt.policy)})
			_, _, _ = get(t, b.client(t, nil), tt.url)
			b.Close()
			if r := b.Connections(); len(r) != 1 || r[0].Hint != tt.hint {
				t.Errorf("got %+v, want the hint %q", r, tt.hint)
			}
		})
	}
}
