package store

import (
	"context"
	"slices"
	"time"

	"github.com/remitrun/remit/internal/record/ledger"
)

// Labels keeps the labels of data that files were given. Append changes them, with the
// [ledger.FilesLabelled] events that it is given.
type Labels interface {
	// LabelsOf returns the labels of each key, limited to the given labels and in their order.
	LabelsOf(ctx context.Context, labels []string, keys []ledger.LabelKey) ([][]string, error)
	// Labelled lists the labelled keys, by label and then by key.
	Labelled(ctx context.Context, f LabelFilter) ([]LabelRecord, error)
}

// LabelFilter chooses labelled keys. The zero filter chooses all.
type LabelFilter struct {
	Label  string // "": any
	Prefix string // of the keys
	After  LabelPlace
	Limit  int // 0: no limit
}

// LabelPlace is a place in the list: the next page begins after it.
type LabelPlace struct {
	Label string
	Key   ledger.LabelKey
}

// LabelRecord is one label of one file, content or folder.
type LabelRecord struct {
	Label string
	Key   ledger.LabelKey
	Run   ledger.Seq // that gave it the label first; 0: none
	Call  int        // of the run; 0: its held writes, when they were applied
	Since time.Time
	Seq   ledger.Seq // the event that gave it the label first
}

// RunLabels lists the labels of a run's context.
func RunLabels(ctx context.Context, st Store, run ledger.Run) ([]string, error) {
	labels := slices.Clone(run.Labels)
	for call, err := range st.Calls(ctx, run.Seq) {
		if err != nil {
			return nil, err
		}
		labels = append(labels, call.Labels...)
	}
	slices.Sort(labels)
	return slices.Compact(labels), nil
}
