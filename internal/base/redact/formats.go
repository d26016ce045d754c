package redact

import (
	"regexp"
	"strings"
	"sync"
)

// format is one well-known form of a secret. The pattern runs only where one of
// the hints, in lower case, occurs: most text has none and is passed at the
// speed of a search for words.
type format struct {
	kind  string
	hints []string
	re    func() *regexp.Regexp
	with  string // the replacement; groups keep the text around the secret
}

// lazy compiles a pattern when a text first has its hint: most never do, and
// compiling all of them would be felt at every start of the program.
func lazy(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

// Formats are the forms that only logs and reports hide, besides the keys of [Keys]: secrets by the words around them, and
// parts and older forms of keys. They would hide too much other text from a model. Those that swallow others come first.
var formatList = []format{
	{"private-key", []string{"private key"},
		lazy(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z)`), ""},
	// Remit's own grants and holders' proofs, also where a word runs into them.
	{"grant", []string{"remit1_", "remitp1_"}, lazy(`remitp?1_[A-Za-z0-9_-]{8,}`), ""},
	{"header", []string{"authorization", "cookie", "api-key", "auth-token", "private-token"},
		lazy(`(?i)(\b(?:proxy-)?authorization|\b(?:set-)?cookie|\bx-api-key|\bapi-key|\bx-[a-z-]*auth-token|\bprivate-token)(\\?["']?[ \t]*[:=][ \t]*\\?["']?)[^\r\n"'\\]+`), "${1}${2}"},
	{"url-password", []string{"://"},
		lazy(`([A-Za-z][A-Za-z0-9+.-]*://[^/\s:@"'<>?#]*):[^/\s@"'<>]+@`), "${1}:"},
	{"anthropic", []string{"sk-ant-"}, lazy(`\bsk-ant-[A-Za-z0-9_-]{8,}`), ""},
	{"openai", []string{"sk-"}, lazy(`\bsk-(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{20,}`), ""},
	{"aws", []string{"akia", "asia"}, lazy(`\b(?:AKIA|ASIA)[A-Z0-9]{16}\b`), ""},
	{"github", []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"},
		lazy(`\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})`), ""},
	{"gitlab", []string{"glpat-", "gldt-", "glrt-"}, lazy(`\bgl(?:pat|dt|rt)-[A-Za-z0-9_-]{16,}`), ""},
	{"slack", []string{"xox", "xapp-"}, lazy(`\b(?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{10,}`), ""},
	{"google", []string{"aiza", "ya29."}, lazy(`\b(?:AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{20,})`), ""},
	{"stripe", []string{"_live_", "_test_", "whsec_"},
		lazy(`\b(?:(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{16,})`), ""},
	{"npm", []string{"npm_"}, lazy(`\bnpm_[A-Za-z0-9]{30,}`), ""},
	{"pypi", []string{"pypi-"}, lazy(`\bpypi-[A-Za-z0-9_-]{16,}`), ""},
	{"huggingface", []string{"hf_"}, lazy(`\bhf_[A-Za-z0-9]{30,}`), ""},
	{"age", []string{"age-secret-key-"}, lazy(`(?i)\bAGE-SECRET-KEY-(?:PQ-)?1[A-Z0-9]{20,}`), ""},
	{"jwt", []string{"eyj"}, lazy(`\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*`), ""},
	{"assigned", []string{"password", "passwd", "passphrase", "secret", "token", "api_key", "apikey", "access_key", "private_key"},
		lazy(`(?i)([A-Z0-9_.-]*(?:password|passwd|passphrase|secret|token|api_?key|access_key|private_key)\\?["']?(?:[ \t]?=[ \t]?|:[ \t]*\\?["'])\\?["']?)[^\s"'&,;\\\[\]{}()]{6,}`), "${1}"},
	{"assigned", []string{"password:", "passwd:", "passphrase:", "secret:", "token:", "api_key:", "apikey:", "access_key:", "private_key:"},
		lazy(`(?im)^([ \t-]*["']?[a-z0-9_.-]*(?:password|passwd|passphrase|secret|token|api_?key|access_key|private_key)["']?:[ \t]+["']?)[^\s"'#&*$\[\]{}|>][^\s"'#\[\]{}]{5,}`), "${1}"}, // a line of YAML
	{"bearer", []string{"bearer "}, lazy(`(?i)(\bbearer )[A-Za-z0-9._~+/=-]{12,}`), "${1}"},
}

// kinds lists every word that a marker can hold.
func kinds() []string {
	out := []string{"env", "field", "unprintable"}
	for _, f := range formatList {
		out = append(out, f.kind)
	}
	for _, rules := range [][]keyRule{ownRules, keyRules} {
		for _, r := range rules {
			out = append(out, r.id)
		}
	}
	return out
}

// formats replaces the well-known forms in s.
func formats(s string) string {
	low := strings.ToLower(s)
	for i := range formatList {
		f := &formatList[i]
		if !hinted(low, f.hints) {
			continue
		}
		tail := ""
		if f.kind == "url-password" {
			tail = "@"
		}
		s = f.re().ReplaceAllString(s, f.with+marker(f.kind)+tail)
	}
	s, _ = Keys(s)
	return s
}

func hinted(low string, hints []string) bool {
	for _, h := range hints {
		if strings.Contains(low, h) {
			return true
		}
	}
	return false
}
