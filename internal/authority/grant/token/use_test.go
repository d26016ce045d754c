package token_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/grant/token"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

var otherID = uuid.MustParse("01946b6e-8f00-7000-8000-000000000002")

func asFault(err error, into **fault.Error) bool { return errors.As(err, into) }

func TestUse(t *testing.T) {
	plain := three(t)
	tomorrow := issueWith(t, func(r *token.Root) { r.NotBefore = start.Add(12 * time.Hour) })
	hosted := add(t, issueWith(t, func(r *token.Root) { r.Audience = "gateway" }), token.Block{Workspace: "/srv/a"})
	retired := token.Trust{Ledger: ledgerID, Keys: []token.Key{{Public: public("other")}, {Public: public("ledger"), NotAfter: noon}}}
	tests := []struct {
		name  string
		token string
		trust token.Trust
		use   token.Use
		want  fault.Code
	}{
		{"in its time", plain, trust, token.Use{At: noon}, 0},
		{"before it was issued by some clock", plain, trust, token.Use{At: start.Add(-time.Second)}, 0},
		{"long before it was issued", plain, trust, token.Use{At: start.Add(-6 * time.Minute)}, fault.GrantEarly},
		{"at no time", plain, trust, token.Use{}, fault.GrantEarly},
		{"the last moment", plain, trust, token.Use{At: start.Add(2*time.Hour - 1)}, 0},
		{"the end itself, which a block has set", plain, trust, token.Use{At: start.Add(2 * time.Hour)}, fault.GrantExpired},
		{"long over", plain, trust, token.Use{At: start.Add(1e6 * time.Hour)}, fault.GrantExpired},
		{"too early", tomorrow, trust, token.Use{At: noon}, fault.GrantEarly},
		{"as early as may be", tomorrow, trust, token.Use{At: start.Add(12 * time.Hour)}, 0},
		{"a block makes it early no earlier", add(t, tomorrow, token.Block{NotBefore: start}), trust, token.Use{At: noon}, fault.GrantEarly},
		{"a block makes it last no longer", add(t, plain, token.Block{Expires: start.Add(9999 * time.Hour)}), trust, token.Use{At: start.Add(2 * time.Hour)}, fault.GrantExpired},
		{"where it is for", hosted, trust, token.Use{At: noon, Audience: "gateway", Workspace: "/srv/a"}, 0},
		{"another audience", hosted, trust, token.Use{At: noon, Audience: "other", Workspace: "/srv/a"}, fault.GrantAudience},
		{"no audience", hosted, trust, token.Use{At: noon, Workspace: "/srv/a"}, fault.GrantAudience},
		{"two audiences", add(t, hosted, token.Block{Audience: "other"}), trust, token.Use{At: noon, Audience: "other", Workspace: "/srv/a"}, fault.GrantAudience},
		{"another workspace", hosted, trust, token.Use{At: noon, Audience: "gateway", Workspace: "/srv/ab"}, fault.GrantWorkspace},
		{"no workspace", hosted, trust, token.Use{At: noon, Audience: "gateway"}, fault.GrantWorkspace},
		{"two workspaces", add(t, hosted, token.Block{Workspace: "/srv/b"}), trust, token.Use{At: noon, Audience: "gateway", Workspace: "/srv/b"}, fault.GrantWorkspace},
		{"an old key, still trusted", plain, retired, token.Use{At: noon.Add(-1)}, 0},
		{"an old key, no longer trusted", plain, retired, token.Use{At: noon}, fault.GrantKey},
		{"another ledger with the same key", plain, token.Trust{Ledger: tool.Digest{1}, Keys: trust.Keys}, token.Use{At: noon}, fault.GrantLedger},
		{"a trust of nothing", plain, token.Trust{}, token.Use{At: noon}, fault.GrantLedger},
		{"a trust of no key", plain, token.Trust{Ledger: ledgerID}, token.Use{At: noon}, fault.GrantKey},
		{"a trust of broken keys", plain, token.Trust{Ledger: ledgerID, Keys: []token.Key{{}, {Public: make([]byte, 32)}, {Public: []byte{1}}}}, token.Use{At: noon}, fault.GrantKey},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := token.Verify(tt.token, tt.trust, tt.use)
			if tt.want == 0 && err != nil || tt.want != 0 && (fault.CodeOf(err) != tt.want || c != token.Claims{}) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			quiet(t, tt.token, err)
		})
	}
}

func issueWith(t testing.TB, change func(*token.Root)) string {
	t.Helper()
	r := root()
	change(&r)
	return issue(t, r)
}

