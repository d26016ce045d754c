package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
)

// modelSession is the expected state of a session.
type modelSession struct {
	id       uuid.UUID
	version  int
	gone     bool
	doc      string
	messages []string
	files    map[string][]modelFile // all versions of each path
}

type modelFile struct {
	folder, gone bool
	content      string
}

// now is a path's newest version, and its number as the next change must know it.
func (m *modelSession) now(name string) (modelFile, int) {
	v := m.files[name]
	if len(v) == 0 || v[len(v)-1].gone {
		return modelFile{gone: true}, 0
	}
	return v[len(v)-1], len(v)
}

// tree returns the existing files, with the number of bytes.
func (m *modelSession) tree() (out map[string]int, size int64) {
	out = map[string]int{}
	for name := range m.files {
		if f, n := m.now(name); n > 0 {
			out[name] = n
			size += int64(len(f.content))
		}
	}
	return out, size
}

// apply makes changes, or returns the error that they must have.
func (m *modelSession) apply(quota store.Quota, changes []store.FileChange) error {
	if m.gone {
		return fault.SessionEnded
	}
	next := modelSession{files: map[string][]modelFile{}}
	for name, v := range m.files {
		next.files[name] = slices.Clone(v)
	}
	for _, c := range changes {
		if _, n := m.now(c.Path); n != c.Was {
			return fault.Stale
		}
		f := modelFile{folder: c.Folder, gone: c.Delete, content: string(c.Content)}
		next.files[c.Path] = append(next.files[c.Path], f)
	}
	was, before := m.tree()
	is, size := next.tree()
	if size > quota.Bytes && size > before || len(is) > quota.Files && len(is) > len(was) {
		return fault.FilesFull
	}
	for name := range is {
		if dir := path.Dir(name); dir != "/" {
			if d, n := next.now(dir); n == 0 || !d.folder {
				return fault.Conflict
			}
		}
	}
	m.files = next.files
	return nil
}

// model is a store with its expected content.
type model struct {
	*rapid.T
	home     string
	s        *sqlite.Store
	sessions []*modelSession
	quota    store.Quota
}

func (m *model) open() {
	m.s = must(sqlite.Open(context.Background(), sqlite.Options{Home: m.home, Durability: sqlite.Process}))
}

func (m *model) want(what string, err, want error) {
	m.Helper()
	if !errors.Is(err, want) {
		m.Fatalf("%s: %v, want %v", what, err, want)
	}
}

// pick draws a session, mostly an existing one.
func (m *model) pick() *modelSession {
	if len(m.sessions) == 0 || rapid.IntRange(0, 9).Draw(m.T, "new") == 0 {
		s := &modelSession{id: uuid.Must(uuid.NewV7()), version: 1, doc: "1", files: map[string][]modelFile{}}
		_, err := m.s.SaveSession(context.Background(), store.SessionRecord{ID: s.id, Doc: []byte(s.doc)})
		m.want("a new session", err, nil)
		m.sessions = append(m.sessions, s)
		return s
	}
	return rapid.SampledFrom(m.sessions).Draw(m.T, "session")
}

func (m *model) save(s *modelSession) {
	was := s.version + rapid.SampledFrom([]int{0, 0, 0, 1, -1}).Draw(m.T, "off")
	r := store.SessionRecord{ID: s.id, Version: was, Doc: fmt.Append(nil, rapid.IntRange(0, 1<<30).Draw(m.T, "doc")), Deleted: rapid.IntRange(0, 9).Draw(m.T, "delete") == 0}
	_, err := m.s.SaveSession(context.Background(), r)
	switch {
	case s.gone:
		m.want("saving a deleted session", err, fault.SessionEnded)
	case was != s.version:
		m.want("saving another version", err, fault.Stale)
	default:
		m.want("saving", err, nil)
		s.version, s.doc, s.gone = s.version+1, string(r.Doc), r.Deleted
	}
}

