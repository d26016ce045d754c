//go:build linux && (amd64 || arm64)

package linux

import (
	"path"
	"runtime"
	"sync"
	"sync/atomic"
)

// share is how many folders of an earlier survey a processor compares at a time.
const share = 512

// known is a folder of an earlier survey with its path.
type known struct {
	folder *folder
	path   string
}

// compare looks at all folders of an earlier survey, on all processors, and notes the paths
// at and below which something changed. The survey then goes into those alone.
func (s *survey) compare(before []*folder) {
	var all []known
	for _, f := range before {
		all = f.flatten(all, f.name)
	}
	s.changed = map[string]bool{}
	var mu sync.Mutex
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), (len(all)+share-1)/share) {
		workers.Go(func() {
			for {
				to := int(next.Add(share))
				if to-share >= len(all) {
					return
				}
				for _, k := range all[to-share : min(to, len(all))] {
					if !k.folder.unchanged(s.layers.At(k.path)) {
						mu.Lock()
						s.noteChange(k.path)
						mu.Unlock()
					}
				}
			}
		})
	}
	workers.Wait()
}

// flatten adds a folder at path p and all that are in it.
func (f *folder) flatten(all []known, p string) []known {
	all = append(all, known{f, p})
	in := p + "/"
	if p == "/" {
		in = p
	}
	for _, sub := range f.folders {
		all = sub.flatten(all, in+sub.name)
	}
	return all
}

// noteChange notes that a folder changed, for the folders around it too.
func (s *survey) noteChange(p string) {
	for ; !s.changed[p]; p = path.Dir(p) {
		s.changed[p] = true
	}
}

// same reports whether a folder at path p, and everything in it, was found as before. In a
// folder that is listed anew nothing counts as compared: what is in it may have been moved.
func (s *survey) same(p string, before *folder) bool {
	return before != nil && s.changed != nil && s.anew == 0 && !s.changed[p]
}
