// Package notify tells people about events that wait for them, such as a call that needs
// approval: on their desktop, and by signed webhooks. A notification has IDs, numbers and names
// of tools, never arguments, and nothing in it answers a question. Sending never delays the
// caller. Start at [Notifier.Notify].
package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/redact"
)

// Event is a notification to people. Its texts may come from tool servers; they are made safe and
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
	PolicyChanged     = "policy.changed"
	RunsUnknown       = "runs.unknown"
	NodeLost          = "node.lost"
	BudgetSpent       = "budget.spent"
	DiskLow           = "disk.low"
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
	maxSpent   = 10_000           // grants that are remembered
	oneAttempt = 10 * time.Second // of one delivery
	atTheEnd   = 2 * time.Second  // that Close waits for deliveries
)

// Notifier sends events to all channels. The nil Notifier sends nothing. It must be closed.
type Notifier struct {
	Outbox *Outbox // keeps the notifications for webhooks; nil: nothing is kept

	channels []Channel
	log      func() *slog.Logger
	pauses   []time.Duration // before each further attempt

	mu     sync.Mutex
	spent  map[string]bool // grants of which operators know that a budget is used up
	queues []chan Event    // nil: not started
	keep   chan Event      // on the way into the outbox
	kept   sync.WaitGroup
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
		if !n.keepsEvents(n.channels[i]) {
			n.offer(n.channels[i], q, e)
		}
	}
	if n.Outbox != nil {
		n.offer(nil, n.keep, e)
	}
}

// keepsEvents reports whether events of a channel are kept until they were delivered.
func (n *Notifier) keepsEvents(c Channel) bool {
	_, ok := c.(*webhook)
	return ok && n.Outbox != nil
}

func (n *Notifier) offer(c Channel, q chan<- Event, e Event) {
	select {
	case q <- e:
	default:
		n.failed(c, e, fault.New(fault.LimitReached, "%d notifications are waiting already; this one was dropped", maxWaiting))
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
				n.settle(c, e, n.deliver(ctx, c, e))
			}
		})
	}
	if n.Outbox == nil {
		return
	}
	n.keep = make(chan Event, maxWaiting)
	queues := n.queues
	n.kept.Go(func() {
		for e := range n.keep {
			n.keepAndOffer(queues, e)
		}
	})
}

// keepAndOffer writes an event into the outbox for each channel that lasts, and then offers it
// to the channel. One that the channel has no room for is sent from the outbox later.
func (n *Notifier) keepAndOffer(queues []chan Event, e Event) {
	for i, c := range n.channels {
		if !n.keepsEvents(c) {
			continue
		}
		if _, err := n.Outbox.add(c.Name(), e); err != nil {
			n.failed(c, e, fmt.Errorf("it could not be kept: %w", err)) // it is sent all the same
		}
		select {
		case queues[i] <- e:
		default:
		}
	}
}

// settle notes how the delivery of an event ended.
func (n *Notifier) settle(c Channel, e Event, err error) {
	if !n.keepsEvents(c) {
		if err != nil {
			n.failed(c, e, err)
		}
		return
	}
	n.settleKept(c, &Kept{Channel: c.Name(), Event: e}, err, time.Now())
}

func (n *Notifier) settleKept(c Channel, k *Kept, err error, now time.Time) {
	if serr := n.Outbox.settle(k, err, now); serr != nil {
		n.failed(c, k.Event, serr)
	}
	switch {
	case k.Dead:
		n.failed(c, k.Event, err)
	case err != nil && k.Attempts == 1:
		n.warn("a notification waits to be sent again", c, k.Event, err)
	}
}

// outboxEvery is how often a service looks for notifications to send again.
const outboxEvery = 5 * time.Second

// Run sends due notifications from the outbox, until ctx ends.
func (n *Notifier) Run(ctx context.Context) {
	if n == nil || n.Outbox == nil {
		return
	}
	tick := time.NewTicker(outboxEvery)
	defer tick.Stop()
	for {
		n.SendDue(ctx, time.Now())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// SendDue sends the due notifications, once. After a failure the others of that channel wait for
// the next time.
func (n *Notifier) SendDue(ctx context.Context, now time.Time) {
	list, err := n.Outbox.List()
	if err != nil {
		n.failed(nil, Event{}, err)
		return
	}
	failing := map[string]bool{}
	for _, k := range list {
		i := slices.IndexFunc(n.channels, func(c Channel) bool { return c.Name() == k.Channel })
		if k.Dead || k.Next.After(now) || failing[k.Channel] || ctx.Err() != nil {
			continue
		}
		if i < 0 {
			k.Attempts = maxAttempts // the settings do not name the channel any more
			_ = n.Outbox.settle(&k, errors.New("no channel has this name any more"), now)
			continue
		}
		k.Next = now.Add(claim)
		if n.Outbox.put(&k) != nil {
			return
		}
		err := attempt(ctx, n.channels[i], k.Event)
		failing[k.Channel] = err != nil
		n.settleKept(n.channels[i], &k, err, now)
	}
}

// Retry sends all that waits or is dead again, once, now.
func (n *Notifier) Retry(ctx context.Context) error {
	list, err := n.Outbox.List()
	if err != nil {
		return err
	}
	for _, k := range list {
		k.Dead, k.Attempts, k.Next = false, 0, time.Time{}
		if err := n.Outbox.put(&k); err != nil {
			return err
		}
	}
	n.SendDue(ctx, time.Now())
	return nil
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
	n.warn("a notification was not delivered", c, e, err)
}

func (n *Notifier) warn(what string, c Channel, e Event, err error) {
	name := "outbox"
	if c != nil {
		name = c.Name()
	}
	if l := n.log(); l != nil {
		l.Warn(what, "channel", name, "event", e.Kind, "id", e.ID, "error", clip.Text(redact.Show(err.Error()), 300))
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
	if n.keep != nil {
		close(n.keep)
		n.kept.Wait()
	}
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
