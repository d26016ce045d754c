package fleet_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// ending is what a client was told of its intent.
type ending string

const (
	completed ending = "completed"
	unknown   ending = "unknown" // it may or may not have taken effect
	refused   ending = "refused" // it failed without an effect, as a fault allows
	denied    ending = "denied"  // it may not be done, which no fault explains
)

// intent is one effect that an outside client wants once. All requests for it, repeated ones too, name
// its path at the server that counts effects.
type intent struct {
	kind  string
	path  string
	began time.Time

	mu       sync.Mutex
	ended    time.Time // zero: its client still tries
	end      ending
	answered time.Time // when the answer to its question was acknowledged
	story    []string  // requests and answers
}

// maxStory bounds the printed requests of one intent.
const maxStory = 12

// note adds a request and its answer to the story.
func (i *intent) note(at, format string, args ...any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	text := clip(fmt.Sprintf(format, args...), 300)
	if n := len(i.story); n > 0 && strings.HasSuffix(i.story[n-1], ": "+text) {
		return // the same answer again
	}
	line := time.Now().Format("15:04:05.000") + " " + at + ": " + text
	if len(i.story) == maxStory {
		i.story = append(i.story[:maxStory/2], i.story[maxStory/2+1:]...)
	}
	i.story = append(i.story, line)
}

func clip(s string, most int) string {
	if s = strings.Join(strings.Fields(s), " "); len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// reopen marks the last intent of a client that could not go on.
func (i *intent) reopen() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ended, i.end = time.Time{}, ""
}

func (i *intent) close(e ending) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.end, i.ended = e, time.Now()
}

// way is an address at which clients reach the nodes.
type way struct{ name, url string }

// crowd is the clients outside of the nodes. It knows what each of them wanted and was told.
type crowd struct {
	f       *fleet
	token   string
	ways    []way
	inOrder bool // each request takes the first way, and then the others
	inTurn  bool // requests take the ways in turn
	asked   atomic.Int64
	ctx     context.Context // ends when the clients give up
	giveUp  context.CancelFunc
	clients sync.WaitGroup
	others  sync.WaitGroup // those who work until all clients have ended

	mu      sync.Mutex
	number  int
	intents []*intent
	faults  []*putFault
	told    []time.Time // when clients were told of a completed call
	jumped  time.Time   // when the clock of the database was last ahead
	closing bool        // clients begin nothing more, or one last call
}

// putFault is a fault that was put once.
type putFault struct {
	name         string
	began, ended time.Time
	away         time.Duration // of the gap that it makes on purpose
}

func newCrowd(f *fleet, ways []way) *crowd {
	c := &crowd{f: f, token: f.token, ways: ways}
	c.ctx, c.giveUp = context.WithCancel(context.Background())
	f.Cleanup(func() {
		c.giveUp()
		c.clients.Wait()
		c.others.Wait()
	})
	return c
}

// want makes an intent. A slow one takes a second at the server that counts effects.
func (c *crowd) want(kind, prefix string) *intent {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.number++
	i := &intent{kind: kind, path: fmt.Sprintf("%s%s/%d", prefix, strings.ReplaceAll(kind, " ", "-"), c.number), began: time.Now()}
	c.intents = append(c.intents, i)
	return i
}

// outside is the beginning of the paths of outside clients, and outsideAsked of those that need an
// approval. The effect of a slow path takes a second.
const (
	outside      = "/out/"
	outsideAsked = "/ask/out/"
	slow         = "slow/"
)

// ours reports whether the intent of a path belongs to an outside client.
func ours(path string) bool {
	return strings.HasPrefix(path, outside) || strings.HasPrefix(path, outsideAsked)
}

func (c *crowd) isClosing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closing
}

// finish notes how an intent ended.
func (c *crowd) finish(i *intent, e ending) {
	i.close(e)
	if e == completed {
		c.mu.Lock()
		c.told = append(c.told, time.Now())
		c.mu.Unlock()
	}
}

// keep runs a client that makes one intent after the other, and goes on after the last fault.
func (c *crowd) keep(kind, prefix string, each func(*intent) ending) {
	c.clients.Go(func() {
		for n := 0; !c.isClosing(); n++ {
			at := prefix
			if n%4 == 3 {
				at += slow
			}
			i := c.want(kind, at)
			e := each(i)
			if c.ctx.Err() != nil && e != completed {
				return // it stays open: stuck
			}
			c.finish(i, e)
			c.pause(20*time.Millisecond, 150*time.Millisecond)
		}
		c.goOn(kind, prefix, each)
	})
}

// goOn makes calls until one is completed. A client that can make none is stuck.
func (c *crowd) goOn(kind, prefix string, each func(*intent) ending) {
	for {
		i := c.want(kind, prefix)
		e := each(i)
		if c.ctx.Err() != nil && e != completed {
			return // it stays open
		}
		if c.finish(i, e); e == completed {
			return
		}
		if c.pause(50*time.Millisecond, 100*time.Millisecond); c.ctx.Err() != nil {
			i.reopen()
			return
		}
	}
}

func (c *crowd) pause(least, most time.Duration) {
	select {
	case <-c.ctx.Done():
	case <-time.After(least + rand.N(most-least)):
	}
}

// pick gives any way to the nodes; in a scene the first one, and others for requests that are repeated,
// or all in turn.
func (c *crowd) pick(try int) way {
	switch {
	case c.inTurn:
		return c.ways[int(c.asked.Add(1))%len(c.ways)]
	case c.inOrder:
		return c.ways[try%len(c.ways)]
	}
	return c.ways[rand.N(len(c.ways))]
}

// ahead notes that the clock of the database is ahead until now. Questions and MCP sessions of before may be over.
func (c *crowd) ahead() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jumped = time.Now()
}

// begins and mended bound a fault in time.
func (c *crowd) begins(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, &putFault{name: name, began: time.Now()})
}

func (c *crowd) mended(away time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.faults[len(c.faults)-1]
	f.ended, f.away = time.Now(), away
}

// stop lets each client end its work. After the given time they give up.
func (c *crowd) stop(patience time.Duration) {
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	end := time.AfterFunc(patience, c.giveUp)
	defer end.Stop()
	c.clients.Wait()
	c.giveUp()
	c.others.Wait()
}

// hosted sends requests to the public name of the nodes, under a token.
type hosted struct {
	token string
	by    http.RoundTripper
}

func (h hosted) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Host = publicHost
	if h.token != "" {
		r.Header.Set("Authorization", "Bearer "+h.token)
	}
	return h.by.RoundTrip(r)
}

// connections are those of one client, which keeps them open between requests.
func (c *crowd) connections(token string) *http.Client {
	t := &http.Transport{MaxIdleConnsPerHost: 4}
	context.AfterFunc(c.ctx, t.CloseIdleConnections)
	return &http.Client{Transport: hosted{token, t}, Timeout: requestWithin,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// requestWithin is how long a client waits for an answer before it repeats the request.
const requestWithin = 5 * time.Second
