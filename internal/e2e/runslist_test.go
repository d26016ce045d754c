package e2e_test

import (
	"strings"
	"testing"
)

// The list of runs is not sealed. What it says of a run's end is compared with the events, so
// that nobody reads of a denied run that it completed.
func TestAnEditedListOfRunsIsNotBelieved(t *testing.T) {
	w := newRecorded(t)
	status := w.parse(w.must(0, "show", w.mixed, "--json")).Status
	for change, sql := range map[string]string{
		"a status":      "UPDATE runs SET status = 1, denied = 0, failed = 0, completed = total",
		"a count":       "UPDATE runs SET completed = completed + 1",
		"when it ended": "UPDATE runs SET ended = ended + 1000000",
	} {
		t.Run(change, func(t *testing.T) {
			c := w.copied(t)
			db := open(t, c.home)
			back := unguarded(t, db)
			execute(t, db, sql)
			back()
			must(t, db.Close())
			for _, args := range [][]string{{"show", w.mixed}, {"runs", "--all"}, {"report", w.mixed}, {"report", w.mixed, "--format", "html"}} {
				if r := c.remit(args...); !strings.Contains(r.out, "not verified") {
					t.Errorf("remit %s says nothing:\n%s%s", strings.Join(args, " "), r.out, r.err)
				}
			}
			if r := c.remit("runs", "--all"); !strings.Contains(r.out, "remit verify lists the changes") {
				t.Errorf("remit runs does not say what \"not verified\" means:\n%s", r.out)
			}
			if got := c.parse(c.must(0, "show", w.mixed, "--json")).Status; got != status {
				t.Errorf("status %s, want %s", got, status)
			}
			if r := c.remit("runs", "--all", "--json"); !strings.Contains(r.out, `"unverified": true`) {
				t.Errorf("runs --json: %s", r.out)
			}
		})
	}
	if r := w.remit("report", w.mixed); !strings.Contains(r.out, "record verified up to event") || !strings.Contains(r.out, "signed up to event") || strings.Contains(r.out, "not verified") {
		t.Errorf("the report of a good record: %s", r.out)
	}
}
