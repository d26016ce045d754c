package httpapi

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/history"
	"github.com/remitrun/remit/internal/service/replays"
)

// Runs has the recorded runs.
type Runs interface {
	// Runs lists runs, newest first, before a position (0: from the newest on). It reports false
	// if some rows of the list of runs were not compared with the events.
	Runs(ctx context.Context, q RunQuery, before uint64, limit int) (runs []ledger.Run, checked bool, err error)
	Run(ctx context.Context, id string) (ledger.Run, error) // fault.RunUnknown
	// Calls gives calls as JSON, in the order of their index, from the one with this index on.
	Calls(ctx context.Context, id string, from, limit int) ([]json.RawMessage, error)
	Pictures(ctx context.Context, id string, index int) ([]history.Picture, error)
	// Report writes a report in a format: json, html or text.
	Report(ctx context.Context, id, format string, w io.Writer) error
	Verify(ctx context.Context, id string) (store.VerifyReport, error)
	// Replay carries out a run again from its record.
	Replay(ctx context.Context, id string) (Replayed, error)
	// ReplaySession carries out a session's runs again from their record.
	ReplaySession(ctx context.Context, id string) (replays.SessionSummary, error)
	// CollectPlan makes a plan of a run's calls, without secrets.
	CollectPlan(ctx context.Context, id string) (CollectedPlan, error)
	// Freeze makes a frozen plan.
	Freeze(ctx context.Context, plan string, inputs map[string]json.RawMessage) (json.RawMessage, error)
	// Start carries out a plan under the caller's grant until the run ends or ctx does. It
	// calls started when the run is recorded. An error before that means that there is no run.
	Start(ctx context.Context, who *Caller, q NewRun, started func(id string)) error
	// Open opens a run without a plan, to which [Tools].Invoke adds calls. It calls over when the
	// run has ended; not if it fails.
	Open(ctx context.Context, who *Caller, q NewRun, onEnd func()) (id string, err error)
	// End ends an open run: once its calls have ended, or with cancel at once. It returns false for a
	// run that is not open in this process.
	End(ctx context.Context, id uuid.UUID, cancel bool) (open bool, err error)
}

// RunQuery selects runs.
type RunQuery struct {
	Status string    `query:"status" enum:"running,completed,denied,failed,timeout,cancelled,interrupted"`
	Mode   string    `query:"mode" enum:"run,replay"`
	Tool   string    `query:"tool" maxLength:"200" doc:"Only runs with a call of this tool"`
	Failed bool      `query:"failed" doc:"Only runs with a failed call"`
	Denied bool      `query:"denied" doc:"Only runs with a denied call"`
	Since  time.Time `query:"since" doc:"Not older than this"`
	Until  time.Time `query:"until" doc:"Not newer than this"`
}

// RunList is a page of runs, newest first.
type RunList struct {
	Items      []ledger.Run `json:"items"`
	Next       string       `json:"next,omitempty"`
	Unverified bool         `json:"unverified,omitempty" doc:"Some rows of the list of runs were not compared with the events, so an edited row may hide a run. remit verify compares them all"`
}

// CallList is a page of a run's calls.
type CallList struct {
	Items []json.RawMessage `json:"items"`
	Next  string            `json:"next,omitempty"`
}

var exampleRun = map[string]any{"run_id": sampleSession, "name": "api", "mode": "run", "status": "completed", "principal": "user:ann", "workspace": "/home/ann/project",
	"started_at": "2026-11-21T12:00:00Z", "total": 1, "completed": 1, "denied": 0, "failed": 0, "refused": 0}

// RunPath has the ID of a run.
type RunPath struct {
	ID string `path:"run_id" maxLength:"100" example:"019a1fe7-0b1c-7a52-9e55-7e0f3a1c2b44"`
}

type runIn struct {
	asked
	RunPath
}

// run finds a run that the caller may use.
func (s *Server) run(ctx context.Context, in *asked, id string) (ledger.Run, error) {
	return reachable(ctx, fault.RunUnknown, "run", id, s.o.Runs.Run, func(r ledger.Run) (bool, error) { return s.reachesRun(ctx, in, r.ID.String()) })
}

func (s *Server) reachesRun(ctx context.Context, in *asked, id string) (bool, error) {
	return in.reaches(func() ([]string, error) { return s.o.Lineage.OfRun(ctx, id) })
}

