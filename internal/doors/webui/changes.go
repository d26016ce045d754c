package webui

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/base/diff"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/doors/httpapi"
	"github.com/remitrun/remit/internal/record/ledger"
	held "github.com/remitrun/remit/internal/service/changes"
)

// heldLine is a changeset in a list.
type heldLine struct {
	held.Held
	Now time.Time
}

// heldView lists changesets.
type heldView struct {
	Items []heldLine
	Next  string
}

// listHeld lists changesets.
func (x *exchange) listHeld(query url.Values) ([]heldLine, string, error) {
	var list httpapi.ChangesetList
	if err := x.api.get("/v1/changes", query, &list); err != nil {
		return nil, "", err
	}
	out := make([]heldLine, len(list.Items))
	for i, c := range list.Items {
		out[i] = heldLine{c, x.now}
	}
	return out, list.Next, nil
}

func (s *Server) changesets(x *exchange) (*page, error) {
	query := url.Values{"limit": {"100"}}
	if c := x.r.URL.Query().Get("cursor"); c != "" {
		query.Set("cursor", c)
	}
	var v heldView
	var err error
	if v.Items, v.Next, err = x.listHeld(query); err != nil {
		return nil, err
	}
	if v.Next != "" {
		v.Next = pathWith("/ui/changes", url.Values{"cursor": {v.Next}})
	}
	return &page{Title: "Held changes", Nav: "Runs", Topics: []string{"runs"}, Body: v}, nil
}

// changeLine is one change as it is shown.
type changeLine struct {
	held.DescribedChange
	Lines []diffLine
}

// File reports whether the change can be chosen by itself. A folder is made for its files.
func (c changeLine) File() bool { return c.Open() && c.From.Type != "folder" && c.To.Type != "folder" }

// Open reports whether the change can be applied.
func (c changeLine) Open() bool { return c.Refused == "" && c.Conflict == "" }

// Size is the file's new size, or its former one where it is deleted.
func (c changeLine) Size() int {
	if c.Kind == "deleted" {
		return int(c.From.Size)
	}
	return int(c.To.Size)
}

// changesView is what one run holds, or wrote.
type changesView struct {
	Run     runLine
	Set     *httpapi.Changeset // nil: the run held nothing
	Changes []changeLine
	More    int // changes that are not shown
	Calls   []heldCall
	Open    int    // shown changes that can be applied
	Ask     bool   // whether to discard
	Done    string // the finished action
	Alert   *httpapi.Problem
}

// Waits reports whether a person has to decide.
func (v changesView) Waits() bool { return v.Set != nil && v.Set.State == "review" }

// Undoable reports whether an undo can put something back.
func (v changesView) Undoable() bool {
	return v.Run.Status != ledger.Running && (v.Set == nil || v.Set.State == "applied")
}

// heldCall is a held call as it is shown.
type heldCall struct {
	held.HeldCall
	Values []value
}

// Begun reports whether a person must decide about a call that was begun and did not complete.
func (c heldCall) Begun() bool { return c.State == held.CallFailed || c.State == held.CallUnknown }

// Waiting reports whether a held call waits.
func (v changesView) Waiting() bool {
	return slices.ContainsFunc(v.Calls, func(c heldCall) bool { return c.State == held.CallWaits || c.Begun() })
}

// maxChanges is how many changes are shown.
const maxChanges = 200

// changesPath is the path of the run's changes in the API.
func (x *exchange) changesPath() string {
	return "/v1/changes/" + url.PathEscape(x.r.PathValue("id"))
}

func (s *Server) changes(x *exchange) (*page, error) {
	return s.changesPage(x, changesView{Ask: x.r.URL.Query().Get("ask") == "discard"})
}

