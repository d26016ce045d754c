package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
	"github.com/remitrun/remit/internal/tools/model"
)

// watched is a ledger that tells a test what it is about to keep and what it has
// listed.
type watched struct {
	*sqlite.Store
	listed func(f store.SessionFilter)
	saving func(r store.SessionRecord)
}

func (r *watched) Sessions(ctx context.Context, f store.SessionFilter) ([]store.SessionRecord, error) {
	out, err := r.Store.Sessions(ctx, f)
	if r.listed != nil {
		r.listed(f)
	}
	return out, err
}

func (r *watched) SaveSession(ctx context.Context, s store.SessionRecord) (store.SessionRecord, error) {
	if r.saving != nil {
		r.saving(s)
	}
	return r.Store.SaveSession(ctx, s)
}

// watch puts the service on a ledger that tells what happens.
func (w *world) watch() *watched {
	w.t.Helper()
	if err := w.svc.Close(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	r := &watched{Store: w.st}
	w.rec = r
	w.serve()
	return r
}

// family is a world whose sessions do as they are told: one that is told a name of
// next spawns a sub-agent and tells it the name there; one that is told "work" works
// until it is stopped. late, if it is not nil, is called before each spawning.
func family(t *testing.T, next map[string]string, late func(ctx context.Context)) *world {
	b := &brain{answer: func(_ int, r model.Request) (model.Response, error) {
		last := r.Messages[len(r.Messages)-1]
		switch to := next[last.Text]; {
		case last.Role != model.User:
			return text("done"), nil
		case to != "":
			return wants(call("a", "spawn", fmt.Sprintf(`{"s":%q}`, to))), nil
		}
		return wants(call("a", "work", `{}`)), nil
	}}
	w := newWorld(t, b)
	w.caps = []capability.Capability{kit{id: "kit", offers: func(s capability.Session) []capability.Offer {
		spawn := &probe{id: "probe.spawn", effects: tool.EffectSet(tool.FSWrite), run: func(ctx context.Context, p permit.Permit, args tool.Args) (tool.Result, error) {
			if late != nil {
				late(ctx)
			}
			name, _ := args["s"].(string)
			_, err := s.Children.Spawn(context.WithoutCancel(ctx), p, capability.SpawnRequest{Name: name, Task: name})
			return tool.Result{Output: map[string]any{"ok": true}}, err
		}}
		work := &probe{id: "probe.work", effects: tool.EffectSet(tool.FSWrite), run: func(ctx context.Context, _ permit.Permit, _ tool.Args) (tool.Result, error) {
			<-ctx.Done()
			return tool.Result{}, ctx.Err()
		}}
		return []capability.Offer{capability.Own("spawn", spawn), capability.Own("work", work)}
	}}}
	return w.open()
}

// states are those of all sessions, by their titles.
func (w *world) states() map[string]agent.State {
	w.t.Helper()
	list, err := w.svc.Sessions(context.Background(), agent.SessionFilter{}, uuid.Nil, 10)
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[string]agent.State{}
	for _, s := range list {
		out[s.Title] = s.State
	}
	return out
}

func TestCancelReachesBelowAnIdleSubAgent(t *testing.T) {
	w := family(t, map[string]string{"go": "middle", "middle": "work"}, nil)
	id := w.session()
	w.send(id, "go")
	until(t, "work below an idle sub-agent", func() bool {
		s := w.states()
		return s["middle"] == agent.Idle && s["work"] == agent.Working
	})
	if _, err := w.svc.Cancel(context.Background(), ann, id); err != nil {
		t.Fatal(err)
	}
	if got := w.states()["work"]; got != agent.Cancelled {
		t.Errorf("the sub-agent's sub-agent is %s, want cancelled", got)
	}
}

// TestWhatATurnSpawnsAsItIsStoppedIsStoppedToo: the sub-agent begins after those
// there are were looked at.
func TestWhatATurnSpawnsAsItIsStoppedIsStoppedToo(t *testing.T) {
	stops := map[string]struct {
		stop func(w *world, id string) error
		want agent.State
	}{
		"cancelled": {func(w *world, id string) error { _, err := w.svc.Cancel(context.Background(), ann, id); return err }, agent.Cancelled},
		"deleted":   {func(w *world, id string) error { return w.svc.DeleteSession(context.Background(), ann, id) }, ""},
	}
	for name, tt := range stops {
		t.Run(name, func(t *testing.T) {
			begun, listed := make(chan struct{}), make(chan struct{})
			w := family(t, map[string]string{"go": "work"}, func(ctx context.Context) {
				close(begun)
				<-ctx.Done()
				<-listed
			})
			id := w.session()
			var once sync.Once
			w.watch().listed = func(f store.SessionFilter) {
				if f.Parent.String() == id {
					once.Do(func() { close(listed) })
				}
			}
			if _, err := w.svc.Start(context.Background(), ann, id, "go"); err != nil {
				t.Fatal(err)
			}
			<-begun
			if err := tt.stop(w, id); err != nil {
				t.Fatal(err)
			}
			if got := w.states()["work"]; got != tt.want {
				t.Errorf("the sub-agent is %q, want %q", got, tt.want)
			}
		})
	}
}

// TestACancelledSessionIsNotAtWork: somebody resumes a session that was left at work
// just as it is cancelled.
func TestACancelledSessionIsNotAtWork(t *testing.T) {
	b := says(text("done"))
	b.hold = make(chan struct{}) // for ever: a turn is under way until it is stopped
	w := newWorld(t, b).open()
	id := w.session()
	if _, err := w.svc.Start(context.Background(), ann, id, "go"); err != nil {
		t.Fatal(err)
	}
	w.again()
	var once sync.Once
	var resumed error
	w.watch().saving = func(r store.SessionRecord) {
		if strings.Contains(string(r.Doc), `"status":"cancelled"`) {
			once.Do(func() { _, resumed = w.svc.Resume(context.Background(), ann, id) })
		}
	}
	s, err := w.svc.Cancel(context.Background(), ann, id)
	if err != nil || s.State != agent.Cancelled {
		t.Fatalf("the session is %s, %v", s.State, err)
	}
	if !errors.Is(resumed, fault.SessionBusy) {
		t.Errorf("it was resumed while it was cancelled: %v", resumed)
	}
	if _, err := w.svc.Resume(context.Background(), ann, id); err != nil {
		t.Errorf("it cannot be resumed afterwards: %v", err)
	}
}

// TestAnEndedSessionBeginsNothing: a message comes in while the session is ended.
func TestAnEndedSessionBeginsNothing(t *testing.T) {
	b := says(text("done"))
	w := newWorld(t, b)
	var id string
	var sent error
	w.revoked = func() { _, sent = w.svc.Start(context.Background(), ann, id, "and?") }
	w.open()
	id = w.session()
	w.send(id, "go")
	if err := w.svc.DeleteSession(context.Background(), ann, id); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(sent, fault.SessionBusy) {
		t.Errorf("a message to a session that ends: %v", sent)
	}
	runs, err := w.st.SessionRuns(context.Background(), uuid.MustParse(id))
	if err != nil || len(runs) != 1 || runs[0].Status == ledger.Running {
		t.Errorf("%d runs, or one that is not over; %v", len(runs), err)
	}
}
