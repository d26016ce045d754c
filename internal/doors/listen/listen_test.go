package listen_test

import (
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/doors/listen"
)

func TestOpenRefusesWhatOthersReach(t *testing.T) {
	hosts := []string{"gate.example"}
	for name, c := range map[string]struct {
		a    listen.Address
		want string // "": it listens
	}{
		"loopback":              {listen.Address{Listen: "127.0.0.1:0"}, ""},
		"IPv6 with brackets":    {listen.Address{Listen: "[fe80::1]:0"}, "tokens would be sent unencrypted"},
		"every address":         {listen.Address{Listen: ":0", Hosts: hosts}, "tokens would be sent unencrypted"},
		"mapped IPv4":           {listen.Address{Listen: "[::ffff:10.0.0.1]:0", Hosts: hosts}, "tokens would be sent unencrypted"},
		"secure, without name":  {listen.Address{Listen: "0.0.0.0:0", Secure: true}, "by which name"},
		"secure, with its name": {listen.Address{Listen: "0.0.0.0:0", Secure: true, Hosts: hosts}, ""},
		"a host name":           {listen.Address{Listen: "localhost:0"}, "names no address"},
		"no port":               {listen.Address{Listen: "127.0.0.1"}, "is not an address and a port"},
		"too large a port":      {listen.Address{Listen: "127.0.0.1:65536"}, "not a valid port"},
	} {
		l, err := listen.Open(t.Context(), c.a)
		if err == nil {
			_ = l.Close()
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestTLSNeedsBothFiles(t *testing.T) {
	if c, err := listen.TLS("", ""); c != nil || err != nil {
		t.Errorf("without files: %v, %v", c, err)
	}
	for _, files := range [][2]string{{"cert.pem", ""}, {"", "key.pem"}, {"/nonexistent", "/nonexistent"}} {
		if c, err := listen.TLS(files[0], files[1]); c != nil || err == nil {
			t.Errorf("%q: %v, %v", files, c, err)
		}
	}
}
