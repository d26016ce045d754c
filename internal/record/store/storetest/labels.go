package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// Labels checks a store against the contract of store.Labels.
func Labels(t *testing.T, open OpenStore) {
	t.Helper()
	for name, run := range map[string]func(t *testing.T, open OpenStore){
		"labels are added, kept and cleared": labelsKept,
		"a list has an order and pages":      labelsListed,
		"what makes no sense is refused":     labelsRefused,
	} {
		t.Run(name, func(t *testing.T) { run(t, open) })
	}
}

func openLabels(t *testing.T, open OpenStore, home string) (store.Store, store.Labels) {
	t.Helper()
	s := open(t, home)
	l, ok := s.(store.Labels)
	if !ok {
		t.Fatalf("%T keeps no labels", s)
	}
	return s, l
}

// labelling is the entry that gives labels, or takes them where there are none.
func labelling(run ledger.Seq, call int, changes ...ledger.FileLabel) ledger.Entry {
	doc, _ := json.Marshal(ledger.FileLabels{Changes: changes}) // such a value can always be encoded
	e := ledger.Event{Kind: ledger.FilesLabelled, At: base + int64(call), Run: run, Call: uint32(call)}
	if run == 0 {
		e.Principal = "user:suite"
	}
	return ledger.Entry{Event: e, Payload: ledger.Payload{ledger.PartDoc: doc}}
}

func labelsKept(t *testing.T, open OpenStore) {
	ctx, home := context.Background(), t.TempDir()
	s, l := openLabels(t, open, home)
	run, _ := start(t, s, nil)
	a, b, sum := ledger.PathKey("/w/a"), ledger.PathKey("/w/b"), ledger.ContentKey("3", "abc")
	first := put(t, s, intent(run, 1), labelling(run, 1, ledger.FileLabel{File: a, Labels: []string{"web"}}, ledger.FileLabel{File: sum, Labels: []string{"web"}}))
	put(t, s, outcome(run, 1, tool.Completed), labelling(run, 1, ledger.FileLabel{File: a, Labels: []string{"private", "web"}}))
	keys := []ledger.LabelKey{a, b, sum, "path:/w/A"}
	check := func(want ...[]string) {
		t.Helper()
		got, err := l.LabelsOf(ctx, []string{"web", "other", "private"}, keys)
		if err != nil || !cmp.Equal(got, want) {
			t.Errorf("labels %q, %v; want %q", got, err, want)
		}
	}
	check([]string{"web", "private"}, nil, []string{"web"}, nil)
	list, err := l.Labelled(ctx, store.LabelFilter{Label: "web", Prefix: "path:"})
	if want := []store.LabelRecord{{Label: "web", Key: a, Run: run, Call: 1, Since: ledger.Time(base + 1), Seq: first + 1}}; err != nil || !cmp.Equal(list, want) {
		t.Errorf("list %+v, %v; want %+v", list, err, want)
	}
	put(t, s, labelling(0, 0, ledger.FileLabel{File: a, Clear: true}, ledger.FileLabel{File: b, Clear: true}))
	check(nil, nil, []string{"web"}, nil)
	put(t, s, labelling(run, 0, ledger.FileLabel{File: b, Labels: []string{"web"}}, ledger.FileLabel{File: b, Clear: true}, ledger.FileLabel{File: b, Labels: []string{"private"}}))
	check(nil, []string{"private"}, []string{"web"}, nil)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, l = openLabels(t, open, home)
	check(nil, []string{"private"}, []string{"web"}, nil)
	if rep, err := s.Verify(ctx, store.VerifyOptions{Remember: true}); err != nil || !rep.OK {
		t.Errorf("verification %+v, %v", rep, err)
	}
	// Of events that are not read again, their labels are known to be there, or not.
	put(t, s, labelling(0, 0, ledger.FileLabel{File: sum, Clear: true}))
	put(t, s, labelling(0, 0, ledger.FileLabel{File: b, Labels: []string{"private", "web"}}, ledger.FileLabel{File: a, Labels: []string{"web"}}))
	check([]string{"web"}, []string{"web", "private"}, nil, nil)
	for _, o := range []store.VerifyOptions{{SinceLast: true}, {}} {
		if rep, err := s.Verify(ctx, o); err != nil || !rep.OK {
			t.Errorf("verification %+v: %+v, %v", o, rep, err)
		}
	}
}

func labelsListed(t *testing.T, open OpenStore) {
	ctx := context.Background()
	s, l := openLabels(t, open, t.TempDir())
	var changes []ledger.FileLabel
	for _, p := range []string{"/w/b", "/w/a", "/w", "/x", "/w/é", "/w/a/c", "/wa"} {
		changes = append(changes, ledger.FileLabel{File: ledger.PathKey(p), Labels: []string{"web"}})
	}
	changes = append(changes, ledger.FileLabel{File: ledger.PathKey("/w/a"), Labels: []string{"mail"}}, ledger.FileLabel{File: ledger.FolderKey("1.2", "/w"), Labels: []string{"web"}})
	put(t, s, labelling(0, 0, changes...))
	var got []string
	for f := (store.LabelFilter{Prefix: "path:/w/", Limit: 2}); ; {
		page, err := l.Labelled(ctx, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page {
			got = append(got, r.Label+" "+r.Key.Path())
			f.After = store.LabelPlace{Label: r.Label, Key: r.Key}
		}
		if len(page) < f.Limit {
			break
		}
	}
	if want := []string{"mail /w/a", "web /w/a", "web /w/a/c", "web /w/b", "web /w/é"}; !slices.Equal(got, want) {
		t.Errorf("pages %q, want %q", got, want)
	}
	if all, err := l.Labelled(ctx, store.LabelFilter{}); err != nil || len(all) != 9 || !all[1].Key.Folder() || all[1].Key.Path() != "/w" {
		t.Errorf("all %+v, %v", all, err)
	}
}

func labelsRefused(t *testing.T, open OpenStore) {
	ctx := context.Background()
	s, l := openLabels(t, open, t.TempDir())
	for _, c := range []ledger.FileLabel{
		{File: "path:relative", Labels: []string{"web"}}, {File: "/w/a", Labels: []string{"web"}}, {File: ledger.PathKey("/w/a")},
		{File: ledger.PathKey("/w/a"), Labels: []string{"web"}, Clear: true}, {File: ledger.PathKey("/\xff"), Labels: []string{"web"}},
	} {
		e := labelling(0, 0, c)
		if c.File == ledger.PathKey("/\xff") {
			e.Payload[ledger.PartDoc] = []byte("no JSON")
		}
		if _, err := s.Append(ctx, e); !errors.Is(err, fault.Internal) {
			t.Errorf("%+v: %v, want %v", c, err, fault.Internal)
		}
	}
	if all, err := l.Labelled(ctx, store.LabelFilter{}); err != nil || len(all) > 0 {
		t.Errorf("afterwards there are %+v, %v", all, err)
	}
}
