package token

import (
	"container/list"
	"sync"
	"time"
)

// Cache keeps tokens whose signatures were verified, for one [Trust]. Expiry,
// audience and the holder's proof are checked on every use. It is safe for concurrent
// use.
//
// It finds a token by its whole text, which is faster than by a hash and as safe: the
// map's hash is seeded in each process, and a comparison succeeds only for the whole
// text.
type Cache struct {
	trust Trust
	most  int

	mu    sync.Mutex
	size  int
	known map[string]*list.Element
	order *list.List // of *kept, the last used first
}

type kept struct {
	token string
	genuine
}

// NewCache makes a cache for tokens of at most that many bytes of text in all; their
// content takes about as much again. A new Trust needs a new cache.
func NewCache(trust Trust, most int) *Cache {
	return &Cache{trust: trust, most: most, known: map[string]*list.Element{}, order: list.New()}
}

// Verify is [Verify] under the cache's trust.
func (c *Cache) Verify(token string, use Use) (Claims, error) {
	g, err := c.open(token)
	if err != nil {
		return Claims{}, err
	}
	return g.use(use)
}

// Authentic is [Authentic] under the cache's trust.
func (c *Cache) Authentic(token string, at time.Time) (Claims, error) {
	g, err := c.open(token)
	if err != nil {
		return Claims{}, err
	}
	return g.show(at)
}

func (c *Cache) open(token string) (*genuine, error) {
	if g := c.find(token); g != nil {
		return g, nil
	}
	g, err := c.trust.open(token)
	if err != nil {
		return nil, err // not kept: refused tokens must not evict valid ones
	}
	return c.keep(token, g), nil
}

func (c *Cache) find(token string) *genuine {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.known[token]
	if e == nil {
		return nil
	}
	c.order.MoveToFront(e)
	k, _ := e.Value.(*kept) // nothing else is put in
	return &k.genuine
}

// keep remembers a token, and forgets those that were not used for longest.
func (c *Cache) keep(token string, g genuine) *genuine {
	k := &kept{token, g}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known[token] != nil || len(token) > c.most {
		return &k.genuine
	}
	c.known[token] = c.order.PushFront(k)
	c.size += len(token)
	for c.size > c.most {
		last := c.order.Back()
		old, _ := c.order.Remove(last).(*kept) // nothing else is put in
		delete(c.known, old.token)
		c.size -= len(old.token)
	}
	return &k.genuine
}
