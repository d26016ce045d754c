package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/tools/model"
)

// listener notes what it is told.
type listener struct {
	mu     sync.Mutex
	events []agent.Event
	done   chan error
	stop   context.CancelFunc
}

func (w *world) listen(id, last string, on func(agent.Event)) *listener {
	ctx, stop := context.WithCancel(context.Background())
	l := &listener{done: make(chan error, 1), stop: stop}
	go func() {
		l.done <- w.svc.Events(ctx, id, last, func(e agent.Event) error {
			l.mu.Lock()
			l.events = append(l.events, e)
			l.mu.Unlock()
			if on != nil {
				on(e)
			}
			return nil
		})
	}()
	w.t.Cleanup(stop)
	until(w.t, "the listener", func() bool { return len(l.told()) > 0 })
	return l
}

func (l *listener) told() []agent.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]agent.Event(nil), l.events...)
}

func (l *listener) numbers() (out []int) {
	for _, e := range l.told() {
		if e.Type == agent.MessageAdded {
			out = append(out, e.Message.Number)
		}
	}
	return out
}

func TestEventsTellOfATurnInOrder(t *testing.T) {
	w := newWorld(t, says(wants(call("a", "look", `{"n":1}`)), text("it is so")), &probe{id: "probe.look"}).open()
	id := w.session()
	l := w.listen(id, "", nil)
	w.send(id, "look")
	until(t, "the end", func() bool {
		es := l.told()
		return es[len(es)-1].Type == agent.StateChanged && es[len(es)-1].State == agent.Idle && len(es) > 2
	})
	var kinds []string
	seen := map[string]bool{}
	for _, e := range l.told()[1:] {
		kinds = append(kinds, string(e.Type))
		if seen[e.ID] || e.ID == "" {
			t.Errorf("the ID %q comes twice", e.ID)
		}
		seen[e.ID] = true
	}
	want := "status message text message tool_call tool_result message text message status"
	if got := strings.Join(kinds, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	l.stop()
	if err := <-l.done; err != nil {
		t.Error(err)
	}
}

func TestWhoWasCutOffGoesOnFromTheLastEvent(t *testing.T) {
	w := newWorld(t, says(text("one"), text("two"), text("three"))).open()
	id := w.session()
	first := w.listen(id, "", nil)
	w.send(id, "a")
	until(t, "two messages", func() bool { return len(first.numbers()) == 2 })
	first.stop()
	<-first.done
	last := ""
	for _, e := range first.told() {
		if e.Type == agent.MessageAdded && e.Message.Number == 1 {
			last = e.ID
		}
	}
	w.send(id, "b")
	for name, restart := range map[string]bool{"same process": false, "after a restart": true} {
		if restart {
			w.again()
		}
		l := w.listen(id, last, nil)
		until(t, name, func() bool { return fmt.Sprint(l.numbers()) == "[2 3 4]" })
		l.stop()
		<-l.done
	}
	if err := w.svc.Events(context.Background(), id, "nonsense", func(agent.Event) error { return nil }); !errors.Is(err, fault.MessageUnknown) {
		t.Errorf("an ID that is none: %v", err)
	}
}

// One who does not listen in time misses nothing that is kept, and holds nobody up.
func TestASlowListenerIsNotWaitedFor(t *testing.T) {
	w := newWorld(t, &brain{answer: func(n int, _ model.Request) (model.Response, error) {
		if n%250 == 249 {
			return text("done"), nil
		}
		return wants(call("a", "look", `{"n":`+itoa(n)+`}`)), nil
	}}, &probe{id: "probe.look"})
	w.limits.Steps = 1000
	w.open()
	id := w.session()
	free := make(chan struct{})
	slow := w.listen(id, "", func(e agent.Event) {
		if e.Type == agent.MessageAdded {
			<-free
		}
	})
	w.send(id, "go") // 500 messages, twice as many events
	close(free)
	all := w.messages(id)
	until(t, "all messages", func() bool { return len(slow.numbers()) == len(all) })
	for i, n := range slow.numbers() {
		if n != i+1 {
			t.Fatalf("message %d comes as number %d", n, i+1)
		}
	}
}
