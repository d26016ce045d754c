package reach

import (
	"slices"

	"github.com/remitrun/remit/internal/authority/policy"
)

// Overview is the questions that are asked first of any policy: what becomes of the
// workspace's files, of what the network answers, and of the data of each label.
type Overview struct {
	To   []string      `json:"to"`
	Rows []OverviewRow `json:"rows"`
}

// OverviewRow is the answers for one place that data comes from, in the order of To.
type OverviewRow struct {
	From     string    `json:"from"`
	Verdicts []Verdict `json:"verdicts"`
}

// Overview answers them.
func (w *World) Overview() (Overview, error) {
	out := Overview{To: []string{"network *", "files.write **", "commands **", "models **"}}
	from := []string{"files **", "network *"}
	for _, h := range w.Holders {
		for _, name := range h.Chain.LabelNames() {
			if text := "label " + name; !slices.Contains(from, text) && (name != policy.Untrusted || h.Chain.HasFlows()) {
				from = append(from, text)
			}
		}
	}
	for _, f := range from {
		row := OverviewRow{From: f}
		for _, t := range out.To {
			a, err := w.Ask(f, t)
			if err != nil {
				return out, err
			}
			row.Verdicts = append(row.Verdicts, a.Verdict)
		}
		out.Rows = append(out.Rows, row)
	}
	return out, nil
}
