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

// NewCache makes a cache of at most that many bytes, of the tokens and their parsed
// policies. A new Trust needs a new cache.
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
	c.known.Put(token, &g, g.cost())
	return &g, nil
}

// cost is about how many bytes the content takes besides the text. Policies that cannot be
// parsed are not kept, and take none.
func (g *genuine) cost() int {
	n := 0
	for i := range g.links {
		n += 1024
		for _, p := range g.links[i].Policies {
			n += len(p.Source)
		}
	}
	all, err := g.Policies()
	for _, ps := range all {
		for _, p := range ps {
			if err == nil {
				n += p.Size()
			}
		}
	}
	return n
}
