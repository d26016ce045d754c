package policy_test

import (
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
)

// Writes are held if any policy of the chain says so, and no later one can say
// otherwise.
func TestHold(t *testing.T) {
	for name, tc := range map[string]struct {
		docs []string
		want bool
	}{
		"nobody":           {[]string{"files: {write: {allow: ['**']}}"}, false},
		"the only one":     {[]string{"files: {write: {hold: true}}"}, true},
		"said not to":      {[]string{"files: {write: {hold: false}}"}, false},
		"the outer one":    {[]string{"files: {write: {hold: true}}", "files: {write: {hold: false}}"}, true},
		"a narrower one":   {[]string{"files: {write: {allow: ['**']}}", "files: {write: {hold: true}}"}, true},
		"one that is left": {[]string{"files: {write: {hold: true}}", "rest: inherit"}, true},
	} {
		if got := chain(t, tc.docs...).Limits().Hold; got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
	p, err := policy.Parse("p.yaml", []byte("version: 1\nfiles: {write: {hold: true}}"))
	if err != nil || !strings.Contains(string(p.Print()), "hold: true") {
		t.Errorf("it is printed as\n%s (%v)", p.Print(), err)
	}
	if _, err := policy.Parse("p.yaml", []byte("version: 1\nfiles: {write: {hold: sometimes}}")); err == nil || !strings.Contains(err.Error(), "p.yaml:2:23: files.write.hold") {
		t.Errorf("got %v", err)
	}
}

// A call waits for review if any policy of the chain says so. What reads is not held, and what
// no policy names is not.
func TestWhichCallsWaitForReview(t *testing.T) {
	mail := &tool.Spec{ID: "mcp:mail:send", Risk: tool.High, Effects: tool.EffectSet(tool.Payments)}
	request := &tool.Spec{ID: "http.request", Source: "builtin", Risk: tool.High, Effects: tool.EffectSet(tool.NetworkHTTP)}
	to := func(method, path string) []tool.Action {
		return []tool.Action{{Kind: tool.Network, Target: tool.Target{Scheme: "https", Host: "a.example", Port: 443, Method: method, Path: path}}}
	}
	write := []tool.Action{{Kind: tool.TableWrite, Database: "main", SQL: "DELETE FROM t"}}
	open, held, ask := "network: {allow: ['https://a.example/**']}", "network: {allow: [{url: 'https://a.example/**', hold: true}]}", "network: {allow: [{url: 'https://a.example/**', hold: ask}]}"
	for name, tc := range map[string]struct {
		docs []string
		call policy.Call
		want policy.Hold
	}{
		"nobody says so":         {[]string{open}, policy.Call{Tool: request, Actions: to("POST", "/x")}, policy.NoHold},
		"the entry of its host":  {[]string{held}, policy.Call{Tool: request, Actions: to("POST", "/x")}, policy.HoldBack},
		"it reads":               {[]string{held}, policy.Call{Tool: request, Actions: to("GET", "/x")}, policy.NoHold},
		"its answer is needed":   {[]string{ask}, policy.Call{Tool: request, Actions: to("POST", "/x")}, policy.HoldAsk},
		"the outer policy":       {[]string{held, open}, policy.Call{Tool: request, Actions: to("POST", "/x")}, policy.HoldBack},
		"the narrower policy":    {[]string{open, held}, policy.Call{Tool: request, Actions: to("POST", "/x")}, policy.HoldBack},
		"the strictest":          {[]string{ask, held}, policy.Call{Tool: request, Actions: to("POST", "/x")}, policy.HoldBack},
		"unseen requests":        {[]string{"network: {allow: [{url: 'POST https://a.example/pay', hold: true}]}"}, policy.Call{Tool: request, Actions: to("", "")}, policy.HoldBack},
		"another path":           {[]string{"network: {allow: [{url: 'POST https://a.example/pay', hold: true}]}"}, policy.Call{Tool: request, Actions: to("POST", "/x")}, policy.NoHold},
		"a tool":                 {[]string{"tools: {allow: [{tool: 'mcp:mail:*', hold: true}]}"}, policy.Call{Tool: mail}, policy.HoldBack},
		"a tool with arguments":  {[]string{"tools: {allow: [{tool: 'mcp:mail:*', args: {to: {equals: ann}}, others: allow, hold: true}]}"}, policy.Call{Tool: mail, Args: tool.Args{"to": "bob"}}, policy.NoHold},
		"a side effect":          {[]string{"side_effects: {hold: [payments]}\ntools: {allow: ['mcp:**']}"}, policy.Call{Tool: mail}, policy.HoldBack},
		"another side effect":    {[]string{"side_effects: {hold: [fs.delete]}"}, policy.Call{Tool: mail}, policy.NoHold},
		"a database":             {[]string{"databases: {main: {url: 'sqlite:a.db', write: ['*'], hold: true}}"}, policy.Call{Tool: request, Actions: write}, policy.HoldBack},
		"another database":       {[]string{"databases: {main: {url: 'sqlite:a.db', write: ['*']}, b: {url: 'sqlite:b.db', hold: true}}"}, policy.Call{Tool: request, Actions: write}, policy.NoHold},
		"hold does not mean yes": {[]string{"tools: {allow: [{tool: 'mcp:mail:*', hold: false}]}"}, policy.Call{Tool: mail}, policy.NoHold},
	} {
		c := chain(t, tc.docs...)
		got, rule := c.Holding(tc.call)
		if got != tc.want || (rule != nil) != (got != policy.NoHold) {
			t.Errorf("%s: %v by %v, want %v", name, got, rule, tc.want)
		}
		if got == policy.HoldBack && !c.MayHold() {
			t.Errorf("%s: MayHold says that no call can wait", name)
		}
	}
	for _, src := range []string{"tools: {deny: [{tool: x, hold: true}]}", "network: {allow: [{url: a.example, hold: later}]}"} {
		if _, err := policy.Parse("p.yaml", []byte("version: 1\n"+src)); err == nil || !strings.Contains(err.Error(), "hold") {
			t.Errorf("%s: %v", src, err)
		}
	}
	src := "version: 1\nnetwork: {allow: [{url: 'https://a.example', hold: ask}]}\ntools: {allow: [{tool: x, hold: true}]}\ndatabases: {main: {url: 'sqlite:a.db', hold: true}}\nside_effects: {hold: [payments]}\n"
	p, err := policy.Parse("p.yaml", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	again, err := policy.Parse("p.yaml", p.Print())
	if err != nil || string(again.Print()) != string(p.Print()) || strings.Count(string(p.Print()), "hold:") != 4 {
		t.Errorf("printed as\n%s\n(%v)", p.Print(), err)
	}
}
