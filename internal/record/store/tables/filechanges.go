package tables

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"path"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// ChangeFiles implements store.Files. The previous versions that the events name
// are read first, and again when the events are written. If they differ and the
// changes still fit, ChangeFiles starts again.
func (s *Store) ChangeFiles(ctx context.Context, session uuid.UUID, quota store.Quota, changes ...store.FileChange) ([]store.FileRecord, error) {
	c := fileChanges{s: s, session: session, quota: quota, changes: changes, place: make(map[string]int, len(changes))}
	for i := range changes {
		if err := c.checkOne(i); err != nil {
			return nil, err
		}
	}
	if len(changes) == 0 {
		return nil, nil
	}
	for {
		err := c.read(ctx)
		if err == nil {
			err = s.changes(ctx, c.entries, false, c.check, c.apply)
		}
		if err == nil {
			return c.after, nil
		}
		if !errors.Is(err, errMeanwhile) {
			return nil, err
		}
	}
}

// fileChanges holds changes of a session's files until they are in the ledger.
type fileChanges struct {
	s       *Store
	session uuid.UUID
	quota   store.Quota
	changes []store.FileChange
	place   map[string]int // of each path's change

	was     []sealedRow // each path's row before; nil: none
	entries []ledger.Entry
	states  []ledger.FileState
	after   []store.FileRecord

	req   *request
	held  sealedRow // the session's
	old   []byte    // its MAC
	files int64     // how much it holds afterwards
	bytes int64
}

func (c *fileChanges) checkOne(i int) error {
	f := &c.changes[i]
	if err := checkPath(f.Path); err != nil {
		return err
	}
	if _, twice := c.place[f.Path]; twice || f.Was < 0 || f.Was >= maxVersion || (f.Folder || f.Delete) && len(f.Content) > 0 || f.Delete && f.Was == 0 {
		return fault.New(fault.Internal, "a change of %q that makes no sense", f.Path)
	}
	c.place[f.Path] = i
	return nil
}

// read reads the present state and prepares the events.
func (c *fileChanges) read(ctx context.Context) error {
	held, err := c.s.readSealed(ctx, c.s.read, tableSessions, c.session[:])
	if err == nil {
		err = takesFiles(c.session, held)
	}
	if err != nil {
		return c.s.fault(err, "files cannot be read")
	}
	n := len(c.changes)
	c.was, c.entries, c.states, c.after = make([]sealedRow, n), make([]ledger.Entry, n), make([]ledger.FileState, n), nil
	for i := range c.changes {
		row, err := c.s.readSealed(ctx, c.s.read, tableFiles, c.session[:], c.changes[i].Path)
		if err == nil {
			err = c.fits(i, row)
		}
		if err == nil {
			c.was[i] = row
			err = c.prepare(i)
		}
		if err != nil {
			return c.s.fault(err, "files cannot be read")
		}
	}
	return nil
}

// fits reports whether a change fits its path's row.
func (c *fileChanges) fits(i int, row sealedRow) error {
	f, is := &c.changes[i], int64(0)
	if row != nil && row.int(fileGone) == 0 {
		is = row.int(fileVersion)
	}
	if is != int64(f.Was) {
		return stale("the session's "+f.Path, is, int64(f.Was))
	}
	return nil
}

func (c *fileChanges) prepare(i int) error {
	f, row, at := &c.changes[i], c.was[i], moment(c.changes[i].At).UnixMicro()
	st := ledger.FileState{Path: f.Path, Folder: f.Folder, Size: int64(len(f.Content)), Created: at}
	number := int64(1)
	if row != nil {
		number = row.int(fileVersion) + 1
		st.Before, st.BeforeLeaf = ledger.Seq(row.int(fileSeq)), row.bytes(fileLeaf)
		if row.int(fileGone) == 0 {
			st.Created = row.int(fileCreated)
		}
	}
	if f.Delete {
		st.Folder = row.int(fileFolder) == 1
	}
	if !st.Folder && !f.Delete {
		sum := sha256.Sum256(f.Content)
		st.SHA256 = sum[:]
	}
	doc, err := json.Marshal(st)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "a file's state cannot be encoded")
	}
	c.states[i] = st
	c.entries[i] = ledger.Entry{Payload: ledger.Payload{ledger.PartDoc: doc}, Event: ledger.Event{
		Kind: ledger.FileSaved, At: at, Run: f.Run, Call: f.Call, Subject: c.session[:], Number: uint32(number), Gone: f.Delete, Principal: f.By,
	}}
	if len(f.Content) > 0 {
		c.entries[i].Payload[ledger.PartContent] = f.Content
	}
	return nil
}

