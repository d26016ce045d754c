//go:build linux && (amd64 || arm64)

package workers_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/app/apptest"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/remote/wire"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/workers"
)

// fleet is a node that takes workers.
type fleet struct {
	*testing.T

	s   *workers.Workers
	url string
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{T: t, s: apptest.New(t, t.TempDir()).Workers}
	f.url = f.serve(f.s)
	return f
}

// serve starts a node.
func (f *fleet) serve(s *workers.Workers) (url string) {
	t := f.T
	t.Helper()
	n, err := s.Node("n1", workers.Parts{})
	must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); n.Serve(ctx, l) }()
	t.Cleanup(func() { cancel(); <-ended })
	return "https://" + l.Addr().String()
}

// join runs a worker until it is connected, or fails to join.
func (f *fleet) join(dir, token string) (stop func(), err error) {
	f.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	connected, ended := make(chan struct{}, 100), make(chan error, 1)
	real, err := filepath.EvalSymlinks(dir)
	must(f.T, err)
	go func() {
		ended <- workers.Run(ctx, workers.RunRequest{URL: f.url, Token: token, Home: &home.Home{Config: home.Config{Dir: real}}, Told: func(event, _ string) {
			if event == "connected" {
				connected <- struct{}{}
			}
		}})
	}()
	select {
	case <-connected:
		return func() { cancel(); must(f.T, <-ended) }, nil
	case err := <-ended:
		cancel()
		return nil, err
	}
}

func (f *fleet) token(name string, life time.Duration, labels ...string) string {
	f.Helper()
	t, err := f.s.Token(workers.TokenTerms{Name: name, Labels: labels, Life: life})
	must(f.T, err)
	return t
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// state waits until a worker has a state.
func (f *fleet) state(name, want string) {
	f.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		list, err := f.s.List()
		must(f.T, err)
		for _, w := range list {
			if w.Name == name && w.State(time.Now()) == want {
				return
			}
		}
		if time.Now().After(deadline) {
			f.Fatalf("%s is never %s: %+v", name, want, list)
		}
	}
}

func TestAWorkerJoinsOnceAndCanBeRemoved(t *testing.T) {
	f := newFleet(t)
	token, dir := f.token("w1", time.Hour, "gpu", "eu"), t.TempDir()
	stop, err := f.join(dir, token)
	must(t, err)
	f.state("w1", "connected")
	stop()
	if _, err := f.join(t.TempDir(), token); !errors.Is(err, fault.GrantInvalid) || !strings.Contains(err.Error(), "used before") {
		t.Errorf("the token joined twice: %v", err)
	}
	stop, err = f.join(dir, token) // a restart of the same worker, with the same command line
	must(t, err)
	if _, err := f.join(t.TempDir(), f.token("w1", time.Hour)); !errors.Is(err, fault.Conflict) {
		t.Errorf("another worker took its name: %v", err)
	}
	must(t, f.s.Remove("w1"))
	f.state("w1", "removed")
	stop()
	if err := f.s.Remove("w1"); !errors.Is(err, fault.NotFound) {
		t.Errorf("removed twice: %v", err)
	}
	f.recorded("worker.token", "worker.join", "worker.token", "worker.remove")
}

// recorded checks which changes of workers the ledger has.
func (f *fleet) recorded(want ...string) {
	f.Helper()
	st, err := f.s.Store(f.Context())
	must(f.T, err)
	var got []string
	for e, err := range st.Events(f.Context(), 0) {
		must(f.T, err)
		if strings.HasPrefix(e.Event.Name, "worker.") {
			got = append(got, e.Event.Name)
		}
	}
	if !slices.Equal(got, want) {
		f.Errorf("recorded were %q, want %q", got, want)
	}
}

func TestJoinTokensAreRefused(t *testing.T) {
	f := newFleet(t)
	other := newFleet(t)
	good := f.token("w1", time.Hour)
	changed := []byte(good)
	changed[len(changed)-20] ^= 1
	for name, tc := range map[string]struct {
		token string
		code  error
	}{
		"of another node": {other.token("w1", time.Hour), fault.NotFound}, // its certificate is not this node's
		"changed":         {string(changed), fault.GrantInvalid},
		"expired":         {f.token("w2", time.Nanosecond), fault.GrantInvalid},
		"not a token":     {"hello", fault.GrantInvalid},
		"empty":           {"", fault.GrantInvalid},
	} {
		if stop, err := f.join(t.TempDir(), tc.token); err == nil {
			stop()
			t.Errorf("%s: it joined", name)
		} else if !errors.Is(err, tc.code) && !errors.Is(err, fault.GrantInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, terms := range []workers.TokenTerms{{Name: "", Life: time.Hour}, {Name: "W 1", Life: time.Hour}, {Name: "w", Labels: []string{"../x"}, Life: time.Hour}, {Name: "w"}, {Name: "w", Life: 1000 * time.Hour}} {
		if _, err := f.s.Token(terms); err == nil {
			t.Errorf("%+v made a token", terms)
		}
	}
}

func TestOnlyCertificatesOfTheNodeConnect(t *testing.T) {
	f := newFleet(t)
	addr := strings.TrimPrefix(f.url, "https://")
	conf := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{wire.WorkProtocol}, MinVersion: tls.VersionTLS13} //nolint:gosec // the test is the attacker
	conn, err := tls.Dial("tcp", addr, conf)
	must(t, err)
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if n, err := conn.Read(make([]byte, 1)); err == nil || n > 0 {
		t.Error("a connection without a certificate was kept")
	}
	_ = conn.Close()
	dir := t.TempDir()
	stop, err := newFleet(t).join(dir, "")
	if err == nil {
		stop()
		t.Error("a worker without a token joined")
	}
	if b, err := os.ReadDir(dir); err != nil || len(b) > 0 {
		t.Errorf("it left %v, %v", b, err)
	}
}
