package approval_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/approval"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
)

func openStore(t testing.TB) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Options{Home: t.TempDir(), Durability: sqlite.Process})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// newRun records a run under policies.
func newRun(t testing.TB, s store.Store, srcs ...string) *runner.Run {
	t.Helper()
	var chain []*policy.Rules
	for _, src := range append([]string{"files: {write: {ask: ['**']}}"}, srcs...) {
		p, err := policy.Parse("p.yaml", []byte("version: 1\n"+src))
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.Bind(policy.Env{Workspace: "/w"})
		if err != nil {
			t.Fatal(err)
		}
		chain = append(chain, r)
	}
	id := uuid.Must(uuid.NewV7())
	seq, err := s.Append(t.Context(), ledger.Entry{Event: ledger.Event{
		Kind: ledger.RunStarted, At: time.Now().UnixMicro(), ID: id[:], Mode: ledger.Live, Principal: "agent:x",
	}})
	if err != nil {
		t.Fatal(err)
	}
	run := &runner.Run{Info: runner.Info{ID: id, Grant: grant.New(grant.Terms{ID: id, Holder: "agent:x", Policies: chain})}, Seq: seq}
	run.Env.Workspace = "/w"
	return run
}

var spec = &tool.Spec{ID: "fs.write", Risk: tool.Medium, Effects: tool.EffectSet(tool.FSWrite)}

func write(run *runner.Run, path, content string) runner.Question {
	return runner.Question{
		Run: run, Spec: spec, Digest: tool.Digest{7}, Decision: policy.Decision{Effect: policy.Ask, Reason: "needs approval"},
		Call:    runner.Call{Index: 1, Tool: "fs.write", Args: tool.Args{"path": path, "content": content}},
		Actions: []tool.Action{{Kind: tool.FileWrite, Path: "/w/" + path}},
	}
}

func yes(by string) store.Vote { return store.Vote{By: by, Yes: true, Where: "test"} }

// says makes a person who is here and always gives the same answer.
func says(v store.Vote, asked *atomic.Int32) func(context.Context, approval.Case) (store.Vote, error) {
	return func(context.Context, approval.Case) (store.Vote, error) {
		asked.Add(1)
		return v, nil
	}
}

func TestAYesIsGoodForOneCall(t *testing.T) {
	s := openStore(t)
	run := newRun(t, s)
	var asked atomic.Int32
	d := &approval.Desk{Store: s, Here: says(yes("user:ann"), &asked), Every: time.Millisecond}
	for i := range 2 {
		a, err := d.Ask(t.Context(), write(run, "a.txt", "x"))
		if err != nil || !a.Yes || a.By != "user:ann" || a.Where != "test" || a.At.IsZero() {
			t.Fatalf("%+v, %v", a, err)
		}
		if int(asked.Load()) != i+1 {
			t.Errorf("call %d: asked %d times", i+1, asked.Load())
		}
	}
}