// check is the request's check.
func (c *fileChanges) check(ctx context.Context, w *writer, r *request) error {
	var err error
	if c.held, c.old, err = w.rowMAC(ctx, tableSessions, c.session[:]); err != nil {
		return err
	}
	if err := takesFiles(c.session, c.held); err != nil {
		return err
	}
	c.req, c.files, c.bytes = r, c.held.int(sessionFiles), c.held.int(sessionBytes)
	for i := range c.changes {
		row, err := w.row(ctx, tableFiles, c.session[:], c.changes[i].Path)
		if err == nil {
			err = c.fits(i, row)
		}
		if err == nil && row.int64or(fileSeq) != c.was[i].int64or(fileSeq) {
			err = fault.Wrap(fault.Stale, errMeanwhile, "%q was changed meanwhile", c.changes[i].Path)
		}
		if err != nil {
			return err
		}
		c.count(row, &c.changes[i])
	}
	if err := c.room(); err != nil {
		return err
	}
	return c.inFolders(ctx, w)
}

// takesFiles refuses a session that does not exist or was deleted.
func takesFiles(id uuid.UUID, row sealedRow) error {
	if row == nil {
		return unknownSession(id.String())
	}
	if row.int(sessionGone) == 1 {
		return endedSession(id)
	}
	return nil
}

// int64or returns a number of a row; 0 if there is no row.
func (r sealedRow) int64or(i int) int64 {
	if r == nil {
		return 0
	}
	return r.int(i)
}

func (c *fileChanges) count(row sealedRow, f *store.FileChange) {
	if f.Was > 0 {
		c.files--
		c.bytes -= row.int(fileSize)
	}
	if !f.Delete {
		c.files++
		c.bytes += int64(len(f.Content))
	}
}

// room refuses changes that exceed the quota. A change that makes a session
// smaller is never refused.
func (c *fileChanges) room() error {
	if n := c.quota.Bytes; c.bytes > n && c.bytes > c.held.int(sessionBytes) {
		return fault.New(fault.FilesFull, "the session's files would have %d bytes; the maximum is %d", c.bytes, n).WithHint("delete files that are no longer needed")
	}
	if n := int64(c.quota.Files); c.files > n && c.files > c.held.int(sessionFiles) {
		return fault.New(fault.FilesFull, "the session would have %d files and folders; the maximum is %d", c.files, n).WithHint("delete files that are no longer needed")
	}
	return nil
}

// inFolders refuses a path whose folder does not exist.
func (c *fileChanges) inFolders(ctx context.Context, w *writer) error {
	for i := range c.changes {
		f := &c.changes[i]
		if !f.Delete {
			if err := c.parent(ctx, w, f.Path); err != nil {
				return err
			}
		}
		if row := c.was[i]; f.Was > 0 && row.int(fileFolder) == 1 && !(f.Folder && !f.Delete) {
			if err := c.empty(ctx, w, f.Path); err != nil {
				return err
			}
		}
	}
	return nil
}

// parent checks that the folder of a path exists after the changes.
func (c *fileChanges) parent(ctx context.Context, w *writer, name string) error {
	dir := path.Dir(name)
	if dir == "/" {
		return nil
	}
	ok := false
	if i, changed := c.place[dir]; changed {
		ok = c.changes[i].Folder && !c.changes[i].Delete
	} else {
		row, err := w.row(ctx, tableFiles, c.session[:], dir)
		if err != nil {
			return err
		}
		ok = row != nil && row.int(fileGone) == 0 && row.int(fileFolder) == 1
	}
	if !ok {
		return fault.New(fault.Conflict, "%q is not a folder of the session, so %q cannot be in it", dir, name)
	}
	return nil
}

// empty checks that a deleted folder is empty after the changes.
func (c *fileChanges) empty(ctx context.Context, w *writer, dir string) error {
	st, err := w.stmt(ctx, w.s.dialect.filesThere())
	if err != nil {
		return ioError{err}
	}
	rows, err := st.QueryContext(ctx, c.session[:], dir+"/", dir+"0") // "0" follows "/"
	if err != nil {
		return ioError{err}
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return ioError{err}
		}
		if i, changed := c.place[name]; !changed || !c.changes[i].Delete {
			return fault.New(fault.Conflict, "the folder %q is not empty: it has %q", dir, name)
		}
	}
	if err := rows.Err(); err != nil {
		return ioError{err}
	}
	return nil
}

// apply is the request's apply.
func (c *fileChanges) apply(ctx context.Context, w *writer, first ledger.Seq) error {
	for i := range c.entries {
		r := &c.req.rows[i]
		st := ledger.Stored{Seq: first + ledger.Seq(i), Event: *r.event}
		if n := int64(len(c.changes[i].Content)); n > 0 {
			st.Parts = map[string]ledger.Part{ledger.PartContent: {Blob: &ledger.BlobRef{Address: c.s.keys.address(c.changes[i].Content), Size: n}}}
		}
		row := fileRow(&st, c.states[i])
		row[fileLeaf] = leafOf(r.body)
		if err := w.put(ctx, tableFiles, row); err != nil {
			return err
		}
		c.after = append(c.after, fileRecord(row))
	}
	c.held[sessionFiles], c.held[sessionBytes] = c.files, c.bytes
	return w.replace(ctx, tableSessions, c.old, c.held)
}
