package queue

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/policies"
	"github.com/remitrun/remit/internal/service/runs"
)

const (
	lookEvery   = 250 * time.Millisecond // how often the rows are looked at: nothing depends on being woken
	reopenEvery = 2 * time.Second        // how often runs of dead processes are looked for

	// A run that cannot start yet is looked at again after a quarter of the time that it
	// has waited.
	leastPostponed = 5 * time.Second
	mostPostponed  = 15 * time.Minute

	// A message to a session that is at work stays where it is in the queue, and the session
	// is looked at again after this time.
	sessionRests = 500 * time.Millisecond
)

// Worker says how a process works on the queue.
type Worker struct {
	AtOnce  int           // runs at the same time; 0: as the settings say
	Drain   time.Duration // for running runs to finish when the worker is told to stop
	Empty   bool          // end once nothing is due and nothing runs
	Observe func(runner.Notice)
	Advice  func(filed store.Approval) string // see runs.Request
	Failed  func(err error)                   // told of errors of the queue itself; nil: they are logged
	Ended   func(run store.QueuedRun)         // told of each run that this worker carried out or refused; may be nil
}

// waker wakes the workers of this process.
type waker struct {
	mu      sync.Mutex
	workers map[chan struct{}]bool
}

func (w *waker) add() (wake chan struct{}, remove func()) {
	wake = make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.workers == nil {
		w.workers = map[chan struct{}]bool{}
	}
	w.workers[wake] = true
	return wake, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.workers, wake)
	}
}

func (w *waker) all() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for wake := range w.workers {
		select {
		case wake <- struct{}{}:
		default: // it is awake already
		}
	}
}

// working is a worker at work.
type working struct {
	Worker
	q       *Queue
	work    context.Context // of the runs: they outlive the order to stop
	ended   sync.WaitGroup
	mu      sync.Mutex
	active  map[uuid.UUID]context.CancelCauseFunc // runs that this worker starts or carries out
	resting map[uuid.UUID]bool                    // sessions that get no message now: one is being sent, or they are at work

	clock   clockWatch
	failing map[fault.Code]bool // errors of passes that were reported since the last pass that worked
	telling sync.Mutex
	st      store.Backend
	opened  time.Time
}

// Work starts queued runs and fires schedules until ctx ends, and then waits for its runs.
// Any number of workers of any processes work on one queue.
func (q *Queue) Work(ctx context.Context, o Worker) error {
	if o.AtOnce <= 0 {
		o.AtOnce = q.Home.Settings.Queue.AtOnce
	}
	work, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	w := &working{Worker: o, q: q, work: work, active: map[uuid.UUID]context.CancelCauseFunc{}, resting: map[uuid.UUID]bool{}, failing: map[fault.Code]bool{}}
	wake, remove := q.wake.add()
	defer remove()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var err error
	for ctx.Err() == nil {
		idle, perr := w.pass(ctx)
		if perr != nil && ctx.Err() == nil {
			if fault.CodeOf(perr) == fault.StoreCorrupt || o.Empty {
				err = perr
				break
			}
			w.passFailed(perr)
		} else if perr == nil {
			w.passWorked()
		}
		if idle && o.Empty {
			break
		}
		select {
		case <-ctx.Done():
		case <-wake:
		case <-tick.C:
		}
	}
	w.drain(stop)
	return err
}

// Start works in the background until ctx ends. The function that it gives ends the work and
// waits for it.
func (q *Queue) Start(ctx context.Context, o Worker) (wait func()) {
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := q.Work(ctx, o); err != nil {
			q.log(err)
		}
	}()
	return func() {
		stop()
		<-done
	}
}

// passFailed reports the error of a pass. Passes follow each other quickly, so each error code is
// reported once until a pass works again.
func (w *working) passFailed(err error) {
	if code := fault.CodeOf(err); !w.failing[code] {
		w.failing[code] = true
		w.fail(err)
	}
}

// passWorked logs the end of a failure.
func (w *working) passWorked() {
	if len(w.failing) == 0 {
		return
	}
	clear(w.failing)
	if log, err := w.q.Home.Log(); err == nil {
		log.Logger().Info("queue_works_again")
	}
}

func (w *working) fail(err error) {
	switch {
	case err == nil:
	case w.Failed != nil:
		w.Failed(err)
	default:
		w.q.log(err)
	}
}

// log writes an error of the queue itself.
func (q *Queue) log(err error) {
	if log, lerr := q.Home.Log(); lerr == nil {
		log.Logger().Error("queue_failed", "error", err.Error())
	}
}