func TestWhatIsSaidIsRead(t *testing.T) {
	r := root()
	r.HolderKey, r.Audience, r.Workspace, r.NotBefore = public("ann"), "gateway", "/srv/ä b", start
	r.Delegate = []string{"agent:*", "user:bob"}
	r.Budgets = grant.Budgets{Calls: 1, PerTool: []grant.ToolBudget{{Tool: "fs.*", Calls: 0}, {Tool: "http.get", Calls: 3}}, EachTool: 9, BytesIn: 2, BytesOut: 3,
		Tokens: 4, Money: 5, Time: 6, Children: number(0), Depth: number(7)}
	s := add(t, issue(t, r), token.Block{Delegate: []string{}, Issued: noon, Pins: map[tool.ID]tool.Digest{"a": {1}, "fs.read": {9}}})
	c, err := token.Decode(s)
	if err != nil {
		t.Fatal(err)
	}
	l := c.Links()
	if c.ID() != r.ID || c.Ledger() != ledgerID || c.Key() != ledgerID || c.Sealed() || len(l) != 2 {
		t.Errorf("the root is read as %+v", c)
	}
	got := l[0].Block
	if got.Holder != r.Holder || !got.HolderKey.Equal(r.HolderKey) || got.Audience != r.Audience || got.Workspace != r.Workspace ||
		!got.Issued.Equal(r.Issued) || !got.NotBefore.Equal(r.NotBefore) || !got.Expires.Equal(r.Expires) || got.Policies[0] != r.Policies[0] ||
		strings.Join(got.Delegate, " ") != "agent:* user:bob" || got.Budgets.String() != r.Budgets.String() || !maps.Equal(got.Pins, r.Pins) {
		t.Errorf("got %+v, want %+v", got, r.Block)
	}
	if l[1].Delegate == nil || len(l[1].Delegate) != 0 || !l[1].Issued.Equal(noon) || l[0].Grant != r.ID || l[1].Grant != c.Leaf() || l[1].Grant.Version() != 8 {
		t.Errorf("the appended block is read as %+v", l[1])
	}
	if p := c.Pins(); p["a"] != (tool.Digest{1}) || !p["fs.read"].IsZero() || len(p) != 2 {
		t.Errorf("the pins are %v: a tool that is pinned twice differently must be pinned to nothing", p)
	}
}

func TestTimesAreRoundedSoThatNothingLastsLonger(t *testing.T) {
	s := issueWith(t, func(r *token.Root) {
		r.NotBefore, r.Expires = start.Add(1), start.Add(time.Hour+999*time.Microsecond)
	})
	c, err := token.Decode(s)
	if err != nil {
		t.Fatal(err)
	}
	if !c.NotBefore().Equal(start.Add(time.Millisecond)) || !c.Expires().Equal(start.Add(time.Hour)) {
		t.Errorf("from %s until %s", c.NotBefore(), c.Expires())
	}
}

func TestWhatIsNotIssued(t *testing.T) {
	tests := map[string]struct {
		change func(*token.Root)
		want   fault.Code
	}{
		"no policy":           {func(r *token.Root) { r.Policies = nil }, fault.Usage},
		"no holder":           {func(r *token.Root) { r.Holder = "" }, fault.Usage},
		"no end":              {func(r *token.Root) { r.Expires = time.Time{} }, fault.Usage},
		"no ledger":           {func(r *token.Root) { r.Ledger = tool.Digest{} }, fault.Usage},
		"an unordered ID":     {func(r *token.Root) { r.ID = uuid.New() }, fault.Usage},
		"before 1970":         {func(r *token.Root) { r.Issued = time.Unix(-9, 0); r.Expires = time.Unix(9, 0) }, fault.Usage},
		"a negative budget":   {func(r *token.Root) { r.Budgets.Calls = -1 }, fault.Usage},
		"a broken policy":     {func(r *token.Root) { r.Policies[0].Source = "files: 5" }, fault.PolicyInvalid},
		"an inheriting one":   {func(r *token.Root) { r.Policies[0].Source = "version: 1\nrest: inherit\n" }, fault.PolicyInvalid},
		"a policy too large":  {func(r *token.Root) { r.Policies[0].Source += strings.Repeat("# more\n", 4096) }, fault.GrantTooLarge},
		"too many policies":   {func(r *token.Root) { r.Policies = make([]token.Policy, token.MaxPolicies+1) }, fault.Usage},
		"a pattern of nobody": {func(r *token.Root) { r.Delegate = []string{""} }, fault.Usage},
		"all too large": {func(r *token.Root) {
			for range 4 {
				r.Policies = append(r.Policies, token.Policy{File: "a", Source: wide + "#" + strings.Repeat("x", token.MaxPolicy-len(wide)-2)})
			}
		}, fault.GrantTooLarge},
	}
	for name, tt := range tests {
		r := root()
		tt.change(&r)
		if s, err := token.Issue(r, key("ledger"), source(name)); fault.CodeOf(err) != tt.want || s != "" {
			t.Errorf("%s: got %v, want %v", name, err, tt.want)
		}
	}
	if _, err := token.Issue(root(), nil, source("")); !errors.Is(err, fault.Internal) {
		t.Errorf("no key: %v", err)
	}
	if _, err := token.Issue(root(), key("ledger"), strings.NewReader("little")); !errors.Is(err, fault.Internal) {
		t.Errorf("no randomness: %v", err)
	}
}

