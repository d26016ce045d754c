package token

import (
	"time"

	"github.com/remitrun/remit/internal/base/memo"
)

// Cache keeps tokens whose signatures were verified, for one [Trust]. Expiry,
// audience and the holder's proof are checked on every use. It is safe for concurrent
// use.
//
// The key is the token's whole text, which is faster than a cryptographic hash
// and as safe: Go seeds the map's hash in each process, and a lookup compares the
// whole text.
type Cache struct {
	trust Trust
	known *memo.Memo[*genuine]
}

// NewCache makes a cache for tokens of at most that many bytes of text in total.
// Their content takes about the same amount of memory again. A new Trust needs a
// new cache.
func NewCache(trust Trust, most int) *Cache {
	return &Cache{trust: trust, known: memo.New[*genuine](most)}
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
	if g, ok := c.known.Get(token); ok {
		return g, nil
	}
	g, err := c.trust.open(token)
	if err != nil {
		return nil, err // not kept: refused tokens must not evict valid ones
	}
	c.known.Put(token, &g, 0)
	return &g, nil
}
