package webui_test

import (
	"net/url"
	"strings"
	"testing"
)

func TestFlows(t *testing.T) {
	const path = "/v1/policies/authority"
	asked := "/ui/flows?" + url.Values{"from": {" agent:docs "}, "to": {"network *"}}.Encode()
	for name, c := range map[string]struct {
		answer string
		status int
		says   []string
	}{
		"a way": {`{"holders":["agent:docs"],"ways":{"from":"agent:docs","to":"network *","verdict":"reachable","steps":[],"cut":[{"rule":"files.write.allow[0] \"<b>\"","line":5}],
			"map":{"nodes":[{"column":"holder","name":"agent:docs"},{"column":"sink","name":"POST https://x.test/</title><script>"}],
			"edges":[{"from":0,"to":1,"open":true,"step":{"from":"agent:docs","does":"sends to","to":"POST https://x.test/","effect":"allow","rule":"network.allow[0]","proved":true}}]}}}`, 200,
			[]string{"⊘ reachable", `files.write.allow[0] &#34;&lt;b&gt;&#34;`, `<path class="open"`, "without a person", "x.test/&lt;/title&gt;", "✓ allow"}},
		"no way":     {`{"holders":["agent:docs"],"ways":{"from":"agent:docs","to":"network *","verdict":"unreachable","steps":[],"cut":[],"map":{"nodes":[],"edges":[]}}}`, 200, []string{"✓ no way", "By the policies, nothing leads there"}},
		"a mistake":  {`{"status":400,"title":"Bad Request","code":"E9001","detail":"\"<i>\" is neither a principal nor a section"}`, 400, []string{"&lt;i&gt;", `value="agent:docs"`}},
		"signed out": {`{"status":401,"title":"Unauthorized","code":"E6003","detail":"the grant was revoked"}`, 401, []string{"the grant was revoked"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, a, _ := newServer(t)
			a.done = map[string]string{path: c.answer}
			w := ask(s, asked, nil)
			if w.Code != c.status || a.sent[0] != `POST `+path+` {"from":"agent:docs","to":"network *"}` {
				t.Errorf("status %d, sent %q", w.Code, a.sent)
			}
			for _, text := range c.says {
				if !strings.Contains(w.Body.String(), text) {
					t.Errorf("the page does not say %q: %s", text, w.Body)
				}
			}
			if strings.Contains(w.Body.String(), "<script>") {
				t.Error("text became markup")
			}
		})
	}
}