func (m *model) add(s *modelSession) {
	after := len(s.messages) + rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(m.T, "off")
	var all []store.MessageRecord
	for range rapid.IntRange(1, 40).Draw(m.T, "messages") {
		all = append(all, store.MessageRecord{Doc: []byte(strings.Repeat("m", rapid.SampledFrom([]int{0, 1, 300, 5000}).Draw(m.T, "size")) + fmt.Sprint(len(all)))})
	}
	_, err := m.s.AddMessages(context.Background(), s.id, after, all...)
	switch {
	case s.gone:
		m.want("adding to a deleted session", err, fault.SessionEnded)
	case after != len(s.messages):
		m.want("adding after another message", err, fault.Stale)
	default:
		m.want("adding", err, nil)
		for _, r := range all {
			s.messages = append(s.messages, string(r.Doc))
		}
	}
}

func (m *model) change(s *modelSession) {
	names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"/a", "/b", "/d", "/d/x", "/d/e", "/d/e/y", "/d.z"}), 1, 4, rapid.ID[string]).Draw(m.T, "paths")
	var changes []store.FileChange
	for _, name := range names {
		_, was := s.now(name)
		c := store.FileChange{Path: name, Was: was}
		if rapid.IntRange(0, 11).Draw(m.T, "stale") == 0 {
			c.Was++
		}
		switch rapid.IntRange(0, 3).Draw(m.T, "kind") {
		case 0:
			c.Folder = true
		case 1:
			c.Delete = c.Was > 0
		default:
			c.Folder = name == "/d" || name == "/d/e"
		}
		if !c.Folder && !c.Delete {
			c.Content = []byte(rapid.SampledFrom([]string{"", "one", "four", strings.Repeat("long", 10)}).Draw(m.T, "content"))
		}
		changes = append(changes, c)
	}
	_, err := m.s.ChangeFiles(context.Background(), s.id, m.quota, changes...)
	m.want(fmt.Sprintf("changing %+v", changes), err, s.apply(m.quota, changes))
}

// check compares a session with its expected state.
func (m *model) check(s *modelSession) {
	ctx := context.Background()
	r, err := m.s.Session(ctx, s.id.String())
	if err != nil || r.Version != s.version || r.Deleted != s.gone || string(r.Doc) != s.doc || r.Last != len(s.messages) {
		m.Fatalf("session %+v, %v; want %+v", r, err, s)
	}
	var got []string
	for msg, err := range m.s.Messages(ctx, s.id, 0, false) {
		m.want("reading", err, nil)
		got = append(got, string(msg.Doc))
	}
	if !slices.Equal(got, s.messages) {
		m.Fatalf("%d messages, want %d", len(got), len(s.messages))
	}
	tree := map[string]int{}
	for _, f := range must(m.s.FileTree(ctx, s.id)) {
		tree[f.Path] = f.Version
	}
	if want, _ := s.tree(); !maps.Equal(tree, want) {
		m.Fatalf("the tree is %v, want %v", tree, want)
	}
	for name, versions := range s.files {
		for i, want := range versions {
			f, err := m.s.File(ctx, s.id, name, i+1)
			m.want(name, err, nil)
			if f.Folder != want.folder && !want.gone || f.Deleted != want.gone {
				m.Fatalf("version %d of %s is %+v, want %+v", i+1, name, f, want)
			}
			if want.folder || want.gone {
				continue
			}
			if b, err := m.s.LoadFile(ctx, f); err != nil || string(b) != want.content {
				m.Fatalf("version %d of %s has %q, %v; want %q", i+1, name, b, err, want.content)
			}
		}
	}
}

// After any operations in any order, a store holds the same as a map, also after
// it was opened again. Its tables fit its events.
func TestSessionsAreWhatAMapIs(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{T: rt, home: must(os.MkdirTemp(t.TempDir(), "")), quota: store.Quota{Bytes: 60, Files: 5}}
		m.open()
		defer func() { _ = m.s.Close() }()
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			s := m.pick()
			switch rapid.IntRange(0, 9).Draw(rt, "do") {
			case 0:
				m.save(s)
			case 1, 2, 3:
				m.add(s)
			case 4:
				m.want("closing", m.s.Close(), nil)
				m.open()
			case 5:
				m.check(s)
			default:
				m.change(s)
			}
		}
		for _, s := range m.sessions {
			m.check(s)
		}
		if r := must(m.s.Verify(context.Background(), store.VerifyOptions{})); len(r.Problems) > 0 {
			rt.Fatalf("verify: %+v", r.Problems)
		}
	})
}
