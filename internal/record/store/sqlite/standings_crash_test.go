package sqlite_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	osexec "os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
)

// crashID is the ID of the n-th grant of a round.
func crashID(round, n int) uuid.UUID {
	out := id(7)
	binary.BigEndian.PutUint32(out[8:], uint32(round))
	binary.BigEndian.PutUint32(out[12:], uint32(n))
	return out
}

// A process that is killed at any moment loses no revocation and no proof that
// was acknowledged, and leaves tables that fit the events.
func TestAKilledProcessLosesNoRevocation(t *testing.T) {
	const env, roundEnv = "REMIT_TEST_CRASH_STANDINGS", "REMIT_TEST_CRASH_ROUND"
	if home := os.Getenv(env); home != "" {
		round := must(strconv.Atoi(os.Getenv(roundEnv)))
		ctx := context.Background()
		s := must(sqlite.Open(ctx, sqlite.Options{Home: home, Durability: sqlite.Process}))
		for n := 1; ; n++ {
			g := crashID(round, n)
			if err := s.PutGrant(ctx, store.GrantRecord{ID: g, Holder: "agent:x", Issued: time.Now()}); err != nil {
				panic(err)
			}
			for _, to := range []store.Standing{store.Paused, store.Revoked} {
				if err := s.SetStanding(ctx, store.StandingChange{Grant: g, To: to, At: time.Now()}); err != nil {
					panic(err)
				}
			}
			must(s.UseProof(ctx, [32]byte(append(g[:], g[:]...)), time.Now().Add(time.Hour)))
			fmt.Println(n)
		}
	}
	ctx, home := context.Background(), t.TempDir()
	for round := 1; round <= 6; round++ {
		cmd := osexec.Command(must(os.Executable()), "-test.run=^TestAKilledProcessLosesNoRevocation$")
		cmd.Env = append(os.Environ(), env+"="+home, roundEnv+"="+strconv.Itoa(round))
		out := must(cmd.StdoutPipe())
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Duration(40+round*23)*time.Millisecond, func() { _ = cmd.Process.Kill() })
		last := 0
		for lines := bufio.NewScanner(out); lines.Scan(); {
			last, _ = strconv.Atoi(lines.Text())
		}
		_ = cmd.Wait() // it was killed

		s := must(sqlite.Open(ctx, sqlite.Options{Home: home, Durability: sqlite.Process}))
		for n := 1; n <= last; n++ {
			g := crashID(round, n)
			if got, _, err := s.Standing(ctx, []uuid.UUID{g}); err != nil || got[g] != store.Revoked {
				t.Fatalf("round %d: the revocation of grant %d of %d was acknowledged, it is %s, %v", round, n, last, got[g], err)
			}
			if fresh, err := s.UseProof(ctx, [32]byte(append(g[:], g[:]...)), time.Now().Add(time.Hour)); err != nil || fresh {
				t.Fatalf("round %d: proof %d of %d may be used again, %v", round, n, last, err)
			}
		}
		if err := s.SetStanding(ctx, store.StandingChange{Grant: id(9), To: store.Standing(round % 2), At: ledger.Time(1)}); err != nil {
			t.Error(err)
		}
		if r := must(s.Verify(ctx, store.VerifyOptions{})); len(r.Problems) > 0 {
			t.Fatalf("round %d: %+v", round, r.Problems)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		t.Logf("round %d: %d acknowledged", round, last)
	}
}
