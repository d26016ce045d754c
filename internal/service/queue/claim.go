package queue

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
)

// pageSize is how many runs are claimed at once after some of their lane could not start.
const pageSize = 64

// maxTries is how often a run is claimed without being started or filed, before it is set aside.
const maxTries = 20

// lane names why a run cannot start: it is another person's, its session is at work, or a
// limit is reached. Runs with the same reasons share one.
type lane struct {
	owner   string // of a run that was queued without a grant: only this person's processes start it
	session string // that gets the message
	limit   string // the limit that is reached, as KEY=N
}

func (l lane) String() string { return l.owner + "\n" + l.session + "\n" + l.limit }

// parseLane reads a lane's name; "" and other names give the lane of runs that were not looked
// at yet.
func parseLane(name string) lane {
	p := strings.SplitN(name, "\n", 3)
	if len(p) != 3 {
		return lane{}
	}
	return lane{p[0], p[1], p[2]}
}

// laneOf is the lane of a run that has the limit reached; "": none is.
func laneOf(run *store.QueuedRun, limit string) lane {
	l := lane{limit: limit}
	if run.Root == uuid.Nil {
		l.owner = run.Principal
	}
	if run.Session != uuid.Nil {
		l.session = run.Session.String()
	}
	return l
}

// reached gives the first of the limits that the taken slots reach; "": none.
func reached(limits []store.Slot, taken map[string]int) string {
	for _, l := range limits {
		if taken[l.Key] >= l.Most {
			return l.Key + "=" + strconv.Itoa(l.Most)
		}
	}
	return ""
}

// full reports whether a limit, as KEY=N, is reached.
func full(limit string, taken map[string]int) bool {
	i := strings.LastIndexByte(limit, '=')
	if i < 0 {
		return false
	}
	most, err := strconv.Atoi(limit[i+1:])
	return err == nil && taken[limit[:i]] >= most
}

// isLaneClosed reports whether no run of a lane can be started by this worker now.
func (w *working) isLaneClosed(l lane, taken map[string]int) bool {
	if l.owner != "" && l.owner != "user:"+w.q.Home.User || full(l.limit, taken) {
		return true
	}
	if l.session == "" {
		return false
	}
	id, err := uuid.Parse(l.session)
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.q.Sessions == nil || err == nil && w.resting[id]
}

// startDue starts the runs whose turn it is, as far as there is room. It returns how many it
// began to start. Lanes whose reason holds are passed over, so the work does not grow with the
// number of runs that wait.
func (w *working) startDue(ctx context.Context, st store.Backend) (begun int, err error) {
	var taken map[string]int
	passed := map[store.Lane]bool{} // nothing of it could be claimed
	for {
		w.mu.Lock()
		room := w.AtOnce - len(w.active)
		w.mu.Unlock()
		if room <= 0 {
			return begun, nil
		}
		lanes, err := st.Lanes(ctx)
		if err != nil {
			return begun, err
		}
		if len(lanes) > 0 && taken == nil {
			if taken, err = st.TakenSlots(ctx); err != nil {
				return begun, err
			}
		}
		first, upTo, ok := w.nextLane(lanes, taken, passed)
		if !ok {
			return begun, nil
		}
		n, err := w.startOf(ctx, st, first, upTo, room, taken)
		if err != nil {
			return begun, err
		}
		if n == 0 {
			passed[store.Lane{Name: first.Name, Priority: first.Priority}] = true
		}
		begun += n
	}
}

// nextLane gives the open lane whose run is the next, and up to when its runs are before those
// of the lane after it.
func (w *working) nextLane(lanes []store.Lane, taken map[string]int, passed map[store.Lane]bool) (first store.Lane, upTo time.Time, ok bool) {
	for _, l := range lanes {
		if passed[store.Lane{Name: l.Name, Priority: l.Priority}] || w.isLaneClosed(parseLane(l.Name), taken) {
			continue
		}
		if !ok {
			first, upTo, ok = l, l.Due.Add(maxDelay*100), true
		} else {
			if l.Priority == first.Priority {
				upTo = l.Due
			}
			break
		}
	}
	return first, upTo, ok
}

// startOf claims runs of a lane and begins to start them. Blocked runs are filed. It
// returns how many it began to start.
func (w *working) startOf(ctx context.Context, st store.Backend, l store.Lane, upTo time.Time, room int, taken map[string]int) (begun int, err error) {
	for most := room; begun < room && !w.isLaneClosed(parseLane(l.Name), taken); most = pageSize {
		list, err := st.ClaimQueued(ctx, l, upTo, most)
		if err != nil || len(list) == 0 {
			return begun, err
		}
		filed := map[string][]uuid.UUID{}
		moved := false
		for i := range list {
			run := &list[i].QueuedRun
			to := l.Name
			switch {
			case list[i].Tries > maxTries:
				err = errors.Join(err, w.setAside(ctx, st, run))
				continue
			case begun < room && w.begin(run, taken, &to):
				begun++
				continue
			}
			moved = moved || to != l.Name
			filed[to] = append(filed[to], run.ID)
		}
		for to, ids := range filed {
			err = errors.Join(err, st.FileQueued(ctx, to, false, ids...))
		}
		if err != nil || !moved { // the remaining runs are being started here
			return begun, err
		}
	}
	return begun, nil
}

// begin begins to start a run in the background. Where something is in its way, to is the lane
// that says so.
func (w *working) begin(run *store.QueuedRun, taken map[string]int, to *string) bool {
	limit := reached(run.Limits, taken)
	if l := laneOf(run, limit); limit != "" || w.isLaneClosed(l, taken) {
		*to = l.String()
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, there := w.active[run.ID]; there {
		return false
	}
	if run.Session != uuid.Nil {
		w.resting[run.Session] = true
	}
	ctx, cancel := context.WithCancelCause(w.work)
	ctx, release := context.WithTimeoutCause(ctx, w.q.runTime(), w.q.overdue())
	st := w.st // pass may replace it meanwhile
	w.active[run.ID] = cancel
	for _, l := range run.Limits {
		taken[l.Key]++
	}
	w.ended.Go(func() {
		defer w.q.wake.all()
		w.carry(ctx, st, run)
		cancel(nil)
		release()
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.active, run.ID)
	})
	return true
}

// carry carries out a claimed run and ends the claim.
func (w *working) carry(ctx context.Context, st store.Backend, run *store.QueuedRun) {
	mine, err := w.carryOut(ctx, *run)
	failed := errors.Is(err, fault.StoreCorrupt) // of this run alone
	if errors.Is(err, fault.SessionBusy) {
		err = nil
		time.AfterFunc(sessionRests, func() { w.rested(run.Session) })
	} else {
		w.rested(run.Session)
	}
	w.fail(err)
	after, stop := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer stop()
	if !mine {
		w.fail(st.FileQueued(after, "", failed, run.ID))
	}
	if mine {
		w.announceOutcome(st, run.ID)
	}
}
