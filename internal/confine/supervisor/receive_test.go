//go:build linux && (amd64 || arm64)

package supervisor_test

import (
	"errors"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/confine/supervisor"
)

// TestSlowDecisionsHoldUpNoOtherCall: calls are answered while several decisions take long.
func TestSlowDecisionsHoldUpNoOtherCall(t *testing.T) {
	var asked sync.WaitGroup
	asked.Add(6)
	s := supervised{dir: t.TempDir(), decide: func(r supervisor.Request) error {
		if !strings.HasPrefix(path.Base(r.Path), "slow") {
			return nil
		}
		asked.Done()
		all := make(chan struct{})
		go func() { asked.Wait(); close(all) }()
		select {
		case <-all:
			return nil
		case <-time.After(20 * time.Second):
			return errors.New("no other call was answered")
		}
	}}
	out, _ := s.run(t, "bash", "-c", "for i in 1 2 3 4 5 6; do : >slow$i & done; wait; ls")
	if want := "slow1\nslow2\nslow3\nslow4\nslow5\nslow6\n"; out != want {
		t.Errorf("%s; want\n%s", out, want)
	}
}
