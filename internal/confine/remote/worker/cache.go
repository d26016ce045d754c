package worker

import (
	"bufio"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/walk"
	"github.com/remitrun/remit/internal/confine/changeset"
	"github.com/remitrun/remit/internal/confine/remote/tree"
	"github.com/remitrun/remit/internal/confine/remote/wire"
)

// keepBlobs is how long content that no call used stays in the cache.
const keepBlobs = 7 * 24 * time.Hour

// cache keeps content by its digest, and the folders that were made of it.
type cache struct {
	dir string

	mu    sync.Mutex
	trees map[string]*made
}

// made is the copy of a workspace. It is never changed: what commands write goes to layers.
type made struct {
	once  sync.Once
	err   error
	users int
	last  time.Time
}

// maxTrees is how many copies stay for the next call.
const maxTrees = 8

// openCache begins with the content of earlier starts. The copies are made anew.
func openCache(dir string) (*cache, error) {
	c := &cache{dir: dir, trees: map[string]*made{}}
	for _, name := range []string{"trees", "changes", "undo"} {
		if err := walk.Remove(filepath.Join(dir, name)); err != nil {
			return nil, fault.Wrap(fault.Usage, err, "the worker's folder cannot be cleared")
		}
	}
	for _, name := range []string{"blobs", "trees"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			return nil, fault.Wrap(fault.Usage, err, "the worker's folder cannot be made")
		}
	}
	old, err := os.ReadDir(filepath.Join(dir, "blobs"))
	for _, e := range old {
		if st, serr := e.Info(); serr == nil && time.Since(st.ModTime()) > keepBlobs {
			err = errors.Join(err, os.Remove(filepath.Join(dir, "blobs", e.Name())))
		}
	}
	return c, err
}

func (c *cache) changes() changeset.Home { return changeset.In(c.dir).Volatile() }

func (c *cache) blob(hash string) string { return filepath.Join(c.dir, "blobs", hash) }

func (c *cache) has(hash string) bool {
	now := time.Now()
	return os.Chtimes(c.blob(hash), now, now) == nil
}

