package webui

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/remitrun/remit/internal/doors/httpapi"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/report"
)

// callLine is a call in a list.
type callLine struct {
	report.Step
	Path  string  // of its page
	After float64 // milliseconds since the run began
}

func newCallLine(run string, began time.Time, s report.Step) callLine {
	return callLine{s, "/ui/runs/" + run + "/calls/" + strconv.Itoa(s.Index), float64(s.StartedAt.Sub(began).Microseconds()) / 1000}
}

// About is the most telling argument of the call.
func (c callLine) About() string { return report.About(c.Args.JSON) }

// timeline is a picture of calls over time.
type timeline struct {
	Bars   []bar
	Height int
	Ends   float64 // milliseconds of its whole width
	Whole  bool    // it shows all calls of the run
}

// bar is a call in the picture. Lengths are out of 1000 wide.
type bar struct {
	X, W  string
	Y     int
	Class string
	Label string
	Path  string
}

const (
	barPitch = 9  // from one bar's top to the next one's
	maxBars  = 60 // calls in the picture
)

// newTimeline draws calls over a run that lasts so many milliseconds.
func newTimeline(calls []callLine, lasts float64, whole bool) timeline {
	t := timeline{Ends: lasts, Whole: whole && len(calls) <= maxBars}
	from := 0.0
	if len(calls) > 0 && !whole {
		from = calls[0].After
	}
	calls = calls[:min(len(calls), maxBars)]
	for _, c := range calls {
		t.Ends = max(t.Ends, c.After+c.DurationMS)
	}
	if !whole && len(calls) > 0 {
		last := calls[len(calls)-1]
		t.Ends = last.After + last.DurationMS
	}
	width := max(t.Ends-from, 0.001)
	for i, c := range calls {
		x := min(max((c.After-from)/width*1000, 0), 995)
		w := min(max(c.DurationMS/width*1000, 5), 1000-x)
		t.Bars = append(t.Bars, bar{
			X: fmt.Sprintf("%.1f", x), W: fmt.Sprintf("%.1f", w), Y: i * barPitch, Class: "bar-" + barClass(c.Status), Path: c.Path,
			Label: fmt.Sprintf("%d %s, %s, %s", c.Index, c.Tool, wordOf(c.Status), spanOf(c.DurationMS)),
		})
	}
	t.Height = max(len(calls), 1) * barPitch
	return t
}

// barClass is a status as the class of a bar.
func barClass(status string) string {
	switch status {
	case "completed", "denied", "skipped":
		return status
	case "pending", "running":
		return "running"
	case "cancelled", "interrupted":
		return "odd"
	}
	return "failed"
}

// callView is one call with everything that is recorded of it.
type callView struct {
	Run      runLine
	Call     callLine
	Args     []value
	Output   []value
	Pictures []pictureView
	Phases   []phase
	Chain    []chainLink // where its authority comes from
	Tree     callTree
	Previous string // path; "": it is the first
	Next     string
}

// pictureView is a picture in the call's output.
type pictureView struct {
	Name  string
	Bytes int
	Path  string
}

// picture serves a picture of a call's output. It is a PNG by its bytes, and the browser is told
// to take it for nothing else.
func (s *Server) picture(x *exchange) {
	var b buffer
	err := x.api.serve(&b, http.MethodGet, x.runPath()+"/calls/"+url.PathEscape(x.r.PathValue("index"))+"/pictures/"+url.PathEscape(x.r.PathValue("number")), nil, nil, nil)
	if err == nil && b.status >= http.StatusBadRequest {
		err = b.problem()
	}
	if err != nil {
		s.refused(x, err)
		return
	}
	h := x.w.Header()
	h.Set("Content-Type", "image/png")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("Content-Length", strconv.Itoa(b.body.Len()))
	_, _ = x.w.Write(b.body.Bytes()) // the browser may have gone
}

// phase is the time that a call spent in one state.
type phase struct {
	Name  string
	X, W  string // out of 1000
	Class string
	MS    float64
}

func (s *Server) call(x *exchange) (*page, error) {
	var run ledger.Run
	if err := x.api.get(x.runPath(), nil, &run); err != nil {
		return nil, err
	}
	var step report.Step
	if err := x.api.get(x.runPath()+"/calls/"+url.PathEscape(x.r.PathValue("index")), nil, &step); err != nil {
		return nil, err
	}
	id := run.ID.String()
	v := callView{Run: runLine{run, x.now}, Call: newCallLine(id, run.Started, step), Args: valuesOf(step.Args.JSON), Output: valuesOf(step.Output.JSON), Phases: phasesOf(step.Timeline), Chain: x.chainOf(run, step)}
	var list httpapi.PictureList
	if err := x.api.get(x.runPath()+"/calls/"+strconv.Itoa(step.Index)+"/pictures", nil, &list); err == nil { // the page is right without them
		for _, p := range list.Items {
			v.Pictures = append(v.Pictures, pictureView{p.Name, p.Bytes, v.Call.Path + "/pictures/" + strconv.Itoa(p.Number)})
		}
	}
	if len(v.Pictures) > 0 {
		v.Output = slices.DeleteFunc(v.Output, func(o value) bool { return o.Name == "content_base64" || o.Name == "images" })
	}
	var err error
	if v.Tree, err = x.treeOf(run, step.Index); err != nil {
		return nil, err
	}
	if step.Index > 1 {
		v.Previous = "/ui/runs/" + id + "/calls/" + strconv.Itoa(step.Index-1)
	}
	if step.Index < run.Total {
		v.Next = "/ui/runs/" + id + "/calls/" + strconv.Itoa(step.Index+1)
	}
	topics := []string{}
	if run.Status == ledger.Running {
		topics = append(topics, "run:"+id)
	}
	return &page{Title: "Call " + strconv.Itoa(step.Index) + " " + step.Tool, Nav: "Runs", Topics: topics, Body: v}, nil
}

// phasesOf gives the time between each two states of a call that ended.
func phasesOf(t report.Timeline) []phase {
	marks := []struct {
		at   *float64
		name string
	}{{t.Created, "received"}, {t.Validating, "decided"}, {t.Executing, "executed"}, {t.Processing, "processed"}, {t.Logging, "recorded"}, {t.Ended, ""}}
	if t.Ended == nil || *t.Ended <= 0 {
		return nil
	}
	var out []phase
	for i, m := range marks[:len(marks)-1] {
		if m.at == nil {
			continue
		}
		next := *t.Ended
		for _, later := range marks[i+1:] {
			if later.at != nil {
				next = *later.at
				break
			}
		}
		if next > *m.at {
			out = append(out, phase{m.name, thousandth(*m.at, *t.Ended), thousandth(next-*m.at, *t.Ended), "phase-" + m.name, next - *m.at})
		}
	}
	return out
}

func thousandth(part, whole float64) string { return fmt.Sprintf("%.1f", part/whole*1000) }