func (s *Server) runs() {
	if s.o.Runs == nil {
		return
	}
	s.listRuns()
	route(s, operation{
		id: "getRun", method: http.MethodGet, path: "/v1/runs/{run_id}", tag: "runs", action: "runs.read", summary: "Get a run", errors: []int{404}, answer: exampleRun,
	}, func(ctx context.Context, in *runIn) (*struct{ Body ledger.Run }, error) {
		r, err := s.run(ctx, &in.asked, in.ID)
		return &struct{ Body ledger.Run }{r}, err
	})
	type calls struct {
		asked
		RunPath
		Page
		From int `query:"from" minimum:"1" maximum:"2147483647" default:"1" doc:"Index of the first call; not with a cursor"`
	}
	route(s, operation{
		id: "listCalls", method: http.MethodGet, path: "/v1/runs/{run_id}/calls", tag: "runs", action: "runs.read", summary: "List a run's calls",
		text: "In order, each with its arguments, decision and output, without the values of secrets.", errors: []int{404},
		answer: map[string]any{"items": []any{map[string]any{"index": 1, "tool": "time.now", "status": "completed"}}},
	}, func(ctx context.Context, in *calls) (*struct{ Body CallList }, error) {
		if _, err := s.run(ctx, &in.asked, in.ID); err != nil {
			return nil, err
		}
		from, err := in.number("calls")
		if err != nil {
			return nil, err
		}
		all, err := s.o.Runs.Calls(ctx, in.ID, max(in.From, int(from)), in.Limit+1)
		out := CallList{Items: []json.RawMessage{}}
		if len(all) > in.Limit {
			var next struct {
				Index int `json:"index"`
			}
			if err := json.Unmarshal(all[in.Limit], &next); err != nil {
				return nil, err
			}
			all, out.Next = all[:in.Limit], cursor("calls", strconv.Itoa(next.Index))
		}
		out.Items = append(out.Items, all...)
		return &struct{ Body CallList }{out}, err
	})
	s.getCall()
	s.pictures()
	s.startRuns()
	s.plans()
	s.tellRuns()
	s.replay()
}

func (s *Server) getCall() {
	type one struct {
		asked
		RunPath
		Index int `path:"index" minimum:"1" maximum:"2147483647" example:"1"`
	}
	route(s, operation{
		id: "getCall", method: http.MethodGet, path: "/v1/runs/{run_id}/calls/{index}", tag: "runs", action: "runs.read", summary: "Get one call of a run",
		text: "With its arguments, decision and output, without the values of secrets.", errors: []int{404}, answer: map[string]any{"index": 1, "tool": "time.now", "status": "completed"},
	}, func(ctx context.Context, in *one) (*struct{ Body json.RawMessage }, error) {
		if _, err := s.run(ctx, &in.asked, in.ID); err != nil {
			return nil, err
		}
		list, err := s.o.Runs.Calls(ctx, in.ID, in.Index, 1)
		if err == nil && len(list) == 0 {
			err = fault.New(fault.NotFound, "the run has no call %d", in.Index)
		}
		if err != nil {
			return nil, err
		}
		return &struct{ Body json.RawMessage }{list[0]}, nil
	})
}

// PictureList has the pictures in a call's output.
type PictureList struct {
	Items []PictureInfo `json:"items"`
}

// PictureInfo describes a picture.
type PictureInfo struct {
	Number int    `json:"number" doc:"From 1"`
	Name   string `json:"name,omitempty" doc:"Of its file, if it has one"`
	Bytes  int    `json:"bytes"`
}

// CallPath names a call of a run.
type CallPath struct {
	RunPath
	Index int `path:"index" minimum:"1" maximum:"2147483647" example:"1"`
}

func (s *Server) pictures() {
	type list struct {
		asked
		CallPath
	}
	route(s, operation{
		id: "listPictures", method: http.MethodGet, path: "/v1/runs/{run_id}/calls/{index}/pictures", tag: "runs", action: "runs.read", summary: "List the pictures of a call",
		text: "The pictures in its output, as a screenshot of a page or a plot of a program.", errors: []int{404}, answer: map[string]any{"items": []any{map[string]any{"number": 1, "name": "/plot.png", "bytes": 20481}}},
	}, func(ctx context.Context, in *list) (*struct{ Body PictureList }, error) {
		all, err := s.picturesOf(ctx, &in.asked, in.CallPath)
		out := PictureList{Items: []PictureInfo{}}
		for i, p := range all {
			out.Items = append(out.Items, PictureInfo{i + 1, p.Name, len(p.PNG)})
		}
		return &struct{ Body PictureList }{out}, err
	})
	type one struct {
		asked
		CallPath
		Number int `path:"number" minimum:"1" maximum:"1000" example:"1"`
	}
	route(s, operation{
		id: "getPicture", method: http.MethodGet, path: "/v1/runs/{run_id}/calls/{index}/pictures/{number}", tag: "runs", action: "runs.read", summary: "Get a picture of a call",
		text: "A PNG, as the call recorded it.", errors: []int{404}, more: map[int]reply{200: {text: "The picture", kind: "image/png"}},
	}, func(ctx context.Context, in *one) (*Streamed, error) {
		all, err := s.picturesOf(ctx, &in.asked, in.CallPath)
		if err == nil && in.Number > len(all) {
			err = fault.New(fault.NotFound, "the call has no picture %d", in.Number)
		}
		if err != nil {
			return nil, err
		}
		return &Streamed{func(huma.Context) {
			in.x.Header().Set("Content-Type", "image/png")
			in.x.Header().Set("Content-Disposition", "attachment; filename=picture.png")
			in.x.WriteHeader(http.StatusOK)
			_, _ = in.x.Write(all[in.Number-1].PNG) // the client may have gone
		}}, nil
	})
}

