package changeset_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/changeset"
	"github.com/remitrun/remit/internal/confine/files"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// bounded begins a run that may hold so many bytes.
func bounded(t *testing.T, p place, bytes int64) (*changeset.Set, *changeset.Hold) {
	t.Helper()
	s, err := p.home.Begin("run", p.ws)
	must(t, err)
	h := s.Hold(p.box.Overlay)
	h.Bound(bytes)
	if _, leave, err := h.Enter(t.Context()); err != nil {
		t.Skipf("no overlay on this machine: %v", err)
	} else {
		leave()
	}
	return s, h
}

// A command that fills the layer is ended; what it wrote can be looked at and
// thrown away.
func TestHeldCommandIsBounded(t *testing.T) {
	p := newPlace(t)
	const limit = 8 << 20
	s, h := bounded(t, p, limit)
	pm := permittest.PermitWith(t, p.ws, commands, h, nil)
	begun := time.Now()
	out, err := p.box.Run(t.Context(), pm, sandbox.Command{Dir: p.ws, Timeout: time.Minute,
		Argv: []string{"sh", "-c", "i=0; while :; do i=$((i+1)); head -c 65536 /dev/zero >f$i || exit 7; done"}})
	must(t, err)
	if out.Limit != "disk limit 8 MiB reached" || out.TimedOut || out.Signal != "SIGKILL" {
		t.Errorf("it ended with %q, timed out %v, %s, exit %d, after %v", out.Limit, out.TimedOut, out.Signal, out.ExitCode, time.Since(begun))
	}
	if !strings.Contains(out.Limits["disk"], "held changes") {
		t.Errorf("the limits say %q", out.Limits["disk"])
	}
	if _, err := p.box.Run(t.Context(), pm, sandbox.Command{Dir: p.ws, Argv: []string{"true"}}); !errors.Is(err, fault.LimitReached) {
		t.Errorf("another command: %v", err)
	}
	h.Close()
	changes, err := s.Review(t.Context(), anything)
	must(t, err)
	if len(changes) < limit/65536 {
		t.Errorf("it holds %d changes", len(changes))
	}
	must(t, s.Discard(unrecorded))
	if left, err := os.ReadDir(p.ws); err != nil || len(left) > 0 {
		t.Errorf("the workspace holds %v, %v", left, err)
	}
}

// File tools are refused before they write, and have room again when something
// is removed.
func TestHeldToolsAreBounded(t *testing.T) {
	p := newPlace(t)
	put(t, p.ws, map[string]string{"big": strings.Repeat("b", 600<<10)})
	_, h := bounded(t, p, 1<<20)
	defer h.Close()
	f := files.New(permittest.PermitWith(t, p.ws, everything, h, nil))
	write := func(name string, n int) error {
		_, err := f.Write(name, make([]byte, n), files.WriteOptions{Mode: files.Replace})
		return err
	}
	must(t, write("a", 600<<10))
	wantCode(t, write("b", 600<<10), fault.LimitReached)
	must(t, write("c", 100<<10))
	_, err := f.Write("big", []byte("+"), files.WriteOptions{Mode: files.Append})
	wantCode(t, err, fault.LimitReached) // all of it would be copied
	wantCode(t, f.Rename(t.Context(), "big", "moved", false, false), fault.LimitReached)
	for range 20 {
		must(t, write("c", 100<<10)) // again and again is not more
	}
	must(t, f.Remove("a"))
	must(t, write("b", 600<<10))
	if names, err := filepath.Glob(p.ws + "/*"); err != nil || len(names) != 1 {
		t.Errorf("the workspace holds %v, %v", names, err)
	}
}
