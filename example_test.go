package remit_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/remitrun/remit"
)

const policy = `
version: 1
name: reader
files:
  read: {allow: ["**"]}
  write: {allow: ["out/**"]}
`

// An agent loop makes its calls through a session. What the policy does not
// allow is refused with the reason, and all of it can be verified and replayed.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "remit-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("buy milk\n"), 0o600); err != nil {
		log.Fatal(err)
	}

	rt, err := remit.Open(ctx, remit.Options{
		Home: filepath.Join(dir, ".home"), Workspace: dir, PolicySource: []byte(policy),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = rt.Close() }()

	s, err := rt.Begin(ctx, "shopping")
	if err != nil {
		log.Fatal(err)
	}
	res, err := s.Call(ctx, "fs.read", map[string]any{"path": "notes.txt"})
	if err != nil {
		log.Fatal(err)
	}
	var file struct{ Content string }
	if err := res.Decode(&file); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %q\n", res.Status, file.Content)

	_, err = s.Call(ctx, "fs.write", map[string]any{"path": "notes.txt", "content": "buy nothing"})
	fmt.Println(errors.Is(err, remit.Denied))

	run, err := s.End(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d completed, %d denied\n", run.Counts.Completed, run.Counts.Denied)

	if _, err := rt.Verify(ctx, remit.VerifyOptions{}); err != nil {
		log.Fatal(err)
	}
	again, err := rt.Replay(ctx, run.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d calls replayed\n", again.Calls)
	// Output:
	// completed: "buy milk\n"
	// true
	// 1 completed, 1 denied
	// 2 calls replayed
}
