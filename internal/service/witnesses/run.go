package witnesses

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/notify"
	"github.com/remitrun/remit/internal/service/settings"
)

// state is how one witness stands, while a service runs.
type state struct {
	agreed  time.Time // when it last took the newest checkpoint
	size    int64
	alerted bool // operators were told that it is behind, or disagrees
}

// Run sends checkpoints until ctx ends, and once more then. Operators are told of a witness
// that falls behind or disagrees.
func (s *Witnesses) Run(ctx context.Context, st store.Backend) {
	list, err := s.list()
	if err != nil {
		s.log("", err) // CheckAll has refused such settings
		return
	}
	s.mu.Lock()
	s.states = map[string]*state{}
	for _, w := range list {
		s.states[w.Name] = &state{agreed: time.Now()}
	}
	s.mu.Unlock()
	ended := make(chan struct{}, len(list))
	for _, w := range list {
		go func() {
			s.watch(ctx, st, w)
			ended <- struct{}{}
		}()
	}
	for range list {
		<-ended
	}
}

// every is how often a witness gets a checkpoint.
func every(within time.Duration) time.Duration {
	return max(min(within/4, time.Minute), 100*time.Millisecond)
}

// watch sends to one witness. A delivery that hangs, as on a file system that does not
// answer, is not waited for, and no other one is begun.
func (s *Witnesses) watch(ctx context.Context, st store.Backend, w one) {
	tick := time.NewTicker(every(w.Within))
	defer tick.Stop()
	var under chan Result // nil: no delivery is under way
	begin := func() {
		under = make(chan Result, 1)
		after := context.WithoutCancel(ctx)
		go func(to chan<- Result) { to <- s.send(after, st, w) }(under)
	}
	for begin(); ; {
		select {
		case r := <-under:
			under = nil
			s.settle(w.Witness, r)
		case <-tick.C:
			s.late(w.Witness)
			if under == nil {
				begin()
			}
		case <-ctx.Done():
			if under == nil {
				begin()
			}
			select {
			case <-under:
			case <-time.After(checkWithin):
			}
			return
		}
	}
}

// settle notes the result of a delivery.
func (s *Witnesses) settle(w settings.Witness, r Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.states[w.Name]
	if r.Err == nil {
		at.agreed, at.size, at.alerted = time.Now(), r.Size, false
		return
	}
	s.log(w.Name, r.Err)
	if errors.Is(r.Err, fault.RolledBack) && !at.alerted {
		at.alerted = true
		s.notifyPeople(notify.WitnessDisagrees, w.Name, "A witness has another history of the ledger than the ledger has", nil)
	}
}

// late tells operators of a witness that has not agreed for too long.
func (s *Witnesses) late(w settings.Witness) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.states[w.Name]
	if age := time.Since(at.agreed); age > w.Within && !at.alerted {
		at.alerted = true
		s.notifyPeople(notify.WitnessBehind, w.Name, "A witness has no new checkpoint of the ledger", map[string]string{"seconds": strconv.Itoa(int(age.Seconds()))})
	}
}

func (s *Witnesses) notifyPeople(kind, name, title string, facts map[string]string) {
	if facts == nil {
		facts = map[string]string{}
	}
	facts["witness"] = name
	s.Notifier.Notify(notify.Event{Kind: kind, ID: fmt.Sprintf("%s-%d", name, time.Now().UnixMilli()), Title: title, Do: "remit witness", Facts: facts})
}

func (s *Witnesses) log(name string, err error) {
	if log, lerr := s.Home.Log(); lerr == nil {
		log.Logger().Warn("witness_failed", "witness", name, "error", err.Error())
	}
}

// Ages returns for each witness, while Run runs, the seconds since it last agreed.
func (s *Witnesses) Ages() map[string]float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]float64{}
	for name, at := range s.states {
		out[name] = time.Since(at.agreed).Seconds()
	}
	return out
}

// Status is the known state of a witness without asking it.
type Status struct {
	Name   string    `json:"witness"`
	Where  string    `json:"where"` // "file", "cosigning" or "notes"
	Size   int64     `json:"events"`
	At     time.Time `json:"at,omitzero"` // when it last took a checkpoint; zero: never
	Ledger int64     `json:"ledger_events"`
	Behind bool      `json:"behind"` // it lacks events, for longer than the settings allow
}

// Detail says in one line how a witness stands.
func (w Status) Detail() string {
	at := "never"
	if !w.At.IsZero() {
		at = time.Since(w.At).Round(time.Second).String() + " ago"
	}
	text := fmt.Sprintf("%s, has %d of %d events, %s", w.Where, w.Size, w.Ledger, at)
	if w.Behind {
		text += "; remit serve sends checkpoints, or remit witness send"
	}
	return text
}

// Status lists the witnesses.
func (s *Witnesses) Status(ctx context.Context, st store.Backend) ([]Status, error) {
	head, err := st.Head(ctx)
	if err != nil {
		return nil, err
	}
	out := []Status{}
	for _, w := range s.Home.Settings.Witnesses {
		one := Status{Name: w.Name, Where: "notes", Ledger: head.Size}
		switch {
		case w.File != "":
			one.Where = "file"
		case w.Public != "":
			one.Where = "cosigning"
		}
		if info, err := os.Stat(s.note(w.Name)); err == nil {
			if c, err := st.OpenCheckpoint(s.readNote(w.Name)); err == nil {
				one.Size, one.At = c.Size, info.ModTime()
			}
		}
		one.Behind = one.Size < one.Ledger && time.Since(one.At) > w.Within
		out = append(out, one)
	}
	return out, nil
}
