package agent

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// hub tells of what happens in one session. It keeps the newest events, and no
// more for each who listens than where they are: the slow ones catch up from the
// record, and nobody is waited for.
type hub struct {
	boot string // of the process: events that are not in the record are known to it alone

	mu      sync.Mutex
	events  []Event
	first   uint64        // number of events[0]; numbers go up by one
	base    int           // number of the last message that was told
	sub     int           // events told since
	changed chan struct{} // closed and replaced with every event
}

// maxEvents is how many events a hub keeps for those who are behind.
const maxEvents = 512

func newHub(boot string) *hub { return &hub{boot: boot, changed: make(chan struct{})} }

// tell adds an event and gives it its ID: the last message's number, a count from
// there, and the process.
func (h *hub) tell(e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e.At.IsZero() {
		e.At = time.Now()
	}
	if e.Type == MessageAdded && e.Message != nil {
		h.base, h.sub = e.Message.Number, 0
		e.ID = strconv.Itoa(h.base)
	} else {
		h.sub++
		e.ID = fmt.Sprintf("%d-%d-%s", h.base, h.sub, h.boot)
	}
	if h.events = append(h.events, e); len(h.events) > maxEvents {
		drop := maxEvents / 4
		h.events = append([]Event(nil), h.events[drop:]...)
		h.first += uint64(drop)
	}
	close(h.changed)
	h.changed = make(chan struct{})
}

// from sets the message that the events to come are counted from.
func (h *hub) from(base int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if base > h.base {
		h.base, h.sub = base, 0
	}
}

// next gives the events from number at on, where to go on from, and what tells of
// further ones. lost: some are no longer kept.
func (h *hub) next(at uint64) (es []Event, to uint64, more <-chan struct{}, lost bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	end := h.first + uint64(len(h.events))
	if at < h.first {
		return nil, end, h.changed, true
	}
	if at < end {
		es = append(es, h.events[at-h.first:]...)
	}
	return es, end, h.changed, false
}

// end is where events to come begin.
func (h *hub) end() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.first + uint64(len(h.events))
}

// after finds where to go on after the event with an ID. ok is false where it is
// not known here: the record is told from the ID's message on.
func (h *hub) after(id string) (at uint64, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := len(h.events) - 1; i >= 0; i-- {
		if h.events[i].ID == id {
			return h.first + uint64(i) + 1, true
		}
	}
	return h.first + uint64(len(h.events)), false
}

// message is the number of the message that an event's ID counts from; false: it
// is no ID.
func message(id string) (int, bool) {
	head, rest, more := strings.Cut(id, "-")
	n, err := strconv.Atoi(head)
	if err != nil || n < 0 {
		return 0, false
	}
	if more {
		sub, _, ok := strings.Cut(rest, "-")
		if _, err := strconv.Atoi(sub); err != nil || !ok {
			return 0, false
		}
	}
	return n, true
}