// put takes content in, if it has the digest.
func (c *cache) put(hash string, from io.Reader) error {
	if err := tree.CheckHash(hash); err != nil {
		return err
	}
	f, err := os.OpenFile(c.blob("new-"+rand.Text()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fault.Wrap(fault.StoreFailed, err, "the worker cannot keep files")
	}
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, h), http.MaxBytesReader(nil, io.NopCloser(from), tree.MaxBytes))
	err = errors.Join(err, f.Close())
	if err == nil && hex.EncodeToString(h.Sum(nil)) != hash {
		err = fault.New(fault.Conflict, "the %d bytes that were sent do not have their digest: a file changed meanwhile", n)
	}
	if err == nil {
		err = os.Rename(f.Name(), c.blob(hash))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// List implements tree.Source.
func (c *cache) List(d tree.Digest) ([]byte, error) {
	if err := tree.CheckHash(d.Hash); err != nil {
		return nil, err
	}
	f, err := os.Open(c.blob(d.Hash))
	if err != nil {
		return nil, fault.Wrap(fault.NotFound, err, "a folder's list was not sent")
	}
	defer func() { _ = f.Close() }() // only read
	return io.ReadAll(io.LimitReader(f, tree.MaxDirectory+1))
}

// Link implements tree.Source: one copy of the content for each mode, and links to it.
func (c *cache) Link(d tree.Digest, mode uint32, root *os.Root, p string) error {
	if err := tree.CheckHash(d.Hash); err != nil {
		return err
	}
	from := c.blob(fmt.Sprintf("%s-%o", d.Hash, mode))
	to := filepath.Join(root.Name(), p) // every folder on the way was made by tree.Make
	err := os.Link(from, to)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	b, err := os.Open(c.blob(d.Hash))
	if err != nil {
		return fault.Wrap(fault.NotFound, err, "the content of %q was not sent", p)
	}
	defer func() { _ = b.Close() }() // only read
	f, err := os.OpenFile(c.blob("new-"+rand.Text()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, h), b)
	err = errors.Join(err, f.Chmod(os.FileMode(mode)), f.Close())
	if err == nil && (hex.EncodeToString(h.Sum(nil)) != d.Hash || n != d.Size) {
		err = fault.New(fault.StoreCorrupt, "the worker's copy of %q is damaged", p)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	if err := os.Rename(f.Name(), from); err != nil {
		return err
	}
	return os.Link(from, to)
}

// tree gives a folder with the content of a digest, until release is called.
func (c *cache) tree(d tree.Digest) (dir string, release func(), err error) {
	if err := tree.CheckHash(d.Hash); err != nil {
		return "", nil, err
	}
	dir = filepath.Join(c.dir, "trees", d.Hash)
	c.mu.Lock()
	m := c.trees[d.Hash]
	if m == nil {
		m = &made{}
		c.trees[d.Hash] = m
	}
	m.users++
	c.mu.Unlock()
	m.once.Do(func() { m.err = c.makeTree(d, dir) })
	release = func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		m.users--
		m.last = time.Now()
		if m.err != nil && c.trees[d.Hash] == m {
			delete(c.trees, d.Hash)
		}
		c.forget()
	}
	if m.err != nil {
		release()
		return "", nil, m.err
	}
	return dir, release, nil
}

// forget removes the copies that were not used for the longest, if there are many.
func (c *cache) forget() {
	for len(c.trees) > maxTrees {
		oldest := ""
		for hash, m := range c.trees {
			if m.users == 0 && (oldest == "" || m.last.Before(c.trees[oldest].last)) {
				oldest = hash
			}
		}
		if oldest == "" {
			return
		}
		delete(c.trees, oldest)
		_ = walk.Remove(filepath.Join(c.dir, "trees", oldest)) // the next start removes it
	}
}

func (c *cache) makeTree(d tree.Digest, dir string) error {
	if err := walk.Remove(dir); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // only a handle
	return tree.Make(root, d, c)
}

// used are the calls whose tokens were used. The file is synced before a call begins, so that a
// token cannot be used again after a crash.
type used struct {
	mu   sync.Mutex
	file *os.File
	seen map[string]bool
}

// keepUsed is much longer than any token is valid.
const keepUsed = 24 * time.Hour

func openUsed(name string) (*used, error) {
	u := &used{seen: map[string]bool{}}
	var kept strings.Builder
	if f, err := os.Open(name); err == nil {
		for in := bufio.NewScanner(f); in.Scan(); {
			call, at, _ := strings.Cut(in.Text(), " ")
			if end, err := time.Parse(time.RFC3339, at); err != nil || time.Since(end) < keepUsed {
				u.seen[call] = true
				fmt.Fprintf(&kept, "%s %s\n", call, at)
			}
		}
		_ = f.Close() // only read
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Wrap(fault.StoreFailed, err, "the worker's list of used tokens cannot be read")
	}
	next := name + ".new"
	err := os.WriteFile(next, []byte(kept.String()), 0o600)
	if err == nil {
		err = os.Rename(next, name)
	}
	if err == nil {
		u.file, err = os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0o600)
	}
	if err == nil {
		err = u.file.Sync()
	}
	if err != nil {
		return nil, fault.Wrap(fault.StoreFailed, err, "the worker's list of used tokens cannot be written")
	}
	return u, nil
}

// mark notes that a token is used; it fails if it was used before.
func (u *used) mark(call string, end time.Time) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.seen[call] {
		return fault.New(fault.GrantInvalid, "the permit token is refused: it was used before")
	}
	u.seen[call] = true // also if the write fails: the call does not begin
	_, err := fmt.Fprintf(u.file, "%s %s\n", call, end.UTC().Format(time.RFC3339))
	if err == nil {
		err = u.file.Sync()
	}
	if err != nil {
		return fault.Wrap(fault.StoreFailed, err, "the worker cannot note that the token is used")
	}
	return nil
}

func (u *used) close() error { return u.file.Close() }

// answer sends a result, and the contents of the changed files.
func answer(w io.Writer, r wire.Result, upper string) error {
	root, err := os.OpenRoot(upper)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // only read
	if err := wire.Write(w, r); err != nil {
		return err
	}
	for _, c := range r.Changes {
		if c.To.Type != changeset.File || c.Refused != "" {
			continue
		}
		if err := send(w, root, c); err != nil {
			return err
		}
	}
	return nil
}

func send(w io.Writer, root *os.Root, c changeset.Change) error {
	f, _, err := tree.OpenPath(root, c.Path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	_, err = io.CopyN(w, f, c.To.Size)
	return err
}
