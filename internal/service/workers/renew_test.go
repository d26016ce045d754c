//go:build linux && (amd64 || arm64)

package workers_test

import (
	"context"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/workers"
)

// until runs a worker until it tells one of some events.
func (f *fleet) until(url, dir, token string, events ...string) string {
	f.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	told, ended := make(chan string, 100), make(chan error, 1)
	go func() {
		ended <- workers.Run(ctx, workers.RunRequest{URL: url, Token: token, Home: &home.Home{Config: home.Config{Dir: dir}}, Told: func(event, _ string) {
			for _, e := range events {
				if e == event {
					told <- event
				}
			}
		}})
	}()
	got := <-told
	cancel()
	must(f.T, <-ended)
	return got
}

// TestACertificateIsRenewed: in the last third of its time, once, and not after the worker was
// removed.
func TestACertificateIsRenewed(t *testing.T) {
	f := newFleet(t) // its certificates last a year
	dir, gone := t.TempDir(), t.TempDir()
	// All of this time is the last third, with what is added for the difference of clocks.
	short := f.serve(&workers.Workers{Home: f.s.Home, Store: f.s.Store, Life: 2 * time.Minute})
	for name, dir := range map[string]string{"w1": dir, "w2": gone} {
		if got := f.until(short, dir, f.token(name, time.Hour, "gpu"), "renewed", "renewal failed"); got != "renewed" {
			t.Fatalf("the certificate of %s was not renewed", name)
		}
	}
	must(t, f.s.Remove("w2"))
	if got := f.until(f.url, gone, "", "renewed", "renewal failed"); got != "renewal failed" {
		t.Error("the certificate of a removed worker was renewed")
	}
	if got := f.until(f.url, dir, "", "renewed", "renewal failed"); got != "renewed" {
		t.Error("a certificate was not renewed by another node")
	}
	list, err := f.s.List()
	must(t, err)
	if time.Until(list[0].Until) < 300*24*time.Hour || time.Until(list[1].Until) > time.Hour {
		t.Errorf("%+v", list)
	}
	f.until(f.url, dir, "", "connected") // with the new certificate
	f.recorded("worker.token", "worker.join", "worker.renew", "worker.token", "worker.join", "worker.renew", "worker.remove", "worker.renew")
}
