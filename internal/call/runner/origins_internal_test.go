package runner

import (
	"strings"
	"sync"
	"testing"

	"github.com/remitrun/remit/internal/authority/provenance"
)

// No goroutine indexes values after a run has waited for it, however many were added at once.
func TestARunWaitsForTheIndex(t *testing.T) {
	var c Context
	held := make(chan struct{})
	c.Remember(func(*provenance.Index) { <-held })
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { c.Say(provenance.Person, strings.Repeat("a word ", 1000)) })
	}
	all.Wait()
	waited := make(chan struct{})
	go func() {
		c.waitIndexed()
		close(waited)
	}()
	select {
	case <-waited:
		t.Fatal("nothing was waited for")
	default:
	}
	close(held)
	<-waited
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.indexing != nil || len(c.pending) > 0 {
		t.Errorf("%d texts wait", len(c.pending))
	}
}
