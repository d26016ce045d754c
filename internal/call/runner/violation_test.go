package runner_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
)

// stopper notes which grants are to be stopped.
type stopper struct {
	of     *ruler
	fails  error
	node   uuid.UUID
	revoke bool
	n      int
}

func (s *stopper) Stop(_ context.Context, node uuid.UUID, revoke bool, _ string) error {
	s.node, s.revoke = node, revoke
	s.n++
	if s.fails != nil {
		return s.fails
	}
	s.of.revoke(fault.New(map[bool]fault.Code{false: fault.GrantPaused, true: fault.GrantRevoked}[revoke], "stopped"))
	return nil
}

// Where the grant cannot be stopped, its run is.
func TestAGrantThatCannotBeStoppedEndsTheRun(t *testing.T) {
	for name, s := range map[string]runner.GrantStopper{"nobody can": nil, "it fails": &stopper{fails: errors.New("the ledger is away")}} {
		p := &probe{id: "p"}
		h := newHouse(t, open, p)
		h.rn.GrantStopper, h.rn.Authority = s, &ruler{}
		h.under("files: {read: {allow: ['**'], deny: [secret]}}\ntools: {allow: ['*']}\nviolations: {path: revoke}", nil)
		if o := h.call("p", tool.Args{"path": "secret"}); o.Fatal == nil {
			t.Errorf("%s: it is not told", name)
		}
		if o := h.call("p", tool.Args{"path": "a"}); !errors.Is(o.Err, fault.GrantRevoked) || p.ran.Load() != 0 {
			t.Errorf("%s: the next call: %s %v", name, o.Status, o.Err)
		}
	}
}

func failsWith(err error) func(context.Context, permit.Permit, tool.Args) (tool.Result, error) {
	return func(context.Context, permit.Permit, tool.Args) (tool.Result, error) { return tool.Result{}, err }
}

func TestViolationsAreRecordedByKind(t *testing.T) {
	secret := func(_ context.Context, pm permit.Permit, _ tool.Args) (tool.Result, error) {
		return tool.Result{}, pm.Check(tool.Action{Kind: tool.FileWrite, Path: "/ws/x"})
	}
	tries := func(_ context.Context, pm permit.Permit, _ tool.Args) (tool.Result, error) {
		pm.Refuse(tool.Refused{Action: "network GET https://a.example/", Rule: "default", Reason: "no"})
		return tool.Result{}, nil
	}
	tests := map[string]struct {
		src  string
		info func(*runner.Info)
		tool tool.ID
		args tool.Args
		run  func(context.Context, permit.Permit, tool.Args) (tool.Result, error)
		want ledger.Violated
	}{
		"path":                                {args: tool.Args{"path": "secret"}, want: ledger.ViolatedPath},
		"path, by a handle":                   {run: secret, want: ledger.ViolatedPath},
		"host, while it ran":                  {run: tries, want: ledger.ViolatedHost},
		"tool":                                {tool: "q", want: ledger.ViolatedTool},
		"tool, by its effects":                {src: "\nside_effects: {deny: [fs.write]}", want: ledger.ViolatedTool},
		"budget":                              {src: "\nlimits: {per_tool: {p: 0}}", want: ledger.ViolatedBudget},
		"mode":                                {info: func(in *runner.Info) { in.Phase = runner.Planning }, want: ledger.ViolatedMode},
		"grant":                               {info: func(in *runner.Info) { in.Grant = in.Grant.Derive(grant.Terms{Expires: time.Unix(1, 0)}) }, want: ledger.ViolatedGrant},
		"plan":                                {src: "\nfrozen_plan: {required: true}", want: ledger.ViolatedPlan},
		"digest":                              {info: func(in *runner.Info) { in.Grant = in.Grant.Derive(grant.Terms{Pins: map[tool.ID]tool.Digest{"p": {}}}) }, want: ledger.ViolatedDigest},
		"nothing, if it is all":               {want: 0},
		"nothing, if nobody was there to ask": {args: tool.Args{"path": "ask"}, want: 0},
		"nothing, if arguments do not fit":    {args: tool.Args{"n": "x"}, want: 0},
		"nothing, if there is no such tool":   {tool: "no.such", want: 0},
		"nothing, if a secret is missing":     {run: failsWith(fault.Wrap(fault.HandleRefused, fault.NotFound, "the secret is not in the store")), want: 0},
		"nothing, if a path holds a folder":   {run: failsWith(fault.New(fault.ToolFailed, "a is a folder, not a file")), want: 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := &probe{id: "p", effects: tool.EffectSet(tool.FSWrite), run: tt.run}
			h := newHouse(t, open, p, &probe{id: "q"})
			h.under("files: {read: {allow: ['**'], deny: ['secret'], ask: ['ask']}}\ntools: {allow: ['*'], deny: [q]}"+tt.src, tt.info)
			id := tt.tool
			if id == "" {
				id = "p"
			}
			o := h.call(id, tt.args)
			var got []ledger.Event
			for e, err := range h.st.Events(t.Context(), h.run.Seq) {
				if err != nil {
					t.Fatal(err)
				}
				if e.Event.Kind == ledger.Violation {
					got = append(got, e.Event)
				}
			}
			if tt.want == 0 {
				if len(got)+len(o.Violations) > 0 {
					t.Errorf("%+v, %+v", got, o.Violations)
				}
				return
			}
			if len(got) != 1 || got[0].Violated != tt.want || got[0].Call != 1 || got[0].Run != h.run.Seq {
				t.Fatalf("recorded %+v (the call: %s %v)", got, o.Status, o.Err)
			}
			if len(o.Violations) != 1 || o.Violations[0].Kind.String() != tt.want.String() || o.Violations[0].Response != policy.LogViolation {
				t.Errorf("told %+v", o.Violations)
			}
		})
	}
}