func TestNobodyThereFilesTheQuestion(t *testing.T) {
	s := openStore(t)
	d := &approval.Desk{Store: s}
	q := write(newRun(t, s), "a.txt", "x")
	for range 2 {
		if _, err := d.Ask(t.Context(), q); !errors.Is(err, fault.NeedsApproval) || !strings.Contains(err.Error(), "remit approvals") {
			t.Fatal(err)
		}
	}
	list, err := s.Questions(t.Context(), store.QuestionFilter{})
	if err != nil || len(list) != 1 || list[0].State != store.Waiting {
		t.Fatalf("%+v, %v", list, err)
	}
	if _, err := s.Vote(t.Context(), list[0].ID, store.Vote{By: "user:ann", Yes: true, Where: "elsewhere", At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	// The same call of a later run is what was approved; any other is not.
	tests := map[string]runner.Question{
		"other content":      write(newRun(t, s), "a.txt", "y"),
		"another file":       write(newRun(t, s), "b.txt", "x"),
		"one policy more":    write(newRun(t, s, "files: {write: {ask: ['**']}}"), "a.txt", "x"),
		"another tool's own": write(newRun(t, s), "a.txt", "x"),
		"another holder":     write(newRun(t, s), "a.txt", "x"),
		"another workspace":  write(newRun(t, s), "a.txt", "x"),
		"under a kept grant": write(newRun(t, s), "a.txt", "x"),
	}
	other := tests["another tool's own"]
	other.Digest = tool.Digest{8}
	tests["another tool's own"] = other
	holder := tests["another holder"]
	holder.Run.Grant = grant.New(grant.Terms{Holder: "agent:y", Policies: holder.Run.Grant.Chain()})
	tests["another workspace"].Run.Env.Workspace = "/v"
	kept := tests["under a kept grant"]
	kept.Run.Grant = grant.New(grant.Terms{ID: uuid.New(), Holder: "agent:x", Kept: true, Policies: kept.Run.Grant.Chain()})
	for name, q := range tests {
		if a, err := d.Ask(t.Context(), q); !errors.Is(err, fault.NeedsApproval) {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
	later := write(newRun(t, s), "a.txt", "x")
	if a, err := d.Ask(t.Context(), later); err != nil || !a.Yes || a.Where != "elsewhere" {
		t.Errorf("the same call later: %+v, %v", a, err)
	}
	if _, err := d.Ask(t.Context(), later); !errors.Is(err, fault.NeedsApproval) {
		t.Errorf("and again: %v", err)
	}
}

func TestWhereThePersonCannotBeAskedTheQuestionStaysOpen(t *testing.T) {
	s := openStore(t)
	notHere := func(context.Context, approval.Case) (store.Vote, error) { return store.Vote{}, approval.ErrNotHere }
	d := &approval.Desk{Store: s, Here: notHere, Every: time.Millisecond, Advice: func(q store.Approval) string { return "answer " + q.ID.String() }}
	q := write(newRun(t, s), "a.txt", "x")
	_, err := d.Ask(t.Context(), q)
	list, lerr := s.Questions(t.Context(), store.QuestionFilter{})
	if lerr != nil || len(list) != 1 || list[0].State != store.Waiting {
		t.Fatalf("%+v, %v", list, lerr)
	}
	if !errors.Is(err, fault.NeedsApproval) || !strings.Contains(err.Error(), "answer "+list[0].ID.String()) {
		t.Errorf("the caller is told %v", err)
	}
	// Told to wait, it waits for an answer from elsewhere.
	d.Wait = true
	answered := make(chan error, 1)
	go func() {
		_, err := s.Vote(t.Context(), list[0].ID, store.Vote{By: "user:ann", Yes: true, Where: "elsewhere", At: time.Now()})
		answered <- err
	}()
	if a, err := d.Ask(t.Context(), q); err != nil || !a.Yes {
		t.Errorf("%+v, %v", a, err)
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

// Two equal calls wait for one answer: where one of them is given up, the other one
// goes on waiting.
func TestGivingUpOneCallRefusesNoOther(t *testing.T) {
	s := openStore(t)
	run := newRun(t, s)
	d := &approval.Desk{Store: s, Wait: true, Every: time.Millisecond}
	ctx, giveUp := context.WithCancel(t.Context())
	first, second := make(chan error, 1), make(chan runner.Answer, 1)
	go func() {
		_, err := d.Ask(ctx, write(run, "a.txt", "x"))
		first <- err
	}()
	id := waitFor(t, s, func(q store.Approval) bool { return q.State == store.Waiting })
	go func() {
		a, err := d.Ask(t.Context(), write(run, "a.txt", "x"))
		if err != nil {
			t.Error(err)
		}
		second <- a
	}()
	time.Sleep(20 * time.Millisecond) // so that it most likely waits for the same question
	giveUp()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the first: %v", err)
	}
	again := waitFor(t, s, func(q store.Approval) bool { return q.State == store.Waiting && q.ID != id })
	if _, err := s.Vote(t.Context(), again, store.Vote{By: "user:ann", Yes: true, Where: "elsewhere", At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if a := <-second; !a.Yes {
		t.Errorf("the second: %+v", a)
	}
}

// A yes is for what was shown: where a link leads elsewhere since, the same words
// are another call, and the question says where they lead.
func TestAYesIsForWhereThePathLed(t *testing.T) {
	s := openStore(t)
	run := newRun(t, s)
	d := &approval.Desk{Store: s}
	plain, moved := write(run, "a.txt", "x"), write(run, "a.txt", "x")
	moved.Actions[0].Real = "/w/src/main.go"
	for _, q := range []runner.Question{plain, moved} {
		if _, err := d.Ask(t.Context(), q); !errors.Is(err, fault.NeedsApproval) {
			t.Fatal(err)
		}
	}
	list, err := s.Questions(t.Context(), store.QuestionFilter{State: store.Waiting})
	if err != nil || len(list) != 2 || !strings.Contains(string(list[0].Body), "through a link: /w/src/main.go") {
		t.Fatalf("%+v, %v", list, err)
	}
	if _, err := s.Vote(t.Context(), list[1].ID, store.Vote{By: "user:ann", Yes: true, Where: "elsewhere", At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if a, err := d.Ask(t.Context(), moved); !errors.Is(err, fault.NeedsApproval) {
		t.Errorf("where it leads now: %+v, %v", a, err)
	}
	if a, err := d.Ask(t.Context(), plain); err != nil || !a.Yes {
		t.Errorf("as it was shown: %+v, %v", a, err)
	}
}

// between does something after a call looked for an answer, and before it files
// its question.
type between struct {
	store.Approvals
	do func()
}

func (b between) Request(ctx context.Context, q store.Approval) (store.Approval, error) {
	b.do()
	return b.Approvals.Request(ctx, q)
}

func TestAnAnswerThatComesWhileTheQuestionIsPutCounts(t *testing.T) {
	for name, asking := range map[string]*approval.Desk{
		"nobody is here":   {},
		"told to wait":     {Wait: true},
		"a person is here": {Here: func(context.Context, approval.Case) (store.Vote, error) { panic("asked") }},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t)
			q := write(newRun(t, s), "a.txt", "x")
			if _, err := (&approval.Desk{Store: s}).Ask(t.Context(), q); !errors.Is(err, fault.NeedsApproval) {
				t.Fatal(err)
			}
			first := waitFor(t, s, func(q store.Approval) bool { return q.State == store.Waiting })
			asking.Every = time.Millisecond
			asking.Store = between{s, func() {
				if _, err := s.Vote(t.Context(), first, store.Vote{By: "user:ann", Yes: true, Where: "elsewhere", At: time.Now()}); err != nil {
					t.Error(err)
				}
			}}
			if a, err := asking.Ask(t.Context(), q); err != nil || !a.Yes || a.By != "user:ann" {
				t.Errorf("%+v, %v", a, err)
			}
			if list, err := s.Questions(t.Context(), store.QuestionFilter{}); err != nil || len(list) != 1 || list[0].State != store.Used {
				t.Errorf("%+v, %v", list, err)
			}
		})
	}
}

func TestANoIsToldWithItsReason(t *testing.T) {
	s := openStore(t)
	var asked atomic.Int32
	d := &approval.Desk{Store: s, Here: says(store.Vote{By: "user:ann", Reason: "not this file"}, &asked), Every: time.Millisecond}
	a, err := d.Ask(t.Context(), write(newRun(t, s), "a.txt", "x"))
	if err != nil || a.Yes || a.Reason != "not this file" || a.By != "user:ann" {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestTwoPeopleMustAgree(t *testing.T) {
	s := openStore(t)
	run := newRun(t, s, "rest: inherit\napprovals: {approvers: 2}")
	var asked atomic.Int32
	d := &approval.Desk{Store: s, Here: says(yes("user:ann"), &asked), Every: time.Millisecond}
	done := make(chan runner.Answer)
	go func() {
		a, err := d.Ask(context.Background(), write(run, "a.txt", "x"))
		if err != nil {
			t.Error(err)
		}
		done <- a
	}()
	id := waitFor(t, s, func(q store.Approval) bool { return len(q.Votes) == 1 })
	select {
	case a := <-done:
		t.Fatalf("one was enough: %+v", a)
	case <-time.After(50 * time.Millisecond):
	}
	if _, err := s.Vote(t.Context(), id, store.Vote{By: "user:bob", Yes: true, Where: "elsewhere", At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if a := <-done; !a.Yes || a.By != "user:ann, user:bob" {
		t.Errorf("%+v", a)
	}
}

// A person who is here has no role, so the question waits for others.
func TestAPersonHereHasNoRole(t *testing.T) {
	s := openStore(t)
	run := newRun(t, s, "rest: inherit\napprovals: {roles: [reviewer]}")
	var asked atomic.Int32
	d := &approval.Desk{Store: s, Here: says(yes("user:ann"), &asked), Every: time.Millisecond}
	if a, err := d.Ask(t.Context(), write(run, "a.txt", "x")); !errors.Is(err, fault.NeedsApproval) || a.Yes || asked.Load() != 0 {
		t.Errorf("%+v, %v; asked %d times", a, err, asked.Load())
	}
	id := waitFor(t, s, func(q store.Approval) bool { return q.State == store.Waiting })
	if _, err := s.Vote(t.Context(), id, store.Vote{By: "user:ann", Yes: true, Where: "here", At: time.Now()}); !errors.Is(err, fault.Denied) {
		t.Errorf("a vote without a role: %v", err)
	}
}

// waitFor gives the one question once it is as wanted.
func waitFor(t *testing.T, s store.Approvals, ok func(store.Approval) bool) uuid.UUID {
	t.Helper()
	for range 3000 {
		list, err := s.Questions(t.Context(), store.QuestionFilter{})
		if err != nil {
			t.Fatal(err)
		}
		if i := slices.IndexFunc(list, ok); i >= 0 {
			return list[i].ID
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("it never came to that")
	return uuid.Nil
}

func TestAnAnswerFromElsewhereEndsTheQuestionHere(t *testing.T) {
	s := openStore(t)
	shown, ended := make(chan struct{}), make(chan struct{})
	d := &approval.Desk{Store: s, Every: time.Millisecond, Here: func(ctx context.Context, _ approval.Case) (store.Vote, error) {
		close(shown)
		defer close(ended)
		<-ctx.Done()
		return store.Vote{}, ctx.Err()
	}}
	var voting sync.WaitGroup
	voting.Go(func() {
		<-shown
		id := waitFor(t, s, func(store.Approval) bool { return true })
		if _, err := s.Vote(context.Background(), id, store.Vote{By: "user:bob", Yes: true, At: time.Now()}); err != nil {
			t.Error(err)
		}
	})
	if a, err := d.Ask(t.Context(), write(newRun(t, s), "a.txt", "x")); err != nil || !a.Yes || a.By != "user:bob" {
		t.Errorf("%+v, %v", a, err)
	}
	<-ended
	voting.Wait() // the vote reads the question once more, which a closed store refuses
}

func TestNoAnswerInTimeIsNo(t *testing.T) {
	s := openStore(t)
	run := newRun(t, s, "rest: inherit\napprovals: {timeout: 50ms}")
	d := &approval.Desk{Store: s, Wait: true, Every: time.Millisecond}
	if a, err := d.Ask(t.Context(), write(run, "a.txt", "x")); !errors.Is(err, fault.NeedsApproval) || !strings.Contains(err.Error(), "in time") {
		t.Errorf("%+v, %v", a, err)
	}
	waitFor(t, s, func(q store.Approval) bool { return q.State == store.Lapsed })
}

func TestACallThatIsGivenUpTakesItsQuestionBack(t *testing.T) {
	s := openStore(t)
	d := &approval.Desk{Store: s, Wait: true, Every: time.Millisecond}
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		waitFor(t, s, func(store.Approval) bool { return true })
		stop()
	}()
	if a, err := d.Ask(ctx, write(newRun(t, s), "a.txt", "x")); !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v", a, err)
	}
	waitFor(t, s, func(q store.Approval) bool { return q.State == store.Lapsed })
}

func TestAYesForTheSessionIsForItsPatternAlone(t *testing.T) {
	s := openStore(t)
	run := newRun(t, s)
	var asked atomic.Int32
	var shown approval.Case
	d := &approval.Desk{Store: s, Every: time.Millisecond,
		Past: func(context.Context, *runner.Run) ([]approval.Past, error) {
			past := func(i int, q runner.Question) approval.Past {
				return approval.Past{Index: i, Spec: q.Spec, Digest: q.Digest, Args: q.Call.Args, Actions: q.Actions}
			}
			return []approval.Past{past(1, write(run, "out/z.txt", "1")), past(2, write(run, "src/z.go", "2"))}, nil
		},
		Here: func(_ context.Context, c approval.Case) (store.Vote, error) {
			asked.Add(1)
			if shown = c; c.Body.Pattern == nil {
				return store.Vote{By: "user:ann"}, nil
			}
			b, err := json.Marshal(c.Body.Pattern)
			v := yes("user:ann")
			v.Session = b
			return v, err
		}}
	a, err := d.Ask(t.Context(), write(run, "out/a.txt", "one"))
	if err != nil || !a.Yes || !strings.Contains(a.Where, "session") {
		t.Fatalf("%+v, %v", a, err)
	}
	if len(shown.Matches) != 1 || shown.Matches[0].Index != 1 || len(shown.Others) != 1 || shown.Others[0].Index != 2 {
		t.Errorf("shown: %+v, %+v", shown.Matches, shown.Others)
	}
	if a, err := d.Ask(t.Context(), write(run, "out/b.txt", "two")); err != nil || !a.Yes || asked.Load() != 1 {
		t.Errorf("a call of the pattern: %+v, %v, asked %d times", a, err, asked.Load())
	}
	link := write(run, "out/l.txt", "x")
	link.Actions[0].Real = "/w/src/main.go"
	admin := write(run, "out/c.txt", "x")
	admin.Decision.Admin = true
	none := &approval.Desk{Store: s}
	same := write(run, "out/a.txt", "one")
	same.Actions[0].Real = "/w/src/main.go"
	sameAdmin := write(run, "out/a.txt", "one")
	sameAdmin.Decision.Admin = true
	steered := write(run, "out/b.txt", "three")
	steered.Decision.Refusals = []policy.Refusal{{Effect: policy.Ask, Rule: &policy.Rule{Name: "flows.web.ask[0]"}}}
	for name, q := range map[string]runner.Question{
		"one that a flow asks":  steered,
		"the same, as a link":   same,
		"the same, of admins":   sameAdmin,
		"another folder":        write(run, "src/b.txt", "x"),
		"a folder below":        write(run, "out/deep/b.txt", "x"),
		"through a link":        link,
		"of another session":    write(newRun(t, s), "out/b.txt", "x"),
		"one that admins grant": admin,
	} {
		if a, err := none.Ask(t.Context(), q); err == nil {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

func TestAPolicyCanForbidSessions(t *testing.T) {
	s := openStore(t)
	run := newRun(t, s, "rest: inherit\napprovals: {session: false}")
	d := &approval.Desk{Store: s, Every: time.Millisecond, Here: func(_ context.Context, c approval.Case) (store.Vote, error) {
		if c.Body.Pattern != nil {
			t.Error("a pattern was offered")
		}
		return store.Vote{By: "user:ann"}, nil
	}}
	if a, err := d.Ask(t.Context(), write(run, "out/a.txt", "x")); err != nil || a.Yes {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestTheSameCallTwiceAtOnceNeedsTwoAnswers(t *testing.T) {
	s := openStore(t)
	run := newRun(t, s)
	var asked atomic.Int32
	d := &approval.Desk{Store: s, Every: time.Millisecond, Here: says(yes("user:ann"), &asked)}
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			if a, err := d.Ask(context.Background(), write(run, "a.txt", "x")); err != nil || !a.Yes {
				t.Errorf("%+v, %v", a, err)
			}
		})
	}
	wg.Wait()
	list, err := s.Questions(t.Context(), store.QuestionFilter{State: store.Used})
	if err != nil || len(list) != 5 {
		t.Errorf("%d approvals were used for 5 calls, %v", len(list), err)
	}
}

// A yes, also one for the session, is for the files that a command runs as they
// were shown.
func TestAYesIsForWhatTheFilesHeld(t *testing.T) {
	s := openStore(t)
	run := newRun(t, s)
	d := &approval.Desk{Store: s}
	deploy := func(state string) runner.Question {
		q := write(run, "a.txt", "x")
		q.Call.Args = tool.Args{"argv": []any{"sh", "deploy.sh"}}
		q.Actions = []tool.Action{{Kind: tool.Command, Argv: []string{"sh", "deploy.sh"}, Dir: "/w", Exe: "/bin/dash",
			Contents: []tool.Content{{Path: "/w/deploy.sh", State: state}}}}
		return q
	}
	shown, other := deploy("sha256:11"), deploy("sha256:22")
	if _, err := d.Ask(t.Context(), shown); !errors.Is(err, fault.NeedsApproval) {
		t.Fatal(err)
	}
	list, err := s.Questions(t.Context(), store.QuestionFilter{State: store.Waiting})
	if err != nil || len(list) != 1 || !strings.Contains(string(list[0].Body), "sha256:11") {
		t.Fatalf("%+v, %v", list, err)
	}
	if _, err := s.Vote(t.Context(), list[0].ID, store.Vote{By: "user:ann", Yes: true, Where: "elsewhere", At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if a, err := d.Ask(t.Context(), other); !errors.Is(err, fault.NeedsApproval) {
		t.Errorf("other content: %+v, %v", a, err)
	}
	if a, err := d.Ask(t.Context(), shown); err != nil || !a.Yes {
		t.Errorf("as it was shown: %+v, %v", a, err)
	}
	p, ok := approval.Propose(shown.Spec.ID, shown.Digest, shown.Call.Args, shown.Actions)
	if !ok || !p.Matches(shown.Spec.ID, shown.Digest, shown.Call.Args, shown.Actions) {
		t.Fatalf("the pattern %+v is not of its call", p)
	}
	if p.Matches(other.Spec.ID, other.Digest, other.Call.Args, other.Actions) {
		t.Error("a yes for the session is for other content too")
	}
}

// TestAnswerByHoldsAtATerminal: also where the person can be asked here, or the asker waits. The
// question stays open.
func TestAnswerByHoldsAtATerminal(t *testing.T) {
	s := openStore(t)
	run := newRun(t, s)
	shown := func(ctx context.Context, _ approval.Case) (store.Vote, error) {
		<-ctx.Done()
		return store.Vote{}, ctx.Err()
	}
	for name, d := range map[string]*approval.Desk{"terminal": {Store: s, Here: shown, Every: time.Millisecond}, "waits": {Store: s, Wait: true, Every: time.Millisecond}} {
		q := write(run, name+".txt", "x")
		q.Call.AnswerBy = time.Now().Add(time.Millisecond)
		if _, err := d.Ask(t.Context(), q); !errors.Is(err, fault.NeedsApproval) || approval.Filed(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestACallPausesOnlyWhileItWaits: not for a question that is answered before, nor while its tool
// runs. A call that cannot go on keeps its approval.
func TestACallPausesOnlyWhileItWaits(t *testing.T) {
	s := openStore(t)
	run := newRun(t, s)
	d := &approval.Desk{Store: s, Wait: true, Every: time.Millisecond}
	stuck := errors.New("no place is free")
	for name, tt := range map[string]struct {
		within, yes    bool
		resume         error
		paused, goesOn int
	}{
		"approved": {yes: true, paused: 1, goesOn: 1}, "refused": {paused: 1}, "within": {within: true, yes: true}, "stuck": {yes: true, resume: stuck, paused: 1, goesOn: 1},
	} {
		paused, resumed := 0, 0
		q := write(run, name+".txt", "x")
		q.Within = tt.within
		q.Call.Pause = func() func(context.Context) error {
			paused++
			return func(context.Context) error { resumed++; return tt.resume }
		}
		done := make(chan error, 1)
		go func() { _, err := d.Ask(t.Context(), q); done <- err }()
		id := waitFor(t, s, func(q store.Approval) bool { return q.State == store.Waiting })
		if _, err := s.Vote(t.Context(), id, store.Vote{By: "user:ann", Yes: tt.yes, Where: "elsewhere", At: time.Now()}); err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, tt.resume) || paused != tt.paused || resumed != tt.goesOn {
			t.Errorf("%s: %v; paused %d times, resumed %d times", name, err, paused, resumed)
		}
		if tt.resume == nil {
			continue
		}
		if a, err := d.Ask(t.Context(), q); err != nil || !a.Yes || paused != tt.paused {
			t.Errorf("%s, again: %+v %v", name, a, err)
		}
	}
}