// drain waits for the runs, and cancels those that take too long.
func (w *working) drain(stop context.CancelCauseFunc) {
	late := time.AfterFunc(w.Drain, func() { stop(fault.New(fault.ToolCancelled, "the process that carries out the run was stopped")) })
	defer late.Stop()
	for {
		w.mu.Lock()
		n := len(w.active)
		w.mu.Unlock()
		if n == 0 {
			break
		}
		if _, err := w.cancelStopped(w.work); err != nil {
			w.fail(err)
		}
		select {
		case <-w.work.Done():
			w.ended.Wait()
			return
		case <-time.After(lookEvery):
		}
	}
	w.ended.Wait()
}

// pass looks at the queue once. It reports whether there was nothing to do.
func (w *working) pass(ctx context.Context) (idle bool, err error) {
	if time.Since(w.opened) >= reopenEvery { // opening closes the runs of dead processes: their slots are then free
		st, err := w.q.Home.Ledger(ctx)
		if err != nil {
			return false, err // runs that are under way still need the store from before
		}
		w.st, w.opened = st, time.Now()
		if err := w.endOverdue(ctx); err != nil {
			return false, err
		}
	}
	if err := w.watchClock(ctx, w.st); err != nil {
		return false, err
	}
	st := w.st
	running, err := w.cancelStopped(ctx)
	if err != nil {
		return false, err
	}
	if paused, err := st.QueueIsPaused(ctx); err != nil || paused {
		return running == 0, err
	}
	if err := w.q.fire(ctx, st); err != nil {
		return false, err
	}
	started, err := w.startDue(ctx, st)
	return running == 0 && started == 0, err
}

// cancelStopped cancels the runs of this worker that a person asked to end. It returns how
// many run.
func (w *working) cancelStopped(ctx context.Context) (running int, err error) {
	w.mu.Lock()
	running = len(w.active)
	w.mu.Unlock()
	if running == 0 {
		return 0, nil
	}
	list, err := w.st.QueuedRuns(ctx, store.QueueFilter{Stopping: true})
	for i := range list {
		w.mu.Lock()
		cancel := w.active[list[i].ID]
		w.mu.Unlock()
		if cancel != nil {
			cancel(fault.New(fault.ToolCancelled, "%s cancelled the run", list[i].By))
		}
	}
	return running, err
}

// overdueGrace is how long the process of a run may take to end it after its time.
const overdueGrace = time.Minute

func (q *Queue) runTime() time.Duration { return q.Home.Settings.Queue.RunTime }

// overdue is why a run is ended after its time.
func (q *Queue) overdue() error {
	return fault.Wrap(fault.LimitReached, fault.ToolTimeout, "the queued run has used up its time of %s (queue.run_time)", q.runTime())
}

// endOverdue ends the runs that no process has ended after their time, so that their limits are free.
func (w *working) endOverdue(ctx context.Context) error {
	list, err := w.st.QueuedRuns(ctx, store.QueueFilter{Limit: pageSize}) // first those that run
	for i := range list {
		if run := &list[i]; err == nil && run.Run != 0 && w.st.Now().Sub(run.Started) > w.q.runTime()+overdueGrace {
			err = w.st.TimeOutQueued(ctx, run.ID)
		}
	}
	return err
}

// rested lets a session get its next message.
func (w *working) rested(session uuid.UUID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.resting, session)
}

