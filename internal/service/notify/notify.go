// Package notify tells people about events that wait for them, such as a call that needs
// approval: on their desktop, and by signed webhooks. A notification has IDs, numbers and names
// of tools, never arguments, and nothing in it answers a question. Sending never delays the
// caller. Start at [Notifier.Notify].
package notify

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/redact"
)

// Event is what people are told. Its texts may come from tool servers; they are made safe and
// short before they are sent.
type Event struct {
	Kind  string            // what happened, as approval.requested
	ID    string            // the ID of the question or run; Kind and ID identify the event
	Title string            // one sentence
	Do    string            // the command that shows more; "": none
	Link  string            // a page that shows more, and that changes nothing when it is opened; "": none
	Facts map[string]string // IDs, numbers and names
	At    time.Time
	Until time.Time // after this time nobody needs to know; zero: without limit
}

// The kinds of events.
const (
	ApprovalRequested = "approval.requested"
	PolicyViolated    = "policy.violated"
	WitnessBehind     = "witness.behind"
	WitnessDisagrees  = "witness.disagrees"
	KeyRotated        = "key.rotated"
	Test              = "test"
)

// Channel is one way to people.
type Channel interface {
	// Name names the channel in settings, messages and logs.
	Name() string
	// Deliver sends an event once, until ctx ends. An error that wraps [errPermanent] is not
	// worth another attempt.
	Deliver(ctx context.Context, e Event) error
}

// errPermanent marks a failure that another attempt would repeat.
var errPermanent = errors.New("will not be tried again")

// The bounds of each channel.
const (
	maxWaiting = 64               // events; more are dropped, which is logged
	oneAttempt = 10 * time.Second // of one delivery
	atTheEnd   = 2 * time.Second  // that Close waits for deliveries
)

// Notifier sends events to all channels. The nil Notifier sends nothing. It must be closed.
type Notifier struct {
	channels []Channel
	log      func() *slog.Logger
	pauses   []time.Duration // before each further attempt

	mu     sync.Mutex
	queues []chan Event // nil: not started
	closed bool
	ended  chan struct{} // closed when no further attempts are wanted
	work   sync.WaitGroup
	cancel context.CancelFunc // ends the deliveries
}

// New returns a Notifier. Failures are logged by log, which is called when there is one.
func New(channels []Channel, log func() *slog.Logger) *Notifier {
	return &Notifier{
		channels: channels, log: log, ended: make(chan struct{}),
		pauses: []time.Duration{time.Second, 5 * time.Second, 30 * time.Second, 2 * time.Minute},
	}
}

// Channels lists the channels.
func (n *Notifier) Channels() []Channel {
	if n == nil {
		return nil
	}
	return n.channels
}

// Notify sends an event to all channels. It does not wait for them.
func (n *Notifier) Notify(e Event) {
	if n == nil || len(n.channels) == 0 {
		return
	}
	e = e.safe()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return
	}
	n.start()
	for i, q := range n.queues {
		select {
		case q <- e:
		default:
			n.failed(n.channels[i], e, fault.New(fault.LimitReached, "%d notifications are waiting already; this one was dropped", maxWaiting))
		}
	}
}

// start begins to deliver. The caller holds n.mu.
func (n *Notifier) start() {
	if n.queues != nil {
		return
	}
	var ctx context.Context
	ctx, n.cancel = context.WithCancel(context.Background())
	for _, c := range n.channels {
		q := make(chan Event, maxWaiting)
		n.queues = append(n.queues, q)
		n.work.Go(func() {
			for e := range q {
				if err := n.deliver(ctx, c, e); err != nil {
					n.failed(c, e, err)
				}
			}
		})
	}
}

// deliver sends one event to one channel, with further attempts after failures until Close.
func (n *Notifier) deliver(ctx context.Context, c Channel, e Event) error {
	for try := 0; ; try++ {
		if !e.Until.IsZero() && !time.Now().Before(e.Until) {
			return fault.New(fault.ToolTimeout, "not delivered in time")
		}
		err := attempt(ctx, c, e)
		if err == nil || errors.Is(err, errPermanent) || try == len(n.pauses) || ctx.Err() != nil {
			return err
		}
		wait := time.NewTimer(n.pauses[try])
		select {
		case <-wait.C:
		case <-n.ended:
			wait.Stop()
			return err
		}
	}
}

func attempt(ctx context.Context, c Channel, e Event) error {
	ctx, stop := context.WithTimeout(ctx, oneAttempt)
	defer stop()
	return c.Deliver(ctx, e)
}

// failed logs an event that people were not told of.
func (n *Notifier) failed(c Channel, e Event, err error) {
	if l := n.log(); l != nil {
		l.Warn("a notification was not delivered", "channel", c.Name(), "event", e.Kind, "id", e.ID, "error", clip.Text(redact.Show(err.Error()), 300))
	}
}

// Result is how a delivery ended.
type Result struct {
	Channel string
	Err     error
}

// Try sends an event once to each channel and waits for the results.
func (n *Notifier) Try(ctx context.Context, e Event) []Result {
	e = e.safe()
	out := make([]Result, len(n.Channels()))
	var wait sync.WaitGroup
	for i, c := range n.Channels() {
		wait.Go(func() { out[i] = Result{c.Name(), attempt(ctx, c, e)} })
	}
	wait.Wait()
	return out
}

// Close delivers what waits, with one attempt each and for a short time, and logs the rest.
func (n *Notifier) Close() {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed = true; n.queues == nil {
		return
	}
	close(n.ended)
	for _, q := range n.queues {
		close(q)
	}
	n.queues = nil
	late := time.AfterFunc(atTheEnd, n.cancel)
	n.work.Wait()
	late.Stop()
	n.cancel()
}

// The most characters of an event's texts.
const (
	maxTitle = 200
	maxFact  = 200
)

// safe returns the event with texts that are short and have no control characters.
func (e Event) safe() Event {
	e.Title, e.Do = safeText(e.Title, maxTitle), safeText(e.Do, maxTitle)
	facts := make(map[string]string, len(e.Facts))
	for k, v := range e.Facts {
		facts[k] = safeText(v, maxFact)
	}
	e.Facts = facts
	if e.At.IsZero() {
		e.At = time.Now()
	}
	return e
}

func safeText(s string, most int) string { return clip.Text(redact.Show(clip.Prefix(s, most)), most) }

// line is an event in one line.
func (e Event) line() string {
	text := e.Title
	if e.Do != "" {
		text += " · " + e.Do
	}
	if e.Link != "" {
		text += " · " + e.Link
	}
	return text
}
