package capabilitytest

import (
	"context"
	"crypto/sha256"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
)

// SessionFiles implements capability.Files in memory, for tests. The zero SessionFiles is
// empty.
type SessionFiles struct {
	mu    sync.Mutex
	nodes map[string]sessionNode
	last  map[string]int // last version of each path, also of deleted files
	Quota int64          // bytes; 0: any number
}

type sessionNode struct {
	file    capability.File
	content []byte
}

// sessionTime is the time of all changes in SessionFiles.
var sessionTime = time.Date(2026, 3, 1, 9, 30, 0, 0, time.UTC)

func (s *SessionFiles) begin(ctx context.Context, p permit.Permit) (done func(), err error) {
	if ctx.Err() != nil {
		return nil, permit.Ended(ctx)
	}
	if !p.Live() {
		return nil, fault.New(fault.HandleRefused, "the call that these files belong to is over")
	}
	s.mu.Lock()
	if s.nodes == nil {
		s.nodes = map[string]sessionNode{"/": {file: capability.File{Path: "/", Folder: true, Created: sessionTime, Modified: sessionTime}}}
		s.last = map[string]int{}
	}
	return s.mu.Unlock, nil
}

func (s *SessionFiles) find(name string) (sessionNode, error) {
	clean, err := capability.CleanPath(name)
	if err != nil {
		return sessionNode{}, err
	}
	n, ok := s.nodes[clean]
	if !ok {
		return n, fault.New(fault.NotFound, "%q does not exist", clean)
	}
	return n, nil
}

// Stat describes a path.
func (s *SessionFiles) Stat(ctx context.Context, p permit.Permit, name string) (capability.File, error) {
	done, err := s.begin(ctx, p)
	if err != nil {
		return capability.File{}, err
	}
	defer done()
	n, err := s.find(name)
	return n.file, err
}

// Read reads a file.
func (s *SessionFiles) Read(ctx context.Context, p permit.Permit, name string) ([]byte, capability.File, error) {
	done, err := s.begin(ctx, p)
	if err != nil {
		return nil, capability.File{}, err
	}
	defer done()
	n, err := s.find(name)
	if err == nil && n.file.Folder {
		err = fault.New(fault.ArgsInvalid, "%q is a folder", n.file.Path)
	}
	return slices.Clone(n.content), n.file, err
}

// Write creates or replaces a file.
func (s *SessionFiles) Write(ctx context.Context, p permit.Permit, name string, content []byte, version int) (capability.File, bool, error) {
	done, err := s.begin(ctx, p)
	if err != nil {
		return capability.File{}, false, err
	}
	defer done()
	clean, err := capability.CleanPath(name)
	if err != nil {
		return capability.File{}, false, err
	}
	before, there := s.nodes[clean]
	if err := s.writable(clean, before, there, version, int64(len(content))); err != nil {
		return capability.File{}, false, err
	}
	for at := path.Dir(clean); ; at = path.Dir(at) {
		if _, ok := s.nodes[at]; ok {
			break
		}
		s.nodes[at] = sessionNode{file: capability.File{Path: at, Folder: true, Created: sessionTime, Modified: sessionTime}}
	}
	s.last[clean]++
	f := capability.File{Path: clean, Size: int64(len(content)), Version: s.last[clean], SHA256: sha256.Sum256(content), Created: sessionTime, Modified: sessionTime}
	s.nodes[clean] = sessionNode{f, slices.Clone(content)}
	return f, !there, nil
}

func (s *SessionFiles) writable(clean string, before sessionNode, there bool, version int, size int64) error {
	switch {
	case before.file.Folder:
		return fault.New(fault.ArgsInvalid, "%q is a folder", clean)
	case version == capability.MustBeNew && there, version > 0 && (!there || before.file.Version != version):
		return fault.New(fault.Conflict, "%q is at version %d", clean, before.file.Version)
	case before.file.ReadOnly:
		return fault.New(fault.ArgsInvalid, "%q is read-only", clean)
	}
	for at := path.Dir(clean); at != "/"; at = path.Dir(at) {
		if n, ok := s.nodes[at]; ok && !n.file.Folder {
			return fault.New(fault.ArgsInvalid, "%q is a file", at)
		}
	}
	total := size - int64(len(before.content))
	for _, n := range s.nodes {
		total += int64(len(n.content))
	}
	if s.Quota > 0 && total > s.Quota {
		return fault.New(fault.FilesFull, "the session's files have reached their limit of %d bytes", s.Quota)
	}
	return nil
}

// List lists a folder.
func (s *SessionFiles) List(ctx context.Context, p permit.Permit, name string) ([]capability.File, error) {
	done, err := s.begin(ctx, p)
	if err != nil {
		return nil, err
	}
	defer done()
	n, err := s.find(name)
	if err != nil {
		return nil, err
	}
	if !n.file.Folder {
		return nil, fault.New(fault.ArgsInvalid, "%q is a file", n.file.Path)
	}
	var out []capability.File
	for at, c := range s.nodes {
		if at != "/" && path.Dir(at) == n.file.Path {
			out = append(out, c.file)
		}
	}
	slices.SortFunc(out, func(a, b capability.File) int {
		if a.Folder != b.Folder {
			if a.Folder {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Path, b.Path)
	})
	return out, nil
}

// Delete removes a path.
func (s *SessionFiles) Delete(ctx context.Context, p permit.Permit, name string, recursive bool) (int, error) {
	done, err := s.begin(ctx, p)
	if err != nil {
		return 0, err
	}
	defer done()
	n, err := s.find(name)
	if err != nil {
		return 0, err
	}
	var gone []string
	for at := range s.nodes {
		if at == n.file.Path || strings.HasPrefix(at, strings.TrimSuffix(n.file.Path, "/")+"/") && at != "/" {
			gone = append(gone, at)
		}
	}
	if len(gone) > 1 && !recursive {
		return 0, fault.New(fault.Conflict, "%q is not empty", n.file.Path)
	}
	for _, at := range gone {
		if at != "/" {
			delete(s.nodes, at)
		}
	}
	return len(gone), nil
}

// All lists every file below a folder.
func (s *SessionFiles) All(ctx context.Context, p permit.Permit, name string) ([]capability.File, error) {
	done, err := s.begin(ctx, p)
	if err != nil {
		return nil, err
	}
	defer done()
	n, err := s.find(name)
	if err != nil {
		return nil, err
	}
	var out []capability.File
	for at, c := range s.nodes {
		if !c.file.Folder && strings.HasPrefix(at, strings.TrimSuffix(n.file.Path, "/")+"/") {
			out = append(out, c.file)
		}
	}
	slices.SortFunc(out, func(a, b capability.File) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}
