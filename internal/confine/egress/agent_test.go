package egress_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/confine/egress"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

func wire(parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch p := p.(type) {
		case byte:
			b = append(b, p)
		case uint32:
			b = binary.BigEndian.AppendUint32(b, p)
		case string:
			b = append(binary.BigEndian.AppendUint32(b, uint32(len(p))), p...)
		}
	}
	return b
}

// sshAgent starts a real agent with two keys. It gives its socket, the keys' wire form and
// fingerprints.
func sshAgent(t *testing.T) (at string, keys, names []string) {
	t.Helper()
	for _, program := range []string{"ssh-agent", "ssh-add", "ssh-keygen"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("NOT TESTED: there is no %s here", program)
		}
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at = filepath.Join(dir, "agent.sock")
	ctx, cancel := context.WithCancel(context.Background())
	agent := exec.CommandContext(ctx, "ssh-agent", "-D", "-a", at)
	out, err := agent.StdoutPipe()
	if err == nil {
		err = agent.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = agent.Wait() })
	_, _ = out.Read(make([]byte, 1)) // it prints its socket once it listens
	for _, name := range []string{"one", "two"} {
		key := filepath.Join(dir, name)
		run := func(program string, args ...string) string {
			c := exec.CommandContext(t.Context(), program, args...)
			c.Env = append(c.Environ(), "SSH_AUTH_SOCK="+at)
			b, err := c.CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %v\n%s", program, err, b)
			}
			return string(b)
		}
		run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", key)
		run("ssh-add", "-q", key)
		names = append(names, strings.Fields(run("ssh-keygen", "-lf", key+".pub"))[1])
	}
	return at, agentKeys(t, at), names
}

// ask sends a message to an agent and gives its answer.
func ask(t *testing.T, conn net.Conn, msg []byte) []byte {
	t.Helper()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(wire(string(msg))); err != nil {
		return nil
	}
	var head [4]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return nil
	}
	b := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(conn, b); err != nil {
		t.Fatal(err)
	}
	return b
}

func dialAgent(t *testing.T, at string) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// agentKeys lists the keys that an agent offers.
func agentKeys(t *testing.T, at string) (keys []string) {
	t.Helper()
	answer := ask(t, dialAgent(t, at), []byte{11})
	if len(answer) < 5 || answer[0] != 12 {
		t.Fatalf("list: %v", answer)
	}
	rest := answer[5:]
	for range binary.BigEndian.Uint32(answer[1:]) {
		n := 4 + binary.BigEndian.Uint32(rest)
		keys, rest = append(keys, string(rest[4:n])), rest[n:]
		rest = rest[4+binary.BigEndian.Uint32(rest):]
	}
	return keys
}

// filtered serves the agent as a sandbox sees it.
func filtered(t *testing.T, at, network string) (p *egress.Proxy, socket string) {
	t.Helper()
	p = egress.New(egress.Options{Permit: allowing(t, network), Agent: at})
	socket = filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = p.ServeSocket(sandbox.AgentAt, l) }()
	t.Cleanup(p.Close)
	return p, socket
}

func signature(namespace string) string {
	return "SSHSIG" + string(wire(namespace, "", "sha512", strings.Repeat("h", 64)))
}

func login(key string, more ...any) string {
	method := "publickey"
	if len(more) > 0 {
		method = "publickey-hostbound-v00@openssh.com"
	}
	return string(wire(append([]any{strings.Repeat("s", 32), byte(50), "git", "ssh-connection", method, byte(1), "ssh-ed25519", key}, more...)...))
}

