package changes

import (
	"context"
	"encoding/json"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/changeset"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// labelsAtOnce is how many files one event gives labels.
const labelsAtOnce = 1000

// label gives the labels of the run to the files that are about to be carried over.
func (c *Changeset) label(ctx context.Context, paths []string) error {
	labels, err := store.RunLabels(ctx, c.store, c.Run)
	if err != nil || len(labels) == 0 {
		return err
	}
	slices.Sort(labels)
	labels = slices.Compact(labels)
	list, err := c.Set.Changes(ctx, c.decide)
	if err != nil {
		return err
	}
	var all []ledger.FileLabel
	for _, one := range list {
		if one.To.Type != changeset.File || !chosen(one.Path, paths) {
			continue
		}
		all = append(all, ledger.FileLabel{File: ledger.PathKey(path.Join(c.Set.Workspace(), one.Path)), Labels: labels})
		if one.To.Hash != "" && one.To.Size > 0 {
			all = append(all, ledger.FileLabel{File: ledger.ContentKey(strconv.FormatInt(one.To.Size, 10), one.To.Hash), Labels: labels})
		}
	}
	var entries []ledger.Entry
	for part := range slices.Chunk(all, labelsAtOnce) {
		doc, err := json.Marshal(ledger.FileLabels{Changes: part})
		if err != nil {
			return fault.Wrap(fault.Internal, err, "the labels of files cannot be encoded")
		}
		entries = append(entries, ledger.Entry{Durable: true, Payload: ledger.Payload{ledger.PartDoc: doc},
			Event: ledger.Event{Kind: ledger.FilesLabelled, At: time.Now().UnixMicro(), Run: c.Run.Seq}})
	}
	if len(entries) == 0 {
		return nil
	}
	_, err = c.store.Append(ctx, entries...)
	return err
}

// chosen reports whether a change is at or beneath one of the paths; all are where there are
// none.
func chosen(p string, paths []string) bool {
	return len(paths) == 0 || slices.ContainsFunc(paths, func(dir string) bool { return dir == "." || p == dir || strings.HasPrefix(p, dir+"/") })
}
