// Package nodes lets the nodes that share a ledger notice their differences. Each notes its version and
// the digests of its settings and policy, and reads the other nodes' notes. Start at [Run].
package nodes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/home"
)

const (
	kind    = "node"
	every   = 15 * time.Second
	lasts   = time.Minute // a node that died is listed for so long
	maxFile = 4 << 20     // bytes of a file that is compared
)

// Node is what a node notes of itself.
type Node struct {
	Name    string            `json:"name"`
	Version string            `json:"version"` // of Remit
	Digests map[string]string `json:"digests"` // of settings and policies, by name
}

// Service is a node that serves, as people and programs see it.
type Service struct {
	ID      string   `json:"id"`
	Name    string   `json:"name" doc:"Its machine and process"`
	Version string   `json:"version" doc:"Of Remit"`
	Held    bool     `json:"lease_held" doc:"Its lease is not over"`
	Differs []string `json:"differs" doc:"The settings that differ from those of the first one, as config.yaml"`
}

// Differences lists the unequal properties of two nodes, in order.
func (n Node) Differences(other Node) []string {
	var out []string
	if n.Version != other.Version {
		out = append(out, "version")
	}
	for _, name := range slices.Sorted(keys(n.Digests, other.Digests)) {
		if n.Digests[name] != other.Digests[name] {
			out = append(out, name)
		}
	}
	return out
}

// keys yields the keys that one of two maps has, each once.
func keys(a, b map[string]string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range a {
			if !yield(k) {
				return
			}
		}
		for k := range b {
			if _, both := a[k]; !both && !yield(k) {
				return
			}
		}
	}
}

// Here describes this node. served is the policy of its service; nil: it serves none.
func Here(h *home.Home, served []byte) (Node, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	n := Node{Name: strings.ToValidUTF8(host, "?") + ":" + strconv.Itoa(os.Getpid()), Version: h.Version, Digests: map[string]string{}}
	if served != nil {
		n.Digests["policy"] = digest(served)
	}
	for _, name := range []string{"config.yaml", "policy.yaml"} {
		b, err := wholefile.Read(filepath.Join(h.Dir, name), maxFile)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return n, fault.Wrap(fault.StoreFailed, err, "%q cannot be compared with those of other nodes: %v", name, wholefile.Cause(err))
		default:
			n.Digests[name] = digest(b)
		}
	}
	return n, nil
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// List returns the nodes of a ledger, by name.
func List(ctx context.Context, st store.Ephemera) ([]Node, error) {
	list, err := st.Ephemerals(ctx, kind, kind)
	if err != nil {
		return nil, err
	}
	out := []Node{}
	for _, e := range list {
		var n Node
		if json.Unmarshal(e.Data, &n) == nil { // else it is one of a newer Remit
			out = append(out, n)
		}
	}
	slices.SortFunc(out, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Run notes this node, and logs each difference to another one once, until ctx ends. A ledger in a
// file has one node, which notes nothing.
func Run(ctx context.Context, h *home.Home, st store.Ephemera, served []byte) {
	if h.Database == "" {
		return
	}
	w := &watch{home: h, store: st, served: served, told: map[string]bool{}}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		w.look(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			w.leave(context.WithoutCancel(ctx))
			return
		}
	}
}

// watch is one node that compares itself with the others.
type watch struct {
	home   *home.Home
	store  store.Ephemera
	served []byte
	record store.Ephemeral
	told   map[string]bool // differences that were logged
}

// look notes this node again and compares it with the others. The next look repeats a failed one.
func (w *watch) look(ctx context.Context) {
	own, err := Here(w.home, w.served)
	if err == nil {
		err = w.note(ctx, own)
	}
	var all []Node
	if err == nil {
		all, err = List(ctx, w.store)
	}
	if err != nil {
		return
	}
	for _, other := range all {
		if diff := strings.Join(own.Differences(other), ", "); diff != "" {
			w.warn(own, other, diff)
		}
	}
}

// note writes this node's record, or makes it last longer.
func (w *watch) note(ctx context.Context, own Node) error {
	data, err := json.Marshal(own)
	if err != nil {
		return err
	}
	key := sha256.Sum256([]byte(own.Name))
	e, ok, err := w.store.Ephemeral(ctx, kind, key)
	if err != nil {
		return err
	}
	if !ok {
		e = store.Ephemeral{Kind: kind, Key: key, Owner: kind}
	}
	e.Data, e.Until = data, time.Now().Add(lasts)
	w.record = e
	_, err = w.store.SaveEphemeral(ctx, e, store.EphemeralBounds{})
	return err
}

// leave removes this node's record.
func (w *watch) leave(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	if e, ok, err := w.store.Ephemeral(ctx, kind, w.record.Key); err == nil && ok {
		_, _ = w.store.DropEphemeral(ctx, e) // it expires
	}
}

// warn logs a difference, once.
func (w *watch) warn(own, other Node, diff string) {
	if key := other.Name + " " + diff; w.told[key] {
		return
	} else if log, err := w.home.Log(); err == nil {
		w.told[key] = true
		log.Logger().Warn("nodes_differ", "node", own.Name, "other", other.Name, "in", diff, "version", own.Version, "other_version", other.Version)
	}
}
