package witnesses_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/app/apptest"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/notify"
	"github.com/remitrun/remit/internal/service/settings"
	"github.com/remitrun/remit/internal/service/witnesses"
)

// told collects the kinds of events.
type told chan string

func (told) Name() string { return "test" }

func (c told) Deliver(_ context.Context, e notify.Event) error {
	c <- e.Kind + " " + e.Facts["witness"]
	return nil
}

// node opens a Remit with a ledger of some events.
func node(t *testing.T, events int) (*app.App, store.Backend) {
	t.Helper()
	a := apptest.New(t, filepath.Join(t.TempDir(), "home"))
	st, err := a.Store(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for range events {
		if err := home.Operated(context.Background(), st, "test", ledger.OperatorAction{}, 0); err != nil {
			t.Fatal(err)
		}
	}
	return a, st
}

// TestOneRemitIsTheWitnessOfAnother has a witness that fails for a while.
func TestOneRemitIsTheWitnessOfAnother(t *testing.T) {
	ctx := context.Background()
	tower, _ := node(t, 0)
	a, st := node(t, 3)
	public, err := os.ReadFile(filepath.Join(a.Home.Dir, "keys", "ledger.pub"))
	if err != nil {
		t.Fatal(err)
	}
	tower.Home.Settings.WitnessOf = []string{strings.TrimSpace(string(public))}
	service, err := tower.Witnesses.Service()
	if err != nil {
		t.Fatal(err)
	}
	key, err := tower.Witnesses.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	var down atomic.Bool
	down.Store(true)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		service.ServeHTTP(w, r)
	}))
	defer srv.Close()
	a.Home.Settings.Witnesses = []settings.Witness{{Webhook: settings.Webhook{Name: "tower", URL: srv.URL}, Public: key, Within: 300 * time.Millisecond}}
	events := make(told, 10)
	a.Witnesses.Notifier = notify.New([]notify.Channel{events}, nil)
	defer a.Witnesses.Notifier.Close()
	if err := a.Witnesses.CheckAll(ctx, st); err != nil {
		t.Fatalf("a witness that fails keeps the service from starting: %v", err)
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		a.Witnesses.Run(running, st)
		close(ended)
	}()
	if got := <-events; got != "witness.behind tower" {
		t.Errorf("told of %q", got)
	}
	down.Store(false)
	for {
		list, err := a.Witnesses.Status(ctx, st)
		if err != nil {
			t.Fatal(err)
		}
		if list[0].Size == list[0].Ledger && list[0].Size > 0 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if asked, err := a.Witnesses.Ask(ctx, st); err != nil || len(asked) != 1 || asked[0].Err != nil || asked[0].Size == 0 || witnesses.Disagrees(asked) != nil {
		t.Errorf("asked: %+v, %v", asked, err)
	}
	if err := home.Operated(ctx, st, "test", ledger.OperatorAction{}, 0); err != nil {
		t.Fatal(err)
	}
	stop() // what is newest then is sent once more
	<-ended
	if list, err := a.Witnesses.Status(ctx, st); err != nil || list[0].Size != list[0].Ledger || list[0].Behind {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestAHangingWitnessDelaysNothing has one that never answers.
func TestAHangingWitnessDelaysNothing(t *testing.T) {
	ctx := context.Background()
	a, st := node(t, 1)
	hang := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	}))
	defer srv.Close()
	defer close(hang)
	a.Home.Settings.Witnesses = []settings.Witness{{Webhook: settings.Webhook{Name: "slow", URL: srv.URL}, Within: 200 * time.Millisecond}}
	events := make(told, 10)
	a.Witnesses.Notifier = notify.New([]notify.Channel{events}, nil)
	defer a.Witnesses.Notifier.Close()
	running, stop := context.WithCancel(ctx)
	defer stop()
	go a.Witnesses.Run(running, st)
	if got := <-events; got != "witness.behind slow" { // while a delivery hangs
		t.Errorf("told of %q", got)
	}
	if err := home.Operated(ctx, st, "test", ledger.OperatorAction{}, 0); err != nil {
		t.Error(err)
	}
}

func TestAWitnessThatClaimsMore(t *testing.T) {
	a, st := node(t, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, "4000\n")
	}))
	defer srv.Close()
	key, err := a.Witnesses.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	a.Home.Settings.Witnesses = []settings.Witness{{Webhook: settings.Webhook{Name: "liar", URL: srv.URL}, Public: key, Within: time.Minute}}
	err = a.Witnesses.CheckAll(context.Background(), st)
	if !errors.Is(err, fault.RolledBack) || !strings.Contains(err.Error(), "the witness's word, without a proof") {
		t.Errorf("%v", err)
	}
	if asked, err := a.Witnesses.Ask(context.Background(), st); err != nil || !errors.Is(witnesses.Disagrees(asked), fault.RolledBack) {
		t.Errorf("asked: %+v, %v", asked, err)
	}
	if d, err := a.Witnesses.Accept(context.Background(), "liar"); d == nil || err != nil {
		t.Fatalf("%v, %v", d, err)
	}
	if err := a.Witnesses.CheckAll(context.Background(), st); err != nil {
		t.Errorf("after it was accepted: %v", err)
	}
}
