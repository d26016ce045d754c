package uitest

import (
	"context"
	"path/filepath"

	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/queue"
	"github.com/remitrun/remit/internal/service/runs"
)

// call is a call that an agent makes.
type call struct {
	tool string
	args map[string]any
}

// write is a call that writes a file.
func write(path, content string) call {
	return call{"fs.write", map[string]any{"path": path, "content": content}}
}

// begin starts a run of an agent. With wait its calls wait for answers.
func (s *service) begin(name string, wait bool) *runs.Session {
	s.t.Helper()
	dir, err := home.Workspace(s.dir)
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := s.app.Runs.Begin(context.Background(), runs.Request{Name: name, Workspace: dir, Policy: filepath.Join(s.dir, "policy.yaml"), Wait: wait})
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// agent makes calls in a run that ends, and gives the run's ID.
func (s *service) agent(name string, calls ...call) string {
	s.t.Helper()
	r := s.begin(name, false)
	for _, c := range calls {
		if _, err := r.Call(context.Background(), runner.Call{Tool: tool.ID(c.tool), Args: c.args}); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := r.End(context.Background()); err != nil {
		s.t.Fatal(err)
	}
	return r.Run.ID.String()
}

// queued queues a run of a plan that starts later, and gives its ID.
func (s *service) queued(plan string, o queue.Options) string {
	s.t.Helper()
	dir, err := home.Workspace(s.dir)
	if err != nil {
		s.t.Fatal(err)
	}
	r := runs.Request{Workspace: dir, Policy: filepath.Join(s.dir, "policy.yaml")}
	if err := s.app.Runs.Read(&r, plan, nil, nil); err != nil {
		s.t.Fatal(err)
	}
	run, _, err := s.app.Queue.Add(context.Background(), r, o)
	if err != nil {
		s.t.Fatal(err)
	}
	return run.ID.String()
}

// waiting gives the questions that wait, newest first.
func (s *service) waiting() []store.Approval {
	s.t.Helper()
	list, err := s.app.Approvals.List(context.Background(), store.QuestionFilter{State: store.Waiting})
	if err != nil {
		s.t.Fatal(err)
	}
	return list
}

// question puts a question with a call, and gives its ID.
func (s *service) question(c call) string {
	s.t.Helper()
	s.agent("release notes", c)
	return s.waiting()[0].ID.String()
}