func TestAViolationCanStopTheGrant(t *testing.T) {
	for name, tt := range map[string]struct {
		response string
		kept     bool
		code     fault.Code
		told     int
	}{
		"log": {"log", true, 0, 0}, "notify": {"notify", true, 0, 1},
		"pause": {"pause", true, fault.GrantPaused, 1}, "revoke": {"revoke", true, fault.GrantRevoked, 1},
		"pause a run's own":  {"pause", false, fault.GrantPaused, 1},
		"revoke a run's own": {"revoke", false, fault.GrantRevoked, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := &ruler{}
			p, s, told := &probe{id: "p"}, &stopper{of: r}, 0
			h := newHouse(t, open, p)
			h.rn.GrantStopper = s
			h.rn.Observe = func(n runner.Notice) {
				if n.State != ledger.Ended {
					return
				}
				for _, v := range n.Outcome.Violations {
					if v.Response >= policy.NotifyViolation && v.Kind == policy.PathViolation {
						told++
					}
				}
			}
			if tt.kept {
				h.rn.Authority = r
			}
			h.under("files: {read: {allow: ['**'], deny: [secret]}}\ntools: {allow: ['*']}\nviolations: {path: "+tt.response+"}", nil)
			if o := h.call("p", tool.Args{"path": "secret"}); !errors.Is(o.Err, fault.Denied) || o.Fatal != nil {
				t.Fatalf("%v %v", o.Err, o.Fatal)
			}
			o := h.call("p", tool.Args{"path": "a"})
			if tt.code == 0 && o.Err != nil || tt.code != 0 && (!errors.Is(o.Err, tt.code) || p.ran.Load() != 0) {
				t.Errorf("the next call: %s %v", o.Status, o.Err)
			}
			if told != tt.told {
				t.Errorf("told %d times", told)
			}
			if stopped := tt.kept && tt.code != 0; stopped != (s.n == 1) || stopped && (s.node != h.run.Grant.ID() || s.revoke != (tt.code == fault.GrantRevoked)) {
				t.Errorf("stopped %+v", s)
			}
		})
	}
}
