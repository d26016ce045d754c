package standing_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/standing"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
)

const homeVariable = "REMIT_TEST_AUTHORITY_HOME"

func otherProcess() string { return os.Getenv(homeVariable) }

// revokeWhatIsAsked is what the other process does: it revokes each ID that it
// reads and says so.
func revokeWhatIsAsked(home string) {
	s := must(sqlite.Open(context.Background(), sqlite.Options{Home: home, Durability: sqlite.Process}))
	defer s.Close()
	a := standing.New(standing.Options{Grants: s})
	defer a.Close()
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		id := must(uuid.Parse(in.Text()))
		if err := a.SetStanding(context.Background(), change(id, store.Revoked)); err != nil {
			panic(err)
		}
		fmt.Println("revoked", id)
	}
}

func TestARevocationByAnotherProcess(t *testing.T) {
	home := t.TempDir()
	a := newAuthority(t, standing.Options{Grants: openStore(t, home)})
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), homeVariable+"="+home)
	cmd.Stderr = os.Stderr
	in := must(cmd.StdinPipe())
	out := bufio.NewScanner(must(cmd.StdoutPipe()))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			t.Error(err)
		}
	}()
	fastest := time.Hour // a loaded machine may be late now and then
	for i := range 6 {
		root := under(t, "", grant.Terms{})
		g := root.Derive(grant.Terms{ID: uuid.New(), Kept: true})
		if err := a.Check(context.Background(), g); err != nil {
			t.Fatal(err)
		}
		ctx, stop := a.Watch(context.Background(), g)
		fmt.Fprintln(in, root.ID())
		if !out.Scan() || !strings.HasPrefix(out.Text(), "revoked") {
			t.Fatalf("the other process said %q", out.Text())
		}
		acknowledged := time.Now()
		if i%2 == 0 {
			if err := ended(ctx, t, time.Minute); !errors.Is(err, fault.GrantRevoked) {
				t.Errorf("the call ended with %v", err)
			}
			fastest = min(fastest, time.Since(acknowledged))
		}
		stop()
		for {
			at := time.Since(acknowledged)
			if errors.Is(a.Check(context.Background(), g), fault.GrantRevoked) {
				break
			}
			if at > time.Second {
				t.Fatalf("%s after the revocation it may still be used", at)
			}
		}
	}
	if fastest > time.Second {
		t.Errorf("no call ended sooner than %s after the revocation", fastest)
	}
}
