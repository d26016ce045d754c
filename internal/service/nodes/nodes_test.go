package nodes_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/app/apptest"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/nodes"
)

func TestDifferences(t *testing.T) {
	a := nodes.Node{Name: "a", Version: "1", Digests: map[string]string{"config.yaml": "x", "policy": "p"}}
	for want, b := range map[string]nodes.Node{
		"":                           {Name: "b", Version: "1", Digests: map[string]string{"config.yaml": "x", "policy": "p"}},
		"version":                    {Name: "b", Version: "2", Digests: map[string]string{"config.yaml": "x", "policy": "p"}},
		"config.yaml":                {Name: "b", Version: "1", Digests: map[string]string{"config.yaml": "y", "policy": "p"}},
		"policy.yaml":                {Name: "b", Version: "1", Digests: map[string]string{"config.yaml": "x", "policy": "p", "policy.yaml": "z"}},
		"version config.yaml policy": {Name: "b"},
	} {
		if got := strings.Join(a.Differences(b), " "); got != want || !slices.Equal(a.Differences(b), b.Differences(a)) {
			t.Errorf("%+v differs in %q, want %q", b, got, want)
		}
	}
}

// TestNodesWarnOfDifferences: a second node has another version and another config.yaml. Each of the
// two logs that once, and the list has both until they end.
func TestNodesWarnOfDifferences(t *testing.T) {
	a := apptest.New(t, filepath.Join(t.TempDir(), "home"))
	st, err := a.Store(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	other := &home.Home{Config: home.Config{Dir: t.TempDir(), Version: "v9.9.9", Database: "postgres://shared"}}
	if err := os.WriteFile(filepath.Join(other.Dir, "config.yaml"), []byte("logs: {level: WARN}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	first, err := nodes.Here(other, []byte("policy"))
	if err != nil {
		t.Fatal(err)
	}
	first.Name = "first:1"
	ctx, stop := context.WithCancel(t.Context())
	first.Version = "v1.0.0"
	if err := nodes.Note(ctx, st, first); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		nodes.Run(ctx, other, st, []byte("another policy"))
	}()
	file := filepath.Join(other.Dir, "logs", "remit.log")
	var log []byte
	for !strings.Contains(string(log), "nodes_differ") {
		if log, err = os.ReadFile(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	if n := strings.Count(string(log), "nodes_differ"); n != 1 || !strings.Contains(string(log), "version, policy") || !strings.Contains(string(log), "v9.9.9") {
		t.Errorf("the log has %s", log)
	}
	if list, err := nodes.List(ctx, st); err != nil || len(list) != 2 || list[0].Name != "first:1" {
		t.Errorf("the nodes are %+v, %v", list, err)
	}
	stop()
	<-done
	if list, err := nodes.List(t.Context(), st); err != nil || len(list) != 1 {
		t.Errorf("after its end: %+v, %v", list, err)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
}
