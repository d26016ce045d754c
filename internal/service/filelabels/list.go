package filelabels

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/files"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// Item is one label of a file, as it is listed.
type Item struct {
	Path   string    `json:"path,omitempty" doc:"Of the file, or of the folder"`
	Folder bool      `json:"folder,omitempty" doc:"Every file in it has the label: a call writes there, or was cut off while it did"`
	SHA256 string    `json:"sha256,omitempty" doc:"Instead of path: every file with this content has the label"`
	Label  string    `json:"label"`
	Since  time.Time `json:"since"`
	Run    string    `json:"run_id,omitempty" doc:"That gave it the label"`
	Call   int       `json:"call,omitempty" doc:"Of the run; missing: its held writes, when they were applied"`

	key ledger.LabelKey
}

// Query chooses the listed files.
type Query struct {
	Label    string // "": any
	Below    string // an absolute path: it, and all below it; "": any
	Contents bool   // contents, too
	After    store.LabelPlace
	Limit    int // 0: all
}

// List lists the labels of files, and the place of the next page; the zero place: there is none.
func List(ctx context.Context, st store.Backend, q Query) ([]Item, store.LabelPlace, error) {
	var out []Item
	runs := map[ledger.Seq]string{}
	for f := (store.LabelFilter{Label: q.Label, After: q.After, Limit: page}); ; {
		list, err := st.Labelled(ctx, f)
		if err != nil {
			return nil, store.LabelPlace{}, err
		}
		for _, r := range list {
			f.After = store.LabelPlace{Label: r.Label, Key: r.Key}
			if path := r.Key.Path(); path == "" && !q.Contents || q.Below != "" && !isWithin(q.Below, path) {
				continue
			}
			if q.Limit > 0 && len(out) == q.Limit {
				return out, q.After, nil
			}
			run, err := runID(ctx, st, runs, r.Run)
			if err != nil {
				return nil, store.LabelPlace{}, err
			}
			out = append(out, Item{Path: r.Key.Path(), Folder: r.Key.Folder(), SHA256: r.Key.Content(), Label: r.Label, Since: r.Since.UTC(), Run: run, Call: r.Call, key: r.Key})
			q.After = f.After
		}
		if len(list) < page {
			return out, store.LabelPlace{}, nil
		}
	}
}

// runID is the ID of the run that an event began; "": none.
func runID(ctx context.Context, st store.Store, known map[ledger.Seq]string, run ledger.Seq) (string, error) {
	if run == 0 {
		return "", nil
	}
	if id, ok := known[run]; ok {
		return id, nil
	}
	for e, err := range st.Events(ctx, run) {
		if err != nil {
			return "", err
		}
		id, err := uuid.FromBytes(e.Event.ID)
		if err != nil {
			return "", fault.Wrap(fault.StoreCorrupt, err, "event %d began no run", run)
		}
		known[run] = id.String()
		return known[run], nil
	}
	return "", fault.New(fault.StoreCorrupt, "event %d is missing", run)
}

// Clear takes the labels of a path, of all that is in it if it is a folder, and of the content
// of the file that is there. It returns how many labels of paths there were.
func Clear(ctx context.Context, st store.Backend, path, by string) (int, error) {
	path = filepath.Clean(path)
	names := []string{path}
	if real, err := filepath.EvalSymlinks(path); err == nil && real != path {
		names = append(names, real)
	}
	var changes []ledger.FileLabel
	labels := 0
	for _, name := range names {
		items, _, err := List(ctx, st, Query{Below: name})
		if err != nil {
			return 0, err
		}
		for _, key := range keysOf(items) {
			changes = append(changes, ledger.FileLabel{File: key, Clear: true})
		}
		labels += len(items)
	}
	content, err := contentOf(ctx, names[len(names)-1])
	if err != nil {
		return 0, err
	}
	if content != "" {
		of, err := st.Labelled(ctx, store.LabelFilter{Prefix: string(content)})
		if err != nil {
			return 0, err
		}
		if len(of) > 0 {
			changes, labels = append(changes, ledger.FileLabel{File: content, Clear: true}), max(labels, len(of))
		}
	}
	if len(changes) == 0 {
		return 0, fault.New(fault.NotFound, "no labels are recorded for %q", path).ForOperator("remit labels lists the labelled files; labels of a pattern are the policy's")
	}
	doc, err := json.Marshal(ledger.FileLabels{Changes: changes})
	if err != nil {
		return 0, fault.Wrap(fault.Internal, err, "the labels of files cannot be encoded")
	}
	_, err = st.Append(ctx, ledger.Entry{Durable: true, Payload: ledger.Payload{ledger.PartDoc: doc},
		Event: ledger.Event{Kind: ledger.FilesLabelled, At: time.Now().UnixMicro(), Principal: by}})
	return labels, err
}

// keysOf are the keys of paths and folders, each once.
func keysOf(items []Item) []ledger.LabelKey {
	var out []ledger.LabelKey
	seen := map[ledger.LabelKey]bool{}
	for _, it := range items {
		if !seen[it.key] {
			seen[it.key] = true
			out = append(out, it.key)
		}
	}
	return out
}

// contentOf is the key of the content of a file; "": it has none that is known.
func contentOf(ctx context.Context, path string) (ledger.LabelKey, error) {
	c, err := files.ContentIn(ctx, nil, tool.Env{}, path, func(size int64) (bool, error) { return size > 0 && size <= MaxHashed, nil })
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return "", nil
	}
	return contentKey(c), err
}

// Door lists and clears the labels of one ledger's files. It implements httpapi.Labels.
type Door struct {
	Reader func(context.Context) (store.Backend, error) // to look at
	Store  func(context.Context) (store.Backend, error) // to write
}

// Labels is [List].
func (d Door) Labels(ctx context.Context, q Query) ([]Item, store.LabelPlace, error) {
	st, err := d.Reader(ctx)
	if err != nil {
		return nil, store.LabelPlace{}, err
	}
	return List(ctx, st, q)
}

// ClearLabels is [Clear].
func (d Door) ClearLabels(ctx context.Context, who, path string) (int, error) {
	st, err := d.Store(ctx)
	if err != nil {
		return 0, err
	}
	return Clear(ctx, st, path, who)
}