func TestWhatIsNotAppended(t *testing.T) {
	plain := issue(t, root())
	full := plain
	for range token.MaxBlocks - 1 {
		full = add(t, full, token.Block{})
	}
	nobody := issueWith(t, func(r *token.Root) { r.Delegate = []string{} })
	tests := map[string]struct {
		token string
		block token.Block
		want  fault.Code
	}{
		"to a sealed one":   {seal(t, plain), token.Block{}, fault.GrantSealed},
		"to a full one":     {full, token.Block{}, fault.GrantTooLarge},
		"to a forged one":   {changed(t, func(p *parts) { p.Blocks = p.Blocks[:2] }), token.Block{}, fault.GrantForged},
		"to none":           {"", token.Block{}, fault.GrantInvalid},
		"for nobody":        {nobody, token.Block{Holder: "agent:a"}, fault.NotDelegable},
		"a broken policy":   {plain, token.Block{Policies: []token.Policy{{File: "a", Source: "x: ["}}}, fault.PolicyInvalid},
		"a broken field":    {plain, token.Block{Workspace: "here"}, fault.Usage},
		"a key of anybody":  {plain, token.Block{HolderKey: smallPoint()}, fault.Usage},
		"another's key":     {bound(t), token.Block{HolderKey: public("bob")}, fault.GrantHolder},
		"after all that":    {three(t), token.Block{Holder: "agent:more"}, fault.NotDelegable},
		"more than a token": {plain, token.Block{Policies: many(4)}, fault.GrantTooLarge},
	}
	for name, tt := range tests {
		if s, err := token.Append(tt.token, tt.block, source(name)); fault.CodeOf(err) != tt.want || s != "" {
			t.Errorf("%s: got %v, want %v", name, err, tt.want)
		}
	}
	if _, err := token.HandOn(bound(t), token.Block{HolderKey: public("bob")}, key("mallory"), source("")); !errors.Is(err, fault.GrantHolder) {
		t.Errorf("handed on by a thief: %v", err)
	}
	if s := add(t, full[:0]+bound(t), token.Block{HolderKey: public("ann")}); s == "" {
		t.Error("binding it anew to the same key needs nobody's leave")
	}
}

func many(n int) []token.Policy {
	out := make([]token.Policy, n)
	for i := range out {
		out[i] = token.Policy{File: "a", Source: wide + "#" + strings.Repeat("x", token.MaxPolicy-len(wide)-2)}
	}
	return out
}

// TestNoNameLeavesARole binds a token whose root policy has a role for its first
// holder: after a delegation, or a mere change of name, the role still applies.
func TestNoNameLeavesARole(t *testing.T) {
	roles := "version: 1\nfiles: {read: {allow: [\"**\"]}}\nroles:\n  \"agent:one\": {files: {read: {allow: [\"docs/**\"]}}}\n  \"agent:two\": {files: {read: {allow: [\"**/a.md\"]}}}\n"
	s := issueWith(t, func(r *token.Root) {
		r.Holder = "agent:one"
		r.Policies = []token.Policy{{File: "roles.yaml", Source: roles}}
	})
	s = add(t, s, token.Block{Holder: "agent:two"})
	s = add(t, s, token.Block{Holder: "agent:three", Policies: []token.Policy{{File: "n.yaml", Source: "version: 1\nrest: inherit\n"}}})
	c, err := verify(s)
	if err != nil {
		t.Fatal(err)
	}
	chains, err := c.Bind(policy.Env{Workspace: "/ws"})
	if err != nil {
		t.Fatal(err)
	}
	if len(chains) != 3 || len(chains[0]) != 3 || len(chains[1]) != 0 || len(chains[2]) != 1 {
		t.Fatalf("the chains are %v", chains)
	}
	all := append(append(policy.Chain{}, chains[0]...), chains[2]...)
	for path, want := range map[string]policy.Effect{"/ws/docs/a.md": policy.Allow, "/ws/docs/b.md": policy.Deny, "/ws/a.md": policy.Deny} {
		if got := all.DecideAction(tool.Action{Kind: tool.FileRead, Path: path, Real: path}).Effect; got != want {
			t.Errorf("%s: got %v, want %v", path, got, want)
		}
	}
}

