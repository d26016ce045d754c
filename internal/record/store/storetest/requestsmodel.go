package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// requestModel is the expected state of one key.
type requestModel struct {
	claimed bool
	by      int // the store that claimed it
	alive   bool
	status  int
	run     uuid.UUID // that the request begins; zero: none
	seq     ledger.Seq
	intent  bool // of the run
	ended   bool // the intent has an outcome
	effects int  // that requests with the key have had
}

// want is the state that a claim must find.
func (m *requestModel) want() store.RequestState {
	switch {
	case !m.claimed:
		return store.RequestClaimed
	case m.status != 0:
		return store.RequestAnswered
	case m.alive:
		return store.RequestUnderWay
	case m.run != uuid.Nil && !m.intent:
		return store.RequestClaimed
	}
	return store.RequestBegun
}

// requestsWorld is some stores on one home, which work on one key and die.
type requestsWorld struct {
	*testing.T
	home   string
	open   OpenStore
	rnd    *rand.Rand
	stores []store.Store
	key    byte
	model  requestModel
	told   []string // steps so far
}

const requestStores = 3

// requestsModel carries out random steps: several claims at once, a run's intent and outcome,
// answers of all kinds, and the end of a process.
func requestsModel(t *testing.T, open OpenStore) {
	w := &requestsWorld{T: t, home: t.TempDir(), open: open, rnd: rand.New(rand.NewPCG(2, 1))}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("key %d: %v", w.key, w.told)
		}
	})
	for range requestStores {
		w.stores = append(w.stores, open(t, w.home))
	}
	for w.key = 1; w.key <= 6 && !t.Failed(); w.key++ {
		w.model, w.told = requestModel{}, nil
		for range 10 {
			w.step()
		}
		if w.model.effects > 1 {
			t.Errorf("the requests with one key have had %d effects", w.model.effects)
		}
	}
	sound(t, w.stores[0])
}

func (w *requestsWorld) step() {
	w.Helper()
	m := &w.model
	switch n := w.rnd.IntN(8); {
	case n < 2 || !m.claimed || m.status != 0 || !m.alive:
		w.claim()
	case n < 6 && m.run != uuid.Nil && !m.ended:
		w.work()
	case n < 7:
		w.die(m.by)
	default:
		w.end([]int{0, 201, 403, 503, 503}[w.rnd.IntN(5)])
	}
}

// claim has every store claim the key twice at once.
func (w *requestsWorld) claim() {
	w.Helper()
	m, want := &w.model, w.model.want()
	w.told = append(w.told, fmt.Sprint("claim ", want))
	fresh := requestNamed("ann", w.key)
	runs := make([]uuid.UUID, 2*requestStores)
	owner := make([]store.RequestState, len(runs))
	withRun := w.rnd.IntN(4) > 0
	var wg sync.WaitGroup
	for i := range runs {
		wg.Go(func() {
			r := fresh
			if withRun {
				runs[i] = v7()
				r.Place = store.RunPlace + runs[i].String()
			}
			was, state, err := w.stores[i/2].(store.Requests).BeginRequest(context.Background(), r, 1000)
			if err != nil {
				w.Errorf("BeginRequest: %v", err)
			}
			if id, ok := was.Run(); state == store.RequestBegun && (ok != (m.run != uuid.Nil) || id != m.run) {
				w.Errorf("the earlier request names run %s, want %s", id, m.run)
			}
			if owner[i] = state; state == store.RequestAnswered && was.Status != m.status {
				w.Errorf("the earlier request has status %d, want %d", was.Status, m.status)
			}
		})
	}
	wg.Wait()
	claims := 0
	for i, state := range owner {
		switch {
		case state == store.RequestClaimed:
			claims++
			*m = requestModel{claimed: true, by: i / 2, alive: true, run: runs[i], effects: m.effects}
		case want == store.RequestClaimed && state != store.RequestUnderWay || want != store.RequestClaimed && state != want:
			w.Errorf("a claim found state %d, want %d", state, want)
		}
	}
	if (want == store.RequestClaimed) != (claims == 1) || claims > 1 {
		w.Errorf("%d claims count", claims)
	}
}

// work begins the run, then its call, then ends the call.
func (w *requestsWorld) work() {
	w.Helper()
	m, s := &w.model, w.stores[w.model.by]
	w.told = append(w.told, "work")
	switch {
	case m.seq == 0:
		m.seq, _ = start(w.T, s, func(e *ledger.Event) { e.ID = m.run[:] })
	case !m.intent:
		put(w.T, s, done(m.seq, 1, "fs.read", tool.Completed), intent(m.seq, 2))
		m.intent = true
		m.effects++
	case !m.ended:
		put(w.T, s, outcome(m.seq, 2, tool.Completed))
		m.ended = true
	}
}

// end answers the request.
func (w *requestsWorld) end(status int) {
	w.Helper()
	m := &w.model
	if status == 0 && m.intent {
		status = 201
	}
	w.told = append(w.told, fmt.Sprint("end ", status))
	r := requestNamed("ann", w.key)
	if r.Status = status; m.run != uuid.Nil {
		r.Place = store.RunPlace + m.run.String()
	}
	if err := w.stores[m.by].(store.Requests).EndRequest(context.Background(), r); err != nil {
		w.Fatal(err)
	}
	if m.status = status; status == 0 || r.Failed() && m.run != uuid.Nil && !m.intent {
		*m = requestModel{effects: m.effects}
	}
}

// die ends a process and begins another one in its place.
func (w *requestsWorld) die(i int) {
	w.Helper()
	w.told = append(w.told, fmt.Sprint("die ", i))
	if err := w.stores[i].Close(); err != nil {
		w.Fatal(err)
	}
	w.stores[i] = w.open(w.T, w.home)
	if w.model.by == i {
		w.model.alive = false
	}
}
