package sqlite_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	osexec "os/exec"
	"strconv"
	"testing"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
)

// A process that is killed at any moment, while several sessions are at work,
// loses no message and no version of a file that was acknowledged, and leaves
// tables that fit the events.
func TestAKilledProcessLosesNoMessage(t *testing.T) {
	const env = "REMIT_TEST_CRASH_SESSIONS"
	ctx := context.Background()
	if home := os.Getenv(env); home != "" {
		s := must(sqlite.Open(ctx, sqlite.Options{Home: home, Durability: sqlite.Process}))
		for range 4 {
			go func() {
				session := newSession(t, s)
				for n := 0; ; n++ {
					must(s.AddMessages(ctx, session, 2*n, message(2*n), message(2*n+1)))
					must(s.ChangeFiles(ctx, session, room, store.FileChange{Path: "/a", Was: n, Content: fmt.Append(nil, n)}))
					fmt.Println(session, n)
				}
			}()
		}
		select {}
	}
	home := t.TempDir()
	for round := range 5 {
		cmd := osexec.Command(must(os.Executable()), "-test.run=^TestAKilledProcessLosesNoMessage$")
		cmd.Env = append(os.Environ(), env+"="+home)
		out := must(cmd.StdoutPipe())
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		done, told := map[uuid.UUID]int{}, 0
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if session, n, ok := bytes.Cut(lines.Bytes(), []byte(" ")); ok {
				done[must(uuid.ParseBytes(session))] = must(strconv.Atoi(string(n)))
			}
			if told++; told == 10+round*17 {
				_ = cmd.Process.Kill() // what it tells meanwhile counts too
			}
		}
		_ = cmd.Wait() // it was killed

		s := must(sqlite.Open(ctx, sqlite.Options{Home: home, Durability: sqlite.Process}))
		for session, n := range done {
			checkSurvivor(t, s, session, n)
		}
		if r := must(s.Verify(ctx, store.VerifyOptions{})); len(r.Problems) > 0 {
			t.Fatalf("round %d: %+v", round, r.Problems)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		t.Logf("round %d: %v", round, done)
	}
}

// checkSurvivor looks at a session whose n-th pair of messages and file were
// acknowledged, and goes on with it.
func checkSurvivor(t *testing.T, s *sqlite.Store, session uuid.UUID, n int) {
	t.Helper()
	ctx := context.Background()
	last := 0
	for m, err := range s.Messages(ctx, session, 0, false) {
		if last++; err != nil || !bytes.Equal(m.Doc, message(last-1).Doc) {
			t.Fatalf("session %s: message %d is %q, %v", session, last, m.Doc, err)
		}
	}
	if last < 2*n+2 || last%2 != 0 {
		t.Errorf("session %s: %d messages are there, %d were acknowledged", session, last, 2*n+2)
	}
	f := must(s.File(ctx, session, "/a", 0))
	if b := must(s.LoadFile(ctx, f)); f.Version < n+1 || string(b) != strconv.Itoa(f.Version-1) {
		t.Errorf("session %s: the file is version %d with %q, version %d was acknowledged", session, f.Version, b, n+1)
	}
	must(s.AddMessages(ctx, session, last, message(last)))
	must(s.ChangeFiles(ctx, session, room, store.FileChange{Path: "/a", Was: f.Version, Delete: true}))
}
