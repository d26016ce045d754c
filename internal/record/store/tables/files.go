package tables

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

var _ store.Files = (*Store)(nil)

// FileTree implements store.Files. The totals in the session's row show whether a
// file is missing.
func (s *Store) FileTree(ctx context.Context, session uuid.UUID) ([]store.FileRecord, error) {
	if s.format < agentsFormat {
		return nil, unknownSession(session.String())
	}
	conn, end, err := s.snapshot(ctx)
	if err != nil {
		return nil, s.fault(err, "files cannot be read")
	}
	defer end() //nolint:errcheck // nothing was written
	held, err := s.readSealed(ctx, conn, tableSessions, session[:])
	if err == nil && held == nil {
		err = unknownSession(session.String())
	}
	if err != nil {
		return nil, s.fault(err, "files cannot be read")
	}
	out := make([]store.FileRecord, 0, held.int(sessionFiles))
	size, macs := int64(0), s.keys.newRowMACs()
	err = each(ctx, conn, selectTree, func(rows *sql.Rows) error {
		f, err := s.scanTree(rows, session, macs)
		out = append(out, f)
		size += f.Size
		return err
	}, session[:])
	if err == nil && (int64(len(out)) != held.int(sessionFiles) || size != held.int(sessionBytes)) {
		err = fault.New(fault.StoreCorrupt, "session %s in %q has %d files of %d bytes, not %d of %d", session, s.name, len(out), size, held.int(sessionFiles), held.int(sessionBytes)).
			ForOperator("remit verify lists the changed records")
	}
	if err != nil {
		return nil, s.fault(err, "files cannot be read")
	}
	return out, nil
}

const selectTree = "SELECT path, version, folder, size, sha256, address, created, modified, seq, leaf, mac FROM files WHERE session = ? AND gone = 0 ORDER BY path"

// scanTree reads a row of selectTree. It does the same as scanSealed, but is fast
// for thousands of rows.
func (s *Store) scanTree(rows *sql.Rows, session uuid.UUID, macs *rowMACs) (f store.FileRecord, err error) {
	var version, folder, created, modified, seq int64
	var sum, address, leaf, mac sql.RawBytes
	if err := rows.Scan(&f.Path, &version, &folder, &f.Size, &sum, &address, &created, &modified, &seq, &leaf, &mac); err != nil {
		return f, err
	}
	macs.begin(tableFiles.name)
	macs.bytes(session[:])
	macs.text(f.Path)
	for _, n := range [...]int64{version, folder, 0, f.Size} { // 0: not deleted
		macs.int(n)
	}
	macs.bytes(sum)
	macs.bytes(address)
	for _, n := range [...]int64{created, modified, seq} {
		macs.int(n)
	}
	macs.bytes(leaf)
	if !macs.fits(mac) {
		return f, s.notOurs(tableFiles)
	}
	f.Version, f.Folder, f.Created, f.Modified, f.Seq = int(version), folder == 1, ledger.Time(created), ledger.Time(modified), ledger.Seq(seq)
	copy(f.SHA256[:], sum)
	copy(f.Blob.Address[:], address)
	f.Blob.Size = f.Size
	return f, nil
}

// fileRecord holds the newest version of a path.
func fileRecord(row sealedRow) store.FileRecord {
	f := store.FileRecord{
		Path: row.text(filePath), Folder: row.int(fileFolder) == 1, Version: int(row.int(fileVersion)), Size: row.int(fileSize), Deleted: row.int(fileGone) == 1,
		Created: ledger.Time(row.int(fileCreated)), Modified: ledger.Time(row.int(fileModified)), Seq: ledger.Seq(row.int(fileSeq)),
	}
	copy(f.SHA256[:], row.bytes(fileDigest))
	copy(f.Blob.Address[:], row.bytes(fileAddress))
	f.Blob.Size = f.Size
	return f
}

