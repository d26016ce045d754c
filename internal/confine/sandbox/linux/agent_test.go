//go:build linux && (amd64 || arm64)

package linux_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/confine/egress"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

// A commit is signed in the sandbox with a key of the person's agent, and nothing else can be done
// with the agent.
func TestEscapeAgent(t *testing.T) {
	for _, program := range []string{"ssh-agent", "ssh-add", "ssh-keygen", "git"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("NOT TESTED: there is no %s here", program)
		}
	}
	outside, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	at := filepath.Join(outside, "agent.sock")
	ctx, cancel := context.WithCancel(context.Background())
	agent := exec.CommandContext(ctx, "ssh-agent", "-D", "-a", at)
	said, err := agent.StdoutPipe()
	must(t, err)
	must(t, agent.Start())
	t.Cleanup(func() { cancel(); _ = agent.Wait() })
	_, _ = said.Read(make([]byte, 1)) // it prints its socket once it listens
	host := func(program string, args ...string) string {
		t.Helper()
		c := exec.CommandContext(t.Context(), program, args...)
		c.Env = append(c.Environ(), "SSH_AUTH_SOCK="+at)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", program, err, out)
		}
		return string(out)
	}
	key := filepath.Join(outside, "key")
	host("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "ann", "-f", key)
	host("ssh-add", "-q", key)
	w := newWorld(t, openPolicy)
	var made *egress.Proxy
	w.box = linux.New(linux.Config{Egress: func(p permit.Permit, _ sandbox.Command) (sandbox.Proxy, error) {
		made = egress.New(egress.Options{Permit: p, Agent: at})
		return made, nil
	}})
	t.Cleanup(func() { must(t, w.box.Close()) })
	pub, err := os.ReadFile(key + ".pub")
	must(t, err)
	w.file("out/key.pub", string(pub))
	script := `cd out; ssh-add -l; ssh-add -D; ssh-add -x </dev/null; ssh-keygen -q -t ed25519 -N '' -f /tmp/k; ssh-add /tmp/k
		echo text | ssh-keygen -Y sign -n file -f key.pub
		git init -q repo; cd repo; git -c user.name=a -c user.email=a@b -c gpg.format=ssh -c user.signingkey=../key.pub commit -q -S --allow-empty -m signed && git cat-file commit HEAD`

	w.allow(openPolicy)
	if out := w.sh(script); strings.Contains(string(out.Stdout.Data), "BEGIN SSH SIGNATURE") || strings.Contains(string(out.Stdout.Data), "ann (ED25519)") {
		t.Errorf("without an entry: %s", out.Stdout.Data)
	}
	name := strings.Fields(host("ssh-keygen", "-lf", key+".pub"))[1]
	w.allow(openPolicy + "network: {allow: [\"SIGN ssh-agent:" + name + "\"]}\n")
	out := w.sh(script)
	if got := string(out.Stdout.Data); strings.Count(got, "BEGIN SSH SIGNATURE") != 2 || !strings.Contains(got, "ann (ED25519)") {
		t.Errorf("%s\n%s", got, out.Stderr.Data)
	}
	if got := host("ssh-add", "-l"); strings.Count(got, "\n") != 1 || !strings.Contains(got, "ann") {
		t.Errorf("the agent was changed: %s", got)
	}
	var signed []string
	list, _ := w.p.Happened()
	for _, h := range list {
		if h.Purpose != "" {
			signed = append(signed, h.On+" "+h.Purpose)
		}
	}
	want := "SIGN ssh-agent:" + name + ` signature for "file"; SIGN ssh-agent:` + name + ` signature for "git"`
	if got := strings.Join(signed, "; "); got != want {
		t.Errorf("recorded %s, want %s\n%+v", got, want, made.Connections())
	}
}
