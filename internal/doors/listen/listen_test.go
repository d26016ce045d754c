package listen_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/fault"
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

// port gives the port of an address.
func port(t *testing.T, l net.Listener) string {
	t.Helper()
	_, p, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestLocalhostTakesEveryAddressOfTheName(t *testing.T) {
	for _, own := range []string{"127.0.0.1", "::1", "127.0.0.2", "0.0.0.0", "::"} {
		t.Run(own, func(t *testing.T) {
			l, err := listen.Localhost(t.Context(), listen.Address{Listen: net.JoinHostPort(own, "0"), Secure: true, Hosts: []string{"gate.example"}})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					_, _ = io.WriteString(c, "here")
					_ = c.Close()
				}
			}()
			for _, name := range []string{"127.0.0.1", "::1"} {
				address := net.JoinHostPort(name, port(t, l))
				if squatter, err := net.Listen("tcp", address); err == nil { //nolint:noctx // it fails at once
					_ = squatter.Close()
					t.Errorf("another process can listen on %s", address)
				}
				c, err := net.Dial("tcp", address) //nolint:noctx // the listener is of this test
				if err != nil {
					t.Fatal(err)
				}
				if b, err := io.ReadAll(c); string(b) != "here" || err != nil {
					t.Errorf("%s answers %q, %v", address, b, err)
				}
				_ = c.Close()
			}
		})
	}
}

func TestLocalhostRefusesATakenAddress(t *testing.T) {
	squatter, err := net.Listen("tcp", "[::1]:0") //nolint:noctx // it is closed below
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = squatter.Close() }()
	l, err := listen.Localhost(t.Context(), listen.Address{Listen: "127.0.0.1:" + port(t, squatter)})
	if err == nil {
		_ = l.Close()
		t.Fatal("it listens beside another process")
	}
	if !strings.Contains(err.Error(), "[::1]:") {
		t.Errorf("the error is %v", err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:"+port(t, squatter)) //nolint:noctx // it is closed here
	if err != nil {
		t.Errorf("the first address is kept: %v", err)
	} else {
		_ = free.Close()
	}
}

func TestAClosedLocalhostAcceptsNothing(t *testing.T) {
	l, err := listen.Localhost(t.Context(), listen.Address{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	if c, err := l.Accept(); err == nil {
		_ = c.Close()
		t.Error("it accepts")
	}
}

func TestProxies(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.5": "10.0.0.5/32", "10.0.0.0/24": "10.0.0.0/24", "fd00::/8": "fd00::/8", "2001:db8::1": "2001:db8::1/128", "::ffff:10.0.0.5": "10.0.0.5/32",
	} {
		if got, err := listen.Proxies([]string{"127.0.0.1", text}); err != nil || len(got) != 2 || got[1].String() != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"": "not a valid address", "proxy.example": "not a valid address", "10.0.0.1:80": "not a valid address", "10.0.0.1,10.0.0.2": "repeat --proxy", "10.0.0.0/33": "not a valid address",
		"fe80::1%eth0": "not a valid address", "::ffff:10.0.0.0/120": "not a valid address", "::ffff:0:0/96": "not a valid address", "10.0.0.5/24": "10.0.0.0/24",
		"0.0.0.0/0": "too many addresses", "::/0": "too many addresses", "128.0.0.0/1": "too many addresses", "0.0.0.0/7": "too many addresses",
	} {
		got, err := listen.Proxies([]string{"127.0.0.1", text})
		if one := (*fault.Error)(nil); !errors.As(err, &one) || one.Code != fault.Usage || !strings.Contains(one.Msg+one.Hint, want) || got != nil {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}
