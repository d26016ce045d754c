package grant_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

func rules(t *testing.T, src string) *policy.Rules {
	t.Helper()
	p, err := policy.Parse("p.yaml", []byte("version: 1\n"+src))
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Bind(policy.Env{Workspace: "/w"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestADerivedGrantKeepsAllThatBoundsItsParent(t *testing.T) {
	parent := grant.New(grant.Terms{ID: uuid.New(), Holder: "user:ann", Policies: []*policy.Rules{rules(t, "files: {read: {allow: ['**']}}")}})
	one := parent.Derive(grant.Terms{ID: uuid.New(), Holder: "agent:one", Policies: []*policy.Rules{rules(t, "files: {read: {allow: [a]}}")}})
	two := parent.Derive(grant.Terms{ID: uuid.New(), Holder: "agent:two", Policies: []*policy.Rules{rules(t, "files: {read: {allow: [b]}}")}})
	read := func(g grant.Grant, p string) policy.Effect {
		return g.Chain().DecideAction(tool.Action{Kind: tool.FileRead, Path: "/w/" + p}).Effect
	}
	if read(one, "a") != policy.Allow || read(one, "b") != policy.Deny || read(two, "b") != policy.Allow || read(two, "a") != policy.Deny {
		t.Error("siblings share their links")
	}
	if one.Parent() != parent.ID() || len(one.Nodes()) != 2 || one.Nodes()[1].Links != 2 || one.Nodes()[0].Links != 1 {
		t.Errorf("descent: %+v", one.Nodes())
	}
	if (grant.Grant{}).Chain().DecideAction(tool.Action{Kind: tool.FileRead, Path: "/w/a"}).Effect != policy.Deny {
		t.Error("the zero grant allows something")
	}
}

func TestTimeIsThatOfEveryNode(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	g := grant.New(grant.Terms{ID: uuid.New(), Expires: now.Add(time.Hour)})
	late := g.Derive(grant.Terms{ID: uuid.New(), Expires: now.Add(2 * time.Hour)})
	early := g.Derive(grant.Terms{ID: uuid.New(), NotBefore: now.Add(time.Minute)}).Derive(grant.Terms{ID: uuid.New()})
	tests := map[string]struct {
		g    grant.Grant
		at   time.Duration
		want error
	}{
		"within":                        {g, 0, nil},
		"a moment before the end":       {g, time.Hour - 1, nil},
		"the end itself":                {g, time.Hour, fault.GrantExpired},
		"a later end changes nothing":   {late, time.Hour, fault.GrantExpired},
		"before an ancestor's begins":   {early, 0, fault.GrantEarly},
		"once an ancestor's has begun":  {early, time.Minute, nil},
		"a grant without end or policy": {grant.New(grant.Terms{}), 1000 * time.Hour, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if err := tt.g.At(now.Add(tt.at)); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
	if !late.Expires().Equal(now.Add(time.Hour)) {
		t.Errorf("expires %v", late.Expires())
	}
}

func TestPinsCanOnlyBeAdded(t *testing.T) {
	a, b := tool.Digest{1}, tool.Digest{2}
	g := grant.New(grant.Terms{Pins: map[tool.ID]tool.Digest{"x": a}})
	same := g.Derive(grant.Terms{Pins: map[tool.ID]tool.Digest{"x": a, "y": b}})
	other := g.Derive(grant.Terms{Pins: map[tool.ID]tool.Digest{"x": b}})
	none := g.Derive(grant.Terms{})
	pin := func(g grant.Grant, id tool.ID) tool.Digest { d, _ := g.Pinned(id); return d }
	if pin(same, "x") != a || pin(same, "y") != b || pin(none, "x") != a {
		t.Error("a pin was lost")
	}
	if d, ok := other.Pinned("x"); !ok || d != (tool.Digest{}) {
		t.Error("a pin was replaced")
	}
}

func TestBudgetsOfPolicies(t *testing.T) {
	b := grant.BudgetsOf(rules(t, "limits: {calls: 9, money: 1.5 USD, per_tool: {'http.*': 3}, bytes_in: 1KiB}\nagents: {depth: 0}"),
		rules(t, "limits: {calls: 10, calls_per_tool: 2, per_tool: {'http.*': 2}}"))
	if b.Calls != 9 || b.Money != 1_500_000 || b.BytesIn != 1024 || b.EachTool != 2 || len(b.PerTool) != 1 || b.PerTool[0].Calls != 2 ||
		b.Depth == nil || *b.Depth != 0 || b.Children != nil {
		t.Errorf("%+v", b)
	}
}

func TestAHandleIsGivenAGrantOnceAndWhole(t *testing.T) {
	h := grant.NewHandle("agent:kid")
	if h.Grant().Chain().DecideAction(tool.Action{Kind: tool.FileRead, Path: "/w/a"}).Effect != policy.Deny {
		t.Error("an empty handle allows something")
	}
	mine := func() grant.Grant {
		return grant.New(grant.Terms{ID: uuid.New(), Holder: "agent:kid", Policies: []*policy.Rules{rules(t, "files: {read: {allow: ['**']}}")}})
	}
	for name, g := range map[string]grant.Grant{"another's": grant.New(grant.Terms{ID: uuid.New(), Holder: "agent:other"}), "the zero grant": {}} {
		if err := h.Give(g); !errors.Is(err, fault.NotDelegable) || len(h.Grant().Nodes()) != 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	var wg sync.WaitGroup
	var given atomic.Int32
	for range 10 {
		wg.Go(func() {
			if err := h.Give(mine()); err == nil {
				given.Add(1)
			} else if !errors.Is(err, fault.Conflict) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if given.Load() != 1 || h.Grant().Chain().DecideAction(tool.Action{Kind: tool.FileRead, Path: "/w/a"}).Effect != policy.Allow {
		t.Errorf("given %d times", given.Load())
	}
}