func TestAPolicyThatCannotBeReadAllowsNothing(t *testing.T) {
	for name, source := range map[string]string{"broken": "files: [", "inheriting": "version: 1\nrest: inherit\n"} {
		c, err := verify(says(t, rootSaid().but(7, [][]string{{"a.yaml", source}})))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Bind(policy.Env{Workspace: "/ws"}); !errors.Is(err, fault.PolicyInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPolicyOfKeepsTheSourceAndHidesThePath(t *testing.T) {
	p, err := policy.Parse("/home/ann/it's \x1b[1mmine.yaml", []byte(narrow))
	if err != nil {
		t.Fatal(err)
	}
	if got := token.PolicyOf(p); got.Source != narrow || got.File != "it_s _[1mmine.yaml" {
		t.Errorf("got %+v", got)
	}
}

func TestListsAreBounded(t *testing.T) {
	pins := map[tool.ID]tool.Digest{}
	for i := range token.MaxPins + 1 {
		pins[tool.ID(fmt.Sprint("t", i))] = tool.Digest{1}
	}
	for name, b := range map[string]token.Block{
		"pins": {Pins: pins}, "a pin of no tool": {Pins: map[tool.ID]tool.Digest{"a b": {1}}}, "a pin to nothing": {Pins: map[tool.ID]tool.Digest{"a": {}}},
		"delegates": {Delegate: make([]string, token.MaxDelegate+1)}, "a long holder": {Holder: strings.Repeat("a", token.MaxText+1)},
		"a file with a folder": {Policies: []token.Policy{{File: "a/b", Source: wide}}}, "no file": {Policies: []token.Policy{{Source: wide}}},
		"a long file": {Policies: []token.Policy{{File: strings.Repeat("ä", token.MaxText), Source: wide}}},
	} {
		if _, err := token.Append(issue(t, root()), b, source(name)); !errors.Is(err, fault.Usage) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := token.Append(issue(t, root()), token.Block{}, strings.NewReader("little")); !errors.Is(err, fault.Internal) {
		t.Errorf("no randomness: %v", err)
	}
}

func TestSealingIsForGood(t *testing.T) {
	s := seal(t, three(t))
	if c, err := verify(s); err != nil || !c.Sealed() {
		t.Errorf("sealed: %v", err)
	}
	if _, err := token.Seal(s); !errors.Is(err, fault.GrantSealed) {
		t.Errorf("sealed twice: %v", err)
	}
	if _, err := token.Seal("remit1_x"); !errors.Is(err, fault.GrantInvalid) {
		t.Errorf("nothing sealed: %v", err)
	}
}

func TestAKeyThatIsNoLongerTrustedShowsNothing(t *testing.T) {
	old := token.Trust{Ledger: ledgerID, Keys: []token.Key{{Public: public("ledger"), NotAfter: noon}}}
	if c, err := token.Authentic(three(t), old, noon); !errors.Is(err, fault.GrantKey) || c != (token.Claims{}) {
		t.Errorf("got %v", err)
	}
}

// TestATokenOfARotatedKeyLivesOn: the ledger keeps the ID of its first key and
// signs with another key.
func TestATokenOfARotatedKeyLivesOn(t *testing.T) {
	fresh, err := token.Issue(root(), key("second"), source("rotated"))
	if err != nil {
		t.Fatal(err)
	}
	both := token.Trust{Ledger: ledgerID, Keys: []token.Key{{Public: public("second")}, {Public: public("ledger"), NotAfter: start.Add(token.MaxLife)}}}
	for name, s := range map[string]string{"old": three(t), "new": fresh} {
		if _, err := token.Verify(s, both, token.Use{At: noon}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := verify(fresh); !errors.Is(err, fault.GrantKey) {
		t.Errorf("before the new key is known: %v", err)
	}
}