// announceOutcome tells what became of a run.
func (w *working) announceOutcome(st store.Backend, id uuid.UUID) {
	if w.Ended == nil {
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	run, err := st.Queued(ctx, id.String())
	w.fail(err)
	if err == nil && !run.Waits() {
		w.telling.Lock()
		defer w.telling.Unlock()
		w.Ended(run)
	}
}

// carryOut starts a queued run and carries it out. It reports whether this worker did so, or
// refused the run. An error is one of the queue, or fault.SessionBusy: the outcome of the run is in
// its record.
func (w *working) carryOut(ctx context.Context, run store.QueuedRun) (mine bool, err error) {
	st, err := w.q.Home.Ledger(ctx)
	if err != nil {
		return false, err
	}
	unlock, err := w.q.lockRun(ctx, st, run.ID)
	if err != nil || unlock == nil {
		return false, err
	}
	defer unlock()
	t, err := st.QueuedTask(ctx, run.ID)
	if err != nil {
		return true, w.notStarted(context.WithoutCancel(ctx), st, run, err)
	}
	began := false
	var full error
	var r runs.Request
	if run.Session == uuid.Nil {
		r, err = w.q.request(&run, t)
	}
	if err == nil {
		err = w.q.checkBudgets(ctx, st, run)
	}
	switch {
	case err != nil:
	case run.Session != uuid.Nil:
		full, err = w.send(ctx, st, &run, t, func() { began = true; unlock() })
	default:
		r.Advice, r.Observe, r.ID = w.Advice, w.Observe, run.ID
		r.Started = func(*runner.Run, policies.Hint) { began = true; unlock() }
		r.Record = func(ctx context.Context, e ledger.Entry) (ledger.Seq, error) {
			seq, err := st.StartQueued(ctx, e, run.Limits)
			full = err
			return seq, err
		}
		_, err = w.q.Runs.Plan(ctx, r)
	}
	if began || err == nil || full != nil && mayPass(full) || ctx.Err() != nil {
		return began, nil // a run that began says itself how it ended, and the others wait on
	}
	if run.Session != uuid.Nil && errors.Is(err, fault.SessionBusy) {
		return false, err
	}
	return true, w.notStarted(context.WithoutCancel(ctx), st, run, err)
}

// startLocks is how many files the locks of alone are spread over.
const startLocks = 64

// lockRun keeps other processes of this home from starting a run at the same time: they would
// share the folder of its held changes, which is made before the start is recorded. Without
// unlock another process starts it, or has.
func (q *Queue) lockRun(ctx context.Context, st store.Backend, id uuid.UUID) (unlock func(), err error) {
	unlock, err = wholefile.TryLock(filepath.Join(q.Home.Dir, "queue", fmt.Sprintf("%02x.lock", id[15]%startLocks)))
	if err != nil {
		return nil, fault.Wrap(fault.StoreFailed, err, "a queued run cannot be started: %v", err)
	}
	if unlock == nil {
		return nil, nil
	}
	run, err := st.Queued(ctx, id.String())
	if err != nil || !run.Waits() {
		unlock()
		return nil, err
	}
	return sync.OnceFunc(unlock), nil
}

// mayPass reports whether a run that could not be started is left as it is: another process
// started it or a person cancelled it, or its limits are reached.
func mayPass(err error) bool {
	return errors.Is(err, fault.Conflict) || errors.Is(err, fault.LimitReached)
}

// ofStore reports whether an error is one of the store itself, and not the run's fault.
func ofStore(err error) bool {
	code := fault.CodeOf(err)
	return code >= fault.StoreFailed && code <= fault.StoreMissing && code != fault.RunUnknown
}

// notStarted records why a run was not started: it is refused for good, or put back if the
// reason may pass. A missing object counts against it, a paused grant does not.
func (w *working) notStarted(ctx context.Context, st store.Backend, run store.QueuedRun, why error) error {
	now := st.Now()
	code := fault.CodeOf(why)
	c := store.QueueChange{ID: run.ID, To: ledger.QueueRefused, Code: code, Reason: messageOf(why), By: "queue", At: now}
	switch {
	case ofStore(why):
		return why
	case code == fault.GrantPaused || code == fault.NotFound:
		c.To, c.Due = ledger.QueueWaiting, now.Add(min(max(now.Sub(run.Queued)/4, leastPostponed), mostPostponed))
	}
	err := st.ChangeQueued(ctx, c)
	switch {
	case errors.Is(err, fault.Conflict): // a person cancelled it
		return nil
	case err == nil && c.To == ledger.QueueWaiting:
		return st.FileQueued(ctx, "", code == fault.NotFound, run.ID)
	}
	return err
}

// messageOf is the text of an error for people, without its hint.
func messageOf(err error) string {
	var e *fault.Error
	if errors.As(err, &e) {
		return e.Msg
	}
	return err.Error()
}

// checkBudgets fails if a budget of the run's grant, or of one that it derives from, is used up.
func (q *Queue) checkBudgets(ctx context.Context, st store.Backend, run store.QueuedRun) error {
	for at := run.Grant; at != uuid.Nil; {
		meters, err := st.Spent(ctx, at)
		if err != nil {
			return err
		}
		for _, m := range meters {
			if m.Limit > 0 && m.Spent >= m.Limit {
				return fault.New(fault.BudgetSpent, "the budget of %s of the grant %s is used up: %d of %d", m.ID.What, at, m.Spent, m.Limit)
			}
		}
		g, err := st.Grant(ctx, at.String())
		if errors.Is(err, fault.GrantUnknown) {
			return nil // appended offline and never used
		}
		if err != nil {
			return err
		}
		at = g.Parent
	}
	return nil
}
