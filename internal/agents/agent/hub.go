package agent

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// hub has the newest events of one session, for those who watch it. A watcher is a
// position in them: one that falls behind catches up from the record, and nobody
// waits for it. A hub belongs to the session's goroutine.
type hub struct {
	process string // part of the IDs of events that only this process knows

	events  []Event
	first   uint64        // position of events[0]
	base    int           // number of the last message that was published
	sub     int           // events published since
	changed chan struct{} // closed and replaced with every event
}

// maxEvents is how many events a hub keeps for watchers that are behind.
const maxEvents = 512

func newHub(process string) hub { return hub{process: process, changed: make(chan struct{})} }

// publish adds an event and gives it its ID: the last message's number, a count from
// there, and the process.
func (h *hub) publish(e Event) {
	if e.At.IsZero() {
		e.At = time.Now()
	}
	if e.Type == MessageAdded && e.Message != nil {
		h.base, h.sub = e.Message.Number, 0
		e.ID = strconv.Itoa(h.base)
	} else {
		h.sub++
		e.ID = fmt.Sprintf("%d-%d-%s", h.base, h.sub, h.process)
	}
	if h.events = append(h.events, e); len(h.events) > maxEvents {
		drop := maxEvents / 4
		h.events = append([]Event(nil), h.events[drop:]...)
		h.first += uint64(drop)
	}
	close(h.changed)
	h.changed = make(chan struct{})
}

// countFrom sets the message that the IDs of events to come count from.
func (h *hub) countFrom(base int) {
	if base > h.base {
		h.base, h.sub = base, 0
	}
}

// news is what a watcher gets: the events from its position on, its next position,
// and a channel that is closed when there is more.
type news struct {
	events []Event
	next   uint64
	more   <-chan struct{}
	lost   bool // the hub no longer has all of them: the record has the messages
}

// eventsSince gives the events from a position on.
func (h *hub) eventsSince(at uint64) news {
	n := news{next: h.end(), more: h.changed, lost: at < h.first}
	if !n.lost && at < n.next {
		n.events = append(n.events, h.events[at-h.first:]...)
	}
	return n
}

// end is the position of the next event.
func (h *hub) end() uint64 { return h.first + uint64(len(h.events)) }

// positionAfter gives the position after the event with an ID. ok is false if the hub does not
// have that event.
func (h *hub) positionAfter(id string) (at uint64, ok bool) {
	for i := len(h.events) - 1; i >= 0; i-- {
		if h.events[i].ID == id {
			return h.first + uint64(i) + 1, true
		}
	}
	return h.end(), false
}

// parseEventID gives the number of the message that an event's ID counts from.
func parseEventID(id string) (number int, ok bool) {
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
