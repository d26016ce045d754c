package tables

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// tableLabels is the table of labels of files.
var tableLabels = eventsTell(newSealedTable(LabelsFormat, "labels", 2, []string{labelName: "label", labelKey: "file", labelRun: "run",
	labelCall: "call", labelSince: "since", labelSeq: "seq"}))

// labelled are the changes of labels that a request's events tell of.
type labelled struct {
	entries []ledger.Entry
	of      map[int]ledger.FileLabels // by the event's place in the request
}

// labelChanges finds the changes of labels among entries.
func labelChanges(entries []ledger.Entry) (labelled, error) {
	l := labelled{entries: entries}
	for i := range entries {
		if entries[i].Event.Kind != ledger.FilesLabelled {
			continue
		}
		f, err := ledger.ReadFileLabels(entries[i].Payload[ledger.PartDoc])
		if err != nil {
			return l, fault.Wrap(fault.Internal, err, "labels of files cannot be recorded: %s", fault.Message(err))
		}
		if l.of == nil {
			l.of = map[int]ledger.FileLabels{}
		}
		l.of[i] = f
	}
	return l, nil
}

// complete has the request make the changes.
func (l labelled) complete(r *request) {
	if l.of != nil {
		r.check, r.apply = l.check, l.apply
	}
}

// check reads the rows, so that one that was edited refuses this request alone.
func (l labelled) check(ctx context.Context, w *writer) error {
	for i := range l.entries {
		for _, c := range l.of[i].Changes {
			if _, err := w.labelsOf(ctx, c.File); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l labelled) apply(ctx context.Context, w *writer, first ledger.Seq) error {
	for i := range l.entries {
		for _, c := range l.of[i].Changes {
			if err := w.changeLabels(ctx, first+ledger.Seq(i), &l.entries[i].Event, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// changeLabels makes one change. A label that a file has already keeps its row.
func (w *writer) changeLabels(ctx context.Context, seq ledger.Seq, e *ledger.Event, c ledger.FileLabel) error {
	rows, err := w.labelsOf(ctx, c.File)
	if err != nil {
		return err
	}
	if c.Clear {
		for _, row := range rows {
			if err := w.remove(ctx, tableLabels, row[:tableLabels.keys]...); err != nil {
				return err
			}
		}
		return nil
	}
	for _, label := range c.Labels {
		if slices.ContainsFunc(rows, func(r sealedRow) bool { return r.text(labelName) == label }) {
			continue
		}
		if err := w.put(ctx, tableLabels, labelRow(seq, e, label, c.File)); err != nil {
			return err
		}
	}
	return nil
}

func labelRow(seq ledger.Seq, e *ledger.Event, label string, key ledger.LabelKey) sealedRow {
	return sealedRow{labelName: label, labelKey: string(key), labelRun: int64(e.Run), labelCall: int64(e.Call), labelSince: e.At, labelSeq: int64(seq)}
}

const whereLabelled = " WHERE file = ?"

// labelsOf reads the rows of one file as the transaction sees them.
func (w *writer) labelsOf(ctx context.Context, key ledger.LabelKey) ([]sealedRow, error) {
	st, err := w.stmt(ctx, tableLabels.all+whereLabelled)
	if err != nil {
		return nil, ioError{err}
	}
	rows, err := st.QueryContext(ctx, string(key))
	if err != nil {
		return nil, ioError{err}
	}
	defer rows.Close()
	var out []sealedRow
	for rows.Next() {
		row, _, err := w.s.scanSealed(tableLabels, rows.Scan)
		if err != nil {
			return nil, asIO(err)
		}
		out = append(out, row)
	}
	return out, asIO(rows.Err())
}

// labels is the whole table labels: a removed row would let data go where it may not.
type labels struct {
	knownTable
	list  []store.LabelRecord // in the order of label and file
	fresh []store.LabelRecord // not in list yet, of newer events
}

func (t *labels) init() {
	t.table, t.column = tableLabels, labelSeq
	t.drop = func() { t.list, t.fresh = nil, nil }
	t.take = func(row sealedRow) {
		t.fresh = append(t.fresh, store.LabelRecord{Label: row.text(labelName), Key: ledger.LabelKey(row.text(labelKey)), Run: ledger.Seq(row.int(labelRun)), Call: int(row.int(labelCall)),
			Since: ledger.Time(row.int(labelSince)), Seq: ledger.Seq(row.int(labelSeq))})
	}
}

func orderOfLabels(a, b store.LabelRecord) int {
	return cmp.Or(strings.Compare(a.Label, b.Label), strings.Compare(string(a.Key), string(b.Key)))
}

// look calls f with the table's present content.
func (t *labels) look(ctx context.Context, s *Store, f func(list []store.LabelRecord)) error {
	_, err := t.knownTable.look(ctx, s, func() {
		if len(t.fresh) > 0 {
			t.list, t.fresh = merged(t.list, t.fresh), nil
		}
		f(t.list)
	})
	return s.fault(err, "the labels of files cannot be read")
}

// merged adds new labels to an ordered list. A new one takes the place of an old one.
func merged(list, fresh []store.LabelRecord) []store.LabelRecord {
	slices.SortStableFunc(fresh, orderOfLabels)
	out := make([]store.LabelRecord, 0, len(list)+len(fresh))
	for len(list) > 0 || len(fresh) > 0 {
		order := -1
		switch {
		case len(list) == 0:
			order = 1
		case len(fresh) > 0:
			order = orderOfLabels(list[0], fresh[0])
		}
		if order < 0 {
			out, list = append(out, list[0]), list[1:]
			continue
		}
		if order == 0 {
			list = list[1:]
		}
		out, fresh = append(out, fresh[0]), fresh[1:]
	}
	return out
}

// LabelsOf implements store.Labels.
func (s *Store) LabelsOf(ctx context.Context, labels []string, keys []ledger.LabelKey) ([][]string, error) {
	out := make([][]string, len(keys))
	if s.format < LabelsFormat {
		return out, nil
	}
	return out, s.labels.look(ctx, s, func([]store.LabelRecord) {
		for i, key := range keys {
			for _, l := range labels {
				if _, has := s.labels.macs[keyOf([]any{l, string(key)})]; has {
					out[i] = append(out[i], l)
				}
			}
		}
	})
}

// Labelled implements store.Labels.
func (s *Store) Labelled(ctx context.Context, f store.LabelFilter) ([]store.LabelRecord, error) {
	if s.format < LabelsFormat {
		return nil, nil
	}
	var out []store.LabelRecord
	err := s.labels.look(ctx, s, func(list []store.LabelRecord) {
		from := store.LabelRecord{Label: f.Label}
		if f.Label != "" {
			from.Key = ledger.LabelKey(f.Prefix)
		}
		if f.After != (store.LabelPlace{}) {
			if after := (store.LabelRecord{Label: f.After.Label, Key: f.After.Key + "\x00"}); orderOfLabels(after, from) > 0 {
				from = after
			}
		}
		at, _ := slices.BinarySearchFunc(list, from, orderOfLabels)
		for _, r := range list[at:] {
			if f.Label != "" && (r.Label != f.Label || !strings.HasPrefix(string(r.Key), f.Prefix) && string(r.Key) > f.Prefix) || f.Limit > 0 && len(out) == f.Limit {
				break
			}
			if strings.HasPrefix(string(r.Key), f.Prefix) {
				out = append(out, r)
			}
		}
	})
	return out, err
}

// readLabels reads the labels in a FilesLabelled event.
func (s *Store) readLabels(st *ledger.Stored) (ledger.FileLabels, error) {
	p := st.Parts[ledger.PartDoc]
	b := p.Inline
	if p.Blob != nil {
		var err error
		if b, err = s.Load(context.Background(), p); err != nil {
			return ledger.FileLabels{}, err
		}
	}
	return ledger.ReadFileLabels(b)
}

// deriveLabels derives the expected rows of labels from an event. Of a label that a file may
// have had before the first event that is read, only that it has it is known.
func (v *verification) deriveLabels(seq ledger.Seq, c *checkedEvent) {
	if c.event.Kind != ledger.FilesLabelled {
		return
	}
	if v.derived[tableLabels] == nil {
		v.derived[tableLabels] = map[string]derivedRow{}
		v.labelled = map[ledger.LabelKey][]string{}
	}
	for _, f := range c.labels.Changes {
		known, seen := v.labelled[f.File]
		if f.Clear {
			for _, label := range known {
				delete(v.derived[tableLabels], rowKey(label, string(f.File)))
			}
			v.labelled[f.File] = []string{}
			continue
		}
		for _, label := range f.Labels {
			if slices.Contains(known, label) {
				continue
			}
			known = append(known, label)
			d := derivedRow{seq: seq}
			if v.start == 0 || seen {
				d.want = map[int]any{}
				for i, val := range labelRow(seq, &c.event, label, f.File) {
					if i >= tableLabels.keys {
						d.want[i] = val
					}
				}
			}
			v.derived[tableLabels][rowKey(label, string(f.File))] = d
		}
		v.labelled[f.File] = known
	}
}
