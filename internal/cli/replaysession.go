package cli

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/policies"
	"github.com/remitrun/remit/internal/service/replays"
)

// isSession reports whether an ID belongs to a session. An unknown ID is reported
// later, as an unknown run.
func (s *session) isSession(cmd *cobra.Command, a *app.App, id string) (bool, error) {
	_, _, err := a.Replays.SessionRuns(cmd.Context(), id)
	if errors.Is(err, fault.SessionUnknown) {
		return false, nil
	}
	return err == nil, err
}

func (s *session) replaySession(cmd *cobra.Command, a *app.App, id, policyFile, from string) error {
	switch {
	case from != "":
		if run, call, ok := strings.Cut(from, "/"); ok {
			of, err := s.runID(cmd.Context(), run)
			if err != nil {
				return err
			}
			from = of + "/" + call
		}
		return s.continueFrom(cmd, a, id, from, policyFile)
	case policyFile != "":
		return s.rejudgeSession(cmd, a, id, policyFile)
	}
	busy := s.startActivity("replaying the session")
	res, err := a.Replays.Session(cmd.Context(), id, nil)
	busy.stop()
	if err != nil {
		return err
	}
	found := res.Summary()
	if s.json {
		if err := s.printJSON(found); err != nil {
			return err
		}
	}
	if found.Mismatch != nil {
		return s.differs(found.Mismatch.Err())
	}
	if res.Difference != nil {
		return s.differs(fault.New(fault.ReplayMismatch, "%s", res.Difference.Error()))
	}
	if !s.json {
		s.printf("%s session %s replayed: %s in %s; all messages are identical\n", s.paint(green, "✓"), res.Session,
			counted(found.Calls, "call"), counted(found.Runs, "run"))
		s.printf("  %s\n", counted(res.Messages, "message"))
	}
	return nil
}

// differs returns the error for a difference, or only its status after JSON.
func (s *session) differs(err error) error {
	if s.json {
		return exit(fault.ReplayMismatch.Exit())
	}
	return err
}

func (s *session) rejudgeSession(cmd *cobra.Command, a *app.App, id, file string) error {
	p, err := policies.Read(file)
	if err != nil {
		return err
	}
	busy := s.startActivity("deciding the recorded calls")
	changed, judged, err := a.Replays.RejudgeSession(cmd.Context(), id, p)
	var task replays.Questions
	if err == nil {
		task, err = s.questionsOfOne(cmd.Context(), a, id, p)
	}
	busy.stop()
	if err != nil {
		return err
	}
	if s.json {
		out := map[string]any{"policy": p.Name(), "judged": judged, "changed": changed, "questions": task}
		if len(changed) > 0 {
			out["first"] = changed[0]
		}
		return s.printJSON(out)
	}
	if len(changed) == 0 {
		s.printf("under %q, none of %s would change\n", p.Name(), counted(judged, "decision"))
		s.printPerTask(task, 1)
		return nil
	}
	f := changed[0]
	s.printf("the first decision that would change: call %d of run %s, %s: %s, not %s\n  %s\n  after this call the session would differ\n",
		f.Call, f.Run, f.Tool, f.Is, f.Was, f.Reason)
	s.printf("%d of %s would change under %q\n", len(changed), counted(judged, "decision"), p.Name())
	s.printPerTask(task, 1)
	return nil
}

func (s *session) continueFrom(cmd *cobra.Command, a *app.App, id, from, policyFile string) error {
	if g, _ := s.lookup("REMIT_GRANT"); g != "" {
		return fault.New(fault.Denied, "--from runs under this machine's policies, not under a grant").WithHint("use a shell without REMIT_GRANT")
	}
	fork, err := a.Replays.ContinueFrom(cmd.Context(), id, from, policyFile, func(e agent.Event) {
		if s.json || e.Type != agent.CallEnded {
			return
		}
		s.printf("  %q %s\n", e.Call.Name, e.Call.Status)
	})
	if fork.State == "" {
		return err
	}
	if s.json {
		if perr := s.printJSON(map[string]any{"session_id": fork.ID, "status": fork.State, "messages": fork.Last}); perr != nil {
			return perr
		}
		return err
	}
	s.printf("session %s continues from call %s: %s, %s\n", fork.ID, from, fork.State, counted(fork.Last, "message"))
	return err
}