// File implements store.Files. It finds an older version by going back from the
// newest, since each names the previous one.
func (s *Store) File(ctx context.Context, session uuid.UUID, name string, version int) (store.FileRecord, error) {
	unknown := func() error {
		if version > 0 {
			return fault.New(fault.NotFound, "the session has no version %d of %q", version, name)
		}
		return fault.New(fault.NotFound, "the session has no file %q", name)
	}
	if err := checkPath(name); err != nil {
		return store.FileRecord{}, err
	}
	if _, err := s.lastMessage(ctx, session); err != nil {
		return store.FileRecord{}, err
	}
	row, err := s.readSealed(ctx, s.read, tableFiles, session[:], name)
	switch {
	case err != nil:
		return store.FileRecord{}, s.fault(err, "a file cannot be read")
	case row == nil || version < 0 || version > int(row.int(fileVersion)) || version == 0 && row.int(fileGone) == 1:
		return store.FileRecord{}, unknown()
	case version == 0 || version == int(row.int(fileVersion)):
		return fileRecord(row), nil
	}
	return s.olderFile(ctx, row, version)
}

func (s *Store) olderFile(ctx context.Context, row sealedRow, version int) (store.FileRecord, error) {
	bad := func(seq ledger.Seq) error {
		return fault.New(fault.StoreCorrupt, "event %d in %q is not the version of a file that it was", seq, s.name).ForOperator("remit verify lists the changed records")
	}
	seq, leaf := ledger.Seq(row.int(fileSeq)), row.bytes(fileLeaf)
	for at := int(row.int(fileVersion)); ; at-- {
		var raw rawEvent
		err := s.read.QueryRowContext(ctx, "SELECT seq, run, call, body, salt, data FROM "+EventsAndPayloads+" e WHERE seq = ?", int64(seq)).
			Scan(&raw.seq, &raw.run, &raw.call, &raw.body, &raw.salt, &raw.data)
		if errors.Is(err, sql.ErrNoRows) || err == nil && !bytes.Equal(leafOf(raw.body), leaf) {
			return store.FileRecord{}, bad(seq)
		}
		if err != nil {
			return store.FileRecord{}, s.fault(err, "a file cannot be read")
		}
		st, err := s.decode(&raw)
		if err != nil {
			return store.FileRecord{}, err
		}
		f, err := readFileState(st.Parts)
		if err != nil || int(st.Event.Number) != at {
			return store.FileRecord{}, bad(seq)
		}
		if at == version {
			return fileRecord(fileRow(&st, f)), nil
		}
		if f.Before == 0 || f.Before >= seq {
			return store.FileRecord{}, bad(seq)
		}
		seq, leaf = f.Before, f.BeforeLeaf
	}
}

// readFileState reads a file's state from its event. The state is never stored
// apart.
func readFileState(parts map[string]ledger.Part) (f ledger.FileState, err error) {
	err = json.Unmarshal(parts[ledger.PartDoc].Inline, &f)
	return f, err
}

// fileRow returns the row that an event makes, without its leaf.
func fileRow(st *ledger.Stored, f ledger.FileState) sealedRow {
	sum, address := make([]byte, 32), make([]byte, 32)
	copy(sum, f.SHA256)
	if b := st.Parts[ledger.PartContent].Blob; b != nil {
		address = b.Address[:]
	}
	return sealedRow{fileSession: st.Event.Subject, filePath: f.Path, fileVersion: int64(st.Event.Number), fileFolder: flag(f.Folder),
		fileGone: flag(st.Event.Gone), fileSize: f.Size, fileDigest: sum, fileAddress: address, fileCreated: f.Created,
		fileModified: st.Event.At, fileSeq: int64(st.Seq), fileLeaf: []byte(nil)}
}

// LoadFile implements store.Files.
func (s *Store) LoadFile(ctx context.Context, f store.FileRecord) ([]byte, error) {
	switch {
	case f.Folder:
		return nil, fault.New(fault.Conflict, "%q is a folder", f.Path)
	case f.Deleted:
		return nil, fault.New(fault.NotFound, "version %d of %q is its deletion", f.Version, f.Path)
	case f.Size == 0:
		return []byte{}, nil
	}
	return s.Load(ctx, ledger.Part{Blob: &f.Blob})
}

// checkPath refuses a path that is not in canonical spelling.
func checkPath(name string) error {
	switch {
	case len(name) > store.MaxPath:
		return fault.New(fault.ArgsInvalid, "a path of %d bytes is too long: %d are the most", len(name), store.MaxPath)
	case !utf8.ValidString(name) || strings.ContainsRune(name, 0):
		return fault.New(fault.ArgsInvalid, "%q cannot be a path: it is not text", name)
	case len(name) < 2 || name[0] != '/' || path.Clean(name) != name:
		return fault.New(fault.ArgsInvalid, "%q is not an absolute, clean path", name).WithHint(`write it as "/docs/readme.txt"`)
	}
	return nil
}
