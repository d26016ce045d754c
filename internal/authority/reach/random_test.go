package reach_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/reach"
	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/base/tool"
)

// TestRandomWorlds makes random policies, with roles, labels and flows, and lets holders read,
// write and send in every way that the policies themselves decide. Where something got
// somewhere, no answer may be that there is no way.
func TestRandomWorlds(t *testing.T) {
	racetest.Skip(t, "one goroutine computes")
	worlds := 5
	if os.Getenv("REMIT_SOAK") != "" {
		worlds = 600
	}
	rnd := rand.New(rand.NewPCG(5, uint64(worlds)))
	m := moves{t: t}
	got, none := 0, 0
	for range worlds {
		doc := randomPolicy(rnd)
		w := world(t, doc, "agent:a", "agent:b")
		for _, from := range paths {
			reached := m.from(w, from)
			for _, to := range append(hosts, paths...) {
				a, err := w.Ask("files "+string(from), to.question())
				if err != nil {
					t.Fatal(err, doc)
				}
				switch {
				case reached[to] && a.Verdict == reach.Unreachable:
					t.Fatalf("%s got to %s, and the answer is that there is no way:\n%s", from, to, doc)
				case reached[to]:
					got++
				case a.Verdict == reach.Unreachable:
					none++
				}
			}
		}
	}
	t.Logf("%d decisions in %d worlds; %d ways were gone, and %d were proved not to be", m.decisions, worlds, got, none)
	if got < worlds || none < worlds {
		t.Error("the worlds are too much alike")
	}
}

// TestADenyReachesNothingMore adds an entry of deny to random policies. What could not be
// reached before cannot be reached after.
func TestADenyReachesNothingMore(t *testing.T) {
	worlds, froms, tos := 2, paths[1:2], []spot{hosts[0], hosts[2], paths[3]}
	if os.Getenv("REMIT_SOAK") != "" {
		worlds, froms, tos = 300, paths, append(hosts, paths...)
	}
	rnd := rand.New(rand.NewPCG(7, uint64(worlds)))
	denied := []string{"src/**", "private/**", "out/*", "**/*.key", "*/x"}
	closed := 0
	for range worlds {
		doc := randomPolicy(rnd)
		narrow := strings.Replace(doc, "deny: ['", "deny: ['"+denied[rnd.IntN(len(denied))]+"', '", 1+rnd.IntN(2))
		wide, less := world(t, doc, "agent:a", "agent:b"), world(t, narrow, "agent:a", "agent:b")
		for _, from := range froms {
			for _, to := range tos {
				was, err := wide.Ask("files "+string(from), to.question())
				if err != nil {
					t.Fatal(err, doc)
				}
				is, err := less.Ask("files "+string(from), to.question())
				if err != nil {
					t.Fatal(err, narrow)
				}
				if was.Verdict == reach.Unreachable {
					closed++
					if is.Verdict != reach.Unreachable {
						t.Fatalf("%s could not get to %s, and can after a deny:\n%s\nthen\n%s", from, to, doc, narrow)
					}
				}
			}
		}
	}
	if closed == 0 {
		t.Error("the worlds are too much alike")
	}
}

// spot is a file or a request.
type spot string

var (
	paths = []spot{"/ws/src/a", "/ws/private/x", "/ws/private/k.key", "/ws/out/o", "/ws/docs/.env"}
	hosts = []spot{"GET https://api.test:443/", "POST https://api.test:443/v1", "GET https://evil.test:443/"}
)

func (s spot) question() string {
	if s[0] == '/' {
		return "files.write " + string(s)
	}
	return "network " + string(s)
}

