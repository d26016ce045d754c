package queue_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/grants"
	"github.com/remitrun/remit/internal/service/queue"
)

// busy is a session that is at work when the first message comes, and has ended later.
type busy struct{ tried []string }

func (b *busy) CheckMessage(string) error { return nil }

func (b *busy) SendQueued(_ context.Context, _ agent.Caller, _, text string, _ agent.Queued) (agent.Turn, error) {
	if b.tried = append(b.tried, text); len(b.tried) == 1 {
		return agent.Turn{}, fault.New(fault.SessionBusy, "the session is at work")
	}
	return agent.Turn{}, fault.New(fault.SessionEnded, "the session has ended")
}

// A message that comes while its session is at work keeps its place before later ones.
func TestAMessageToABusySessionKeepsItsPlace(t *testing.T) {
	p := newPlace(t, "version: 1\napi: {allow: ['*']}\n")
	token, _ := p.grant(grants.Terms{})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	sessions := &busy{}
	p.Queue.Sessions = sessions
	session := uuid.New()
	var runs []string
	for i, text := range []string{"later", "first"} {
		run, _, err := queue.Door{Queue: p.Queue, Workspace: p.ws}.SubmitMessage(t.Context(), queue.Message{Grant: grants.Presented{Token: token, Proven: true},
			Session: session, Name: text, Text: text, Options: queue.Options{Priority: 4 - i}})
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, run.ID.String())
	}
	worked := make(chan error, 1)
	go func() { worked <- p.Queue.Work(ctx, queue.Worker{AtOnce: 4}) }()
	every := time.NewTicker(5 * time.Millisecond)
	defer every.Stop()
	for _, id := range runs { // a worker that stops before a run's end leaves the run waiting
		for status := ""; status != "refused"; <-every.C {
			got, err := p.store().Queued(t.Context(), id)
			if status = got.Status; err != nil {
				t.Fatal(err)
			}
		}
	}
	stop()
	if err := <-worked; err != nil {
		t.Fatal(err)
	}
	if want := []string{"first", "first", "later"}; !slices.Equal(sessions.tried, want) {
		t.Errorf("tried are %q, not %q", sessions.tried, want)
	}
}