func TestTheAgentSignsWhatThePolicyAllows(t *testing.T) {
	at, keys, names := sshAgent(t)
	const any, other = "ssh-agent:*", "SIGN ssh-agent:OTHER"
	tests := map[string]struct {
		policy  string
		data    string
		signed  bool
		purpose string
		reason  string
	}{
		"a commit":                {`{allow: ["SIGN ssh-agent:ONE"]}`, signature("git"), true, `signature for "git"`, ""},
		"any key":                 {`{allow: ["` + any + `"]}`, signature("file"), true, `signature for "file"`, ""},
		"a login":                 {`{allow: ["ssh-agent:ONE"]}`, login(keys[0]), true, `login as "git"`, ""},
		"a login to a known host": {`{allow: ["LOGIN ssh-agent:ONE"]}`, login(keys[0], "hostkey"), true, `login as "git" to the host with the key SHA256:`, ""},
		"a login, and only signatures are allowed": {`{allow: ["SIGN ssh-agent:*"]}`, login(keys[0]), false, `login as "git"`, "no entry of network.allow"},
		"a commit, and only logins are allowed":    {`{allow: ["LOGIN ssh-agent:*"]}`, signature("git"), false, `signature for "git"`, "no entry of network.allow"},
		"denied":                                   {`{allow: ["ssh-agent:*"], deny: ["SIGN ssh-agent:ONE"]}`, signature("git"), false, `signature for "git"`, "denied"},
		"asked, and nobody there":                  {`{ask: ["ssh-agent:*"]}`, signature("git"), false, `signature for "git"`, "approv"},
		"another key":                              {`{allow: ["` + other + `"]}`, signature("git"), false, `signature for "git"`, "no entry of network.allow"},
		"every host is allowed":                    {`{allow: ["*", "unix:/x", "http://*"]}`, signature("git"), false, `signature for "git"`, "no entry of network.allow"},
		"text":                                     {`{allow: ["ssh-agent:*"]}`, "anything", false, "", "neither a login nor a signature"},
		"nothing":                                  {`{allow: ["ssh-agent:*"]}`, "", false, "", "neither a login nor a signature"},
		"a certificate":                            {`{allow: ["ssh-agent:*"]}`, string(wire("ssh-ed25519-cert-v01@openssh.com", "nonce", "key")), false, "", "neither"},
		"a login of another key":                   {`{allow: ["ssh-agent:*"]}`, login(keys[1]), false, "", "neither"},
		"a login and more":                         {`{allow: ["ssh-agent:*"]}`, login(keys[0]) + "x", false, "", "neither"},
		"a signature and more":                     {`{allow: ["ssh-agent:*"]}`, signature("git") + "x", false, "", "neither"},
		"a signature for nothing":                  {`{allow: ["ssh-agent:*"]}`, signature(""), false, "", "neither"},
		"a signature cut off":                      {`{allow: ["ssh-agent:*"]}`, signature("git")[:40], false, "", "neither"},
		"a login by another method":                {`{allow: ["ssh-agent:*"]}`, strings.Replace(login(keys[0]), "publickey", "hostbased", 1), false, "", "neither"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p, socket := filtered(t, at, strings.NewReplacer("ONE", names[0], "OTHER", names[1]).Replace(tt.policy))
			answer := ask(t, dialAgent(t, socket), append([]byte{13}, wire(keys[0], tt.data, uint32(0))...))
			if signed := len(answer) > 64 && answer[0] == 14; signed != tt.signed || !signed && !bytes.Equal(answer, []byte{5}) {
				t.Errorf("signed: %v, want %v: %v", signed, tt.signed, answer)
			}
			list := p.Connections()
			if len(list) != 1 || list[0].Refused() == tt.signed || !strings.HasPrefix(list[0].Purpose, tt.purpose) || !strings.Contains(list[0].Reason, tt.reason) {
				t.Fatalf("recorded: %+v", list)
			}
			if tt.signed && !strings.HasSuffix(list[0].Target(), " ssh-agent:"+names[0]) {
				t.Errorf("recorded: %s", list[0].Target())
			}
		})
	}
}

// Nothing but the two requests reaches the agent, which stays as it was.
func TestTheAgentIsNotChanged(t *testing.T) {
	at, keys, names := sshAgent(t)
	p, socket := filtered(t, at, `{allow: ["ssh-agent:`+names[1]+`"]}`)
	if got := agentKeys(t, socket); len(got) != 1 || got[0] != keys[1] {
		t.Errorf("%d keys are listed", len(got))
	}
	for kind := range 256 {
		if kind == 11 {
			continue
		}
		conn := dialAgent(t, socket)
		for _, body := range [][]byte{nil, wire(keys[1]), wire("session-bind@openssh.com", keys[1]), wire("secret"), bytes.Repeat([]byte{0xff}, 64)} {
			if got := ask(t, conn, append([]byte{byte(kind)}, body...)); !bytes.Equal(got, []byte{5}) {
				t.Fatalf("message %d: %v", kind, got)
			}
		}
		_ = conn.Close()
	}
	for name, frame := range map[string][]byte{"an empty message": {0, 0, 0, 0}, "a message without end": {0xff, 0xff, 0xff, 0xff, 13}, "a large one": append([]byte{0, 4, 0, 1}, 13)} {
		conn := dialAgent(t, socket)
		if _, err := conn.Write(frame); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(conn); err != nil || len(b) > 0 {
			t.Errorf("%s: %v, %v", name, b, err)
		}
	}
	if got := agentKeys(t, at); len(got) != 2 {
		t.Errorf("the agent has %d keys", len(got))
	}
	if refused := p.Connections(); len(refused) < 2 || len(refused) > 300 {
		t.Errorf("%d refusals are recorded", len(refused))
	}
}

// One call has a bounded number of signatures, whoever makes them: each has its place in the record.
func TestSignaturesAreBounded(t *testing.T) {
	at, keys, _ := sshAgent(t)
	p, socket := filtered(t, at, `{allow: ["SIGN ssh-agent:*"]}`)
	signed := 0
	for range 25 {
		conn := dialAgent(t, socket)
		for range 10 {
			if answer := ask(t, conn, append([]byte{13}, wire(keys[0], signature("git"), uint32(0))...)); answer[0] == 14 {
				signed++
			}
		}
	}
	if signed != 200 || len(p.Connections()) != 201 {
		t.Errorf("%d signatures, %d recorded", signed, len(p.Connections()))
	}
}

// Where no agent runs, there is none in the sandbox either.
func TestNoAgent(t *testing.T) {
	for _, at := range []string{"", filepath.Join(t.TempDir(), "gone")} {
		p, socket := filtered(t, at, `{allow: ["ssh-agent:*"]}`)
		if got := ask(t, dialAgent(t, socket), []byte{11}); !bytes.Equal(got, []byte{5}) {
			t.Errorf("%q: %v", at, got)
		}
		if list := p.Connections(); len(list) != 1 || !strings.Contains(list[0].Reason, "agent") {
			t.Errorf("%q: %+v", at, list)
		}
	}
}