func (s *Server) changesPage(x *exchange, v changesView) (*page, error) {
	if err := x.api.get(x.runPath(), nil, &v.Run.Run); err != nil {
		return nil, err
	}
	v.Run.Now = x.now
	var set httpapi.Changeset
	err := x.api.get(x.changesPath(), url.Values{"diff": {"true"}}, &set)
	p := (*httpapi.Problem)(nil)
	switch {
	case err == nil:
		v.Set = &set
	case errors.As(err, &p) && p.Status == http.StatusConflict && v.Alert == nil:
		v.Alert = p // the run goes on
	case errors.As(err, &p) && (p.Status == http.StatusNotFound || p.Status == http.StatusConflict):
	default:
		return nil, err
	}
	v.More = max(0, len(set.Changes)-maxChanges)
	for _, c := range set.Changes[:len(set.Changes)-v.More] {
		line := changeLine{c, rowsOf(c.Hunks, c.Diff)}
		if line.Open() {
			v.Open++
		}
		v.Changes = append(v.Changes, line)
	}
	for _, c := range set.Calls {
		v.Calls = append(v.Calls, heldCall{c, valuesOf(c.Args)})
	}
	out := &page{Title: "Changes of " + v.Run.Title(), Nav: "Runs", Topics: []string{"run:" + v.Run.ID.String()}, Still: v.Ask || v.Done != "" || v.Alert != nil, Body: v}
	if v.Alert != nil && v.Alert.Status != http.StatusConflict || v.Alert != nil && x.r.Method == http.MethodPost {
		out.Status = v.Alert.Status
	}
	return out, nil
}

// rowsOf shows hunks. Without them, it shows the lines of the text as they are: no line is left out
// because of how it looks.
func rowsOf(hunks []diff.Hunk, text string) []diffLine {
	var out []diffLine
	if len(hunks) == 0 {
		for line := range strings.Lines(text) {
			out = append(out, diffLine{"@", strings.TrimSuffix(line, "\n")})
		}
		return out
	}
	for _, h := range hunks {
		out = append(out, diffLine{"@", h.Head()})
		for _, l := range h.Lines {
			out = append(out, diffLine{l.Sign(), l.Text})
			if l.NoEnd {
				out = append(out, diffLine{"@", diff.NoEnd})
			}
		}
	}
	return out
}

// setChanges applies, discards or undoes what a run wrote.
func (s *Server) setChanges(x *exchange) (string, *page, error) {
	form := x.r.PostForm
	here := "/ui/changes/" + url.PathEscape(x.r.PathValue("id"))
	verb := form.Get("do")
	var in any
	switch verb {
	case "apply":
		body, err := applied(form)
		if err != nil {
			return "", nil, err
		}
		in = body
	case "discard", "undo":
		in = nil
	default:
		return "", nil, fault.New(fault.Usage, "the form names no action for the changes").WithHint("choose one of its buttons")
	}
	var undone held.Undone
	out := any(nil)
	if verb == "undo" {
		in, out = map[string]any{}, &undone
	}
	err := x.api.post(x.changesPath()+"/"+verb, in, out)
	if p := (*httpapi.Problem)(nil); errors.As(err, &p) && p.Status != http.StatusUnauthorized {
		shown, perr := s.changesPage(x, changesView{Alert: p})
		return "", shown, perr
	}
	if err != nil || verb != "undo" {
		return here, nil, err
	}
	shown, err := s.changesPage(x, changesView{Done: count(len(undone.Restored), "path") + " restored"})
	return "", shown, err
}

// applied reads the changes that a person chose. If all were chosen, it returns no list: a list
// would lack empty folders.
func applied(form url.Values) (map[string]any, error) {
	digest, chosen, files := form.Get("digest"), form["path"], form["file"]
	if digest == "" {
		return nil, fault.New(fault.Usage, "the form does not say which changes were shown").WithHint("open the changes again")
	}
	in := map[string]any{"digest": digest}
	for _, word := range []string{"again", "skip"} {
		var numbers []int
		for _, text := range form[word] {
			n, err := strconv.Atoi(text)
			if err != nil {
				return nil, fault.New(fault.Usage, "%q is not a valid number of a held call", text)
			}
			numbers = append(numbers, n)
		}
		if len(numbers) > 0 {
			in[word] = numbers
		}
	}
	if len(chosen) == 0 && len(files) > 0 {
		return nil, fault.New(fault.Usage, "no change was chosen").WithHint("choose at least one, or discard them all")
	}
	if form.Get("more") != "" || slices.ContainsFunc(files, func(f string) bool { return !slices.Contains(chosen, f) }) {
		in["paths"] = chosen
	}
	return in, nil
}