func (s *Server) picturesOf(ctx context.Context, in *asked, of CallPath) ([]history.Picture, error) {
	if _, err := s.run(ctx, in, of.ID); err != nil {
		return nil, err
	}
	return s.o.Runs.Pictures(ctx, of.ID, of.Index)
}

func (s *Server) listRuns() {
	type list struct {
		asked
		RunQuery
		Page
	}
	route(s, operation{
		id: "listRuns", method: http.MethodGet, path: "/v1/runs", tag: "runs", action: "runs.read", summary: "List runs",
		text: "Newest first: under the caller's grant, or under those that derive from it.", answer: map[string]any{"items": []any{exampleRun}},
	}, func(ctx context.Context, in *list) (*struct{ Body RunList }, error) {
		at, err := in.number("runs")
		if err != nil {
			return nil, err
		}
		out := RunList{Items: []ledger.Run{}}
		for scanned := 0; ; {
			all, checked, err := s.o.Runs.Runs(ctx, in.RunQuery, at, in.Limit+1)
			if err != nil {
				return nil, err
			}
			out.Unverified = out.Unverified || !checked
			for _, r := range all {
				if len(out.Items) == in.Limit || scanned >= maxScan {
					out.Next = cursor("runs", strconv.FormatUint(at, 10))
					return &struct{ Body RunList }{out}, nil
				}
				ok, err := s.reachesRun(ctx, &in.asked, r.ID.String())
				if err != nil {
					return nil, err
				}
				if ok {
					out.Items = append(out.Items, r)
				}
				at = uint64(r.Seq)
				scanned++
			}
			if len(all) <= in.Limit {
				return &struct{ Body RunList }{out}, nil
			}
		}
	})
}

func (s *Server) tellRuns() {
	type report struct {
		asked
		RunPath
		Format string `query:"format" enum:"json,html,text" default:"json"`
	}
	kinds := map[string]string{"json": "application/json", "html": "text/html; charset=utf-8", "text": "text/plain; charset=utf-8"}
	route(s, operation{
		id: "reportRun", method: http.MethodGet, path: "/v1/runs/{run_id}/report", tag: "runs", action: "runs.read", summary: "Get a report on a run",
		text: "The calls of the run, also refused ones, without the values of secrets.", errors: []int{404}, more: map[int]reply{200: {text: "The report"}},
	}, func(ctx context.Context, in *report) (*Streamed, error) {
		if _, err := s.run(ctx, &in.asked, in.ID); err != nil {
			return nil, err
		}
		pr, pw := io.Pipe()
		go func() { _ = pw.CloseWithError(s.o.Runs.Report(ctx, in.ID, in.Format, pw)) }() // ends with the reader
		head := make([]byte, 1)
		if _, err := io.ReadFull(pr, head); err != nil { // an error before the first byte is a response of its own
			return nil, err
		}
		return &Streamed{func(huma.Context) {
			defer func() { _ = pr.Close() }()
			in.x.Header().Set("Content-Type", kinds[in.Format])
			if in.Format == "html" {
				in.x.Header().Set("Content-Disposition", `attachment; filename="report.html"`)
			}
			in.x.WriteHeader(http.StatusOK)
			_, _ = in.x.Write(head) // the client may have gone
			if _, err := io.Copy(in.x, pr); err != nil {
				panic(http.ErrAbortHandler) // so that the client sees that the report is incomplete
			}
		}}, nil
	})
	route(s, operation{
		id: "verifyRun", method: http.MethodGet, path: "/v1/runs/{run_id}/verify", tag: "runs", action: "runs.read", summary: "Verify a run",
		text: "Recomputes the run's part of the log.", errors: []int{404},
		answer: map[string]any{"ok": true, "events": 3, "blobs": 0, "runs": 1, "size": 120, "root": "…", "signed": 120, "erased": 0, "problems": []any{}},
	}, func(ctx context.Context, in *runIn) (*struct{ Body store.VerifyReport }, error) {
		if _, err := s.run(ctx, &in.asked, in.ID); err != nil {
			return nil, err
		}
		v, err := s.o.Runs.Verify(ctx, in.ID)
		return &struct{ Body store.VerifyReport }{v}, err
	})
}