func randomPolicy(rnd *rand.Rand) string {
	pick := func(list ...string) string { return list[rnd.IntN(len(list))] }
	files := func() string {
		return pick("**", "src/**", "private/**", "out/*", "docs/**", "**/*.key", "docs/.env", "*/x")
	}
	net := func() string { return pick("api.test", "*", "POST api.test", "GET *.test", "evil.test") }
	doc := fmt.Sprintf("files: {read: {allow: ['%s', '%s'], ask: ['%s'], deny: ['%s']}, write: {allow: ['%s'], deny: ['%s']}}\nnetwork: {allow: ['%s'], ask: ['%s'], deny: ['%s']}\n",
		files(), files(), files(), files(), files(), files(), net(), net(), net())
	doc += pick("", "", "tools: {allow: [fs.read, fs.write, http.get]}\n", "tools: {deny: [http.get]}\n", "tools: {allow: [fs.read, http.get]}\n", "tools: {allow: [fs.read], unlisted: ask}\n")
	doc += fmt.Sprintf("roles:\n  agent:a: {rest: inherit, network: {allow: ['%s']}}\n  agent:b: {rest: inherit, files: {read: {allow: ['%s']}, write: {allow: ['%s']}}}\n", net(), files(), files())
	switch rnd.IntN(3) {
	case 0:
		doc += fmt.Sprintf("labels: {private: {from: ['files private/**'], kind: confidential}}\nflows: {private: {only: ['%s', '%s']}}\n",
			pick("network api.test", "network POST api.test", "files out/**"), pick("files private/**", "files docs/**", "network evil.test"))
	case 1:
		doc += fmt.Sprintf("labels: {seen: {from: ['files %s']}}\nflows: {seen: {ask: ['network %s', 'files %s']}}\n", pick("private/**", "src/**"), net(), files())
	}
	return doc
}

// moves makes holders move data, as the policies decide.
type moves struct {
	t         *testing.T
	decisions int
}

// session is a holder whose session has what it read, and labels.
type session struct {
	holder int
	labels policy.Labels
}

// from gives the places that what is at one of them gets to, by any number of holders.
func (m *moves) from(w *reach.World, source spot) map[spot]bool {
	flows := make([]*policy.Flows, len(w.Holders))
	for h := range w.Holders {
		var err error
		if flows[h], err = w.Holders[h].Chain.Flows(); err != nil {
			m.t.Fatal(err)
		}
	}
	reached, has, seen := map[spot]bool{}, []spot{source}, map[session]bool{}
	for len(has) > 0 {
		p := has[0]
		has = has[1:]
		for h := range w.Holders {
			ok, labels := m.does(w.Holders[h].Chain, flows[h], 0, "files.read", p)
			s := session{h, labels}
			if !ok || seen[s] {
				continue
			}
			seen[s] = true
			for _, q := range paths {
				if ok, _ := m.does(w.Holders[h].Chain, flows[h], labels, "files.write", q); ok && !reached[q] {
					reached[q] = true
					has = append(has, q)
				}
			}
			for _, to := range hosts {
				if ok, _ := m.does(w.Holders[h].Chain, flows[h], labels, "network", to); ok {
					reached[to] = true
				}
			}
		}
	}
	return reached
}

// does reports whether some tool may do this, at least after a question, in a session with
// labels, and which labels the session has then.
func (m *moves) does(chain policy.Chain, flows *policy.Flows, labels policy.Labels, section string, on spot) (bool, policy.Labels) {
	a, ok := policy.ActionOn(section, string(on))
	if !ok {
		m.t.Fatal(on)
	}
	for _, spec := range builtin {
		does := map[string]tool.Effect{"files.read": tool.FSRead, "files.write": tool.FSWrite, "network": tool.NetworkHTTP}[section]
		if !spec.Effects.Has(does) || spec.Effects.Has(tool.SystemExec) {
			continue
		}
		m.decisions++
		call := policy.Call{Tool: spec, Actions: []tool.Action{a}}
		if chain.Decide(call).Effect < policy.Ask {
			continue
		}
		if flows == nil {
			return true, labels
		}
		of := flows.Of(call, false)
		if flows.DecideFlows(flows.Narrow(labels, of, false), call).Effect >= policy.Ask {
			return true, labels | of.Result
		}
	}
	return false, labels
}
