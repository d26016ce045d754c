package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
)

func files(allow, deny string) string {
	return fmt.Sprintf("files: {read: {allow: [%s], deny: [%s]}, write: {allow: [%s], deny: [%s]}}", allow, deny, allow, deny)
}

func TestFileRules(t *testing.T) {
	tests := []struct {
		name, policy string
		action       tool.Action
		want         policy.Effect
		reason       string
	}{
		{"no rule at all", "", read("a"), policy.Deny, "files.read.allow is empty"},
		{"allowed", files(`"**"`, ""), read("a/b"), policy.Allow, `files.read.allow[0] "**"`},
		{"the workspace itself", files(`"**"`, ""), read("/ws"), policy.Allow, ""},
		{"outside", files(`"**"`, ""), read("/etc/passwd"), policy.Deny, `no entry of files.read.allow matches "/etc/passwd"`},
		{"sibling of the workspace", files(`"**"`, ""), read("/wsx/a"), policy.Deny, ""},
		{"no match", files(`"docs/**"`, ""), read("secret.txt"), policy.Deny, `no entry of files.read.allow matches "secret.txt"`},
		{"folder itself", files(`"docs/**"`, ""), read("docs"), policy.Allow, ""},
		{"deny beats a narrower allow", files(`"**", "a/b.txt"`, `"a/**"`), read("a/b.txt"), policy.Deny, "files.read.deny[0]"},
		{"deny at any depth, outside too", files(`"/**"`, `"**/*.bak"`), read("/x/y.bak"), policy.Deny, ""},
		{"deny without **/ is anchored", files(`"**"`, `"x.bak"`), read("a/x.bak"), policy.Allow, ""},
		{"dot files are ordinary", files(`"**"`, ""), read(".gitignore"), policy.Allow, ""},
		{"deny of a folder is deny of what is in it", files(`"**"`, `"private"`), read("private/a/b"), policy.Deny, "deny[0]"},
		{"also where a wildcard names it", files(`"**"`, `"**/*.bak"`), read("a/Old.BAK/b/c"), policy.Deny, "deny[0]"},
		{"but not of what begins alike", files(`"**"`, `"private"`), read("privately/a"), policy.Allow, ""},
		{"case trick", files(`"**"`, `".git/**"`), read(".GIT/hooks/x"), policy.Deny, "deny[0]"},
		{"full width dot", files(`"**"`, `"**/.secret"`), read("．secret"), policy.Deny, "deny[0]"},
		{"invisible character", files(`"**"`, `"**/.secret"`), read(".sec\u200bret"), policy.Deny, "deny[0]"},
		{"trailing dot", files(`"**"`, `"**/.secret"`), read(".secret."), policy.Deny, "deny[0]"},
		{"trailing space in a folder", files(`"**"`, `"private/**"`), read("private /a"), policy.Deny, "deny[0]"},
		{"decomposed", files(`"**"`, `"café/**"`), read("cafe\u0301/x"), policy.Deny, "deny[0]"},
		{"allow is exact about case", files(`"docs/**"`, ""), read("DOCS/a"), policy.Deny, ""},
		{"allow is exact about form", files(`"café/**"`, ""), read("cafe\u0301/x"), policy.Deny, ""},
		{"not clean", files(`"/**"`, ""), read("/ws/../etc"), policy.Deny, "not clean"},
		{"trailing slash", files(`"/**"`, ""), read("/ws/a/"), policy.Deny, "not clean"},
		{"relative", files(`"/**"`, ""), tool.Action{Kind: tool.FileRead, Path: "a"}, policy.Deny, "not absolute"},
		{"empty", files(`"/**"`, ""), tool.Action{Kind: tool.FileRead}, policy.Deny, "empty"},
		{"NUL", files(`"/**"`, ""), read("a\x00b"), policy.Deny, "NUL"},
		{"not UTF-8", files(`"/**"`, ""), read("a\xff"), policy.Deny, "UTF-8"},
		{"too long", files(`"/**"`, ""), read("/" + strings.Repeat("a/", 2048) + "a"), policy.Deny, "4096"},
		{"long name", files(`"/**"`, ""), read("/" + strings.Repeat("a", 256)), policy.Deny, "255"},
		{"proc", files(`"/**"`, ""), read("/proc/self/environ"), policy.Deny, "belongs to the kernel"},
		{"dev by wildcard", files(`"/dev/*"`, ""), read("/dev/null"), policy.Deny, ""},
		{"dev literally", files(`"/dev/null"`, ""), read("/dev/null"), policy.Allow, ""},
		{"home", files(`"~/notes/**"`, ""), read("/home/u/notes/a"), policy.Allow, ""},
		{"real path denied", files(`"**"`, ""), tool.Action{Kind: tool.FileRead, Path: "/ws/link", Real: "/etc/passwd"}, policy.Deny, `"/etc/passwd"`},
		{"real path in deny", files(`"**"`, `"private/**"`), tool.Action{Kind: tool.FileRead, Path: "/ws/link", Real: "/ws/private/x"}, policy.Deny, "deny[0]"},
		{"asked path denied", files(`"**"`, `"link"`), tool.Action{Kind: tool.FileRead, Path: "/ws/link", Real: "/ws/x"}, policy.Deny, "deny[0]"},
		{"both allowed", files(`"**"`, `"private/**"`), tool.Action{Kind: tool.FileRead, Path: "/ws/link", Real: "/ws/x"}, policy.Allow, ""},
		{"unknown action", files(`"/**"`, ""), tool.Action{Kind: tool.FileRead, Path: "/ws/a", Unknown: "who knows"}, policy.Deny, "who knows"},
		{"no action", files(`"/**"`, ""), tool.Action{}, policy.Deny, "unknown kind of action"},
		{"a kind that does not exist", files(`"/**"`, ""), tool.Action{Kind: 77}, policy.Deny, "unknown kind of action"},
		{"read is not write", "files: {read: {allow: ['**']}}", write("a"), policy.Deny, ""},
		{"ask", "files: {read: {allow: ['**'], ask: ['b*']}}", read("b1"), policy.Ask, "files.read.ask[0]"},
		{"hostile pattern", files(`"`+strings.Repeat("*a", 60)+`b"`, ""), read(strings.Repeat("a", 250)), policy.Deny, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := chain(t, tt.policy).DecideAction(tt.action)
			if d.Effect != tt.want || !strings.Contains(d.Reason, tt.reason) {
				t.Errorf("%s gives %v %q, want %v %q", tt.action, d.Effect, d.Reason, tt.want, tt.reason)
			}
			if (d.Effect == policy.Allow) != (d.Refusals == nil) || d.Rule == nil {
				t.Errorf("rule %v, refusals %v", d.Rule, d.Refusals)
			}
		})
	}
}

func TestSensitiveNames(t *testing.T) {
	tests := []struct {
		allow  string
		action tool.Action
		want   policy.Effect
	}{
		{"**", read(".env"), policy.Deny},
		{"**", read(".ENV"), policy.Deny},
		{"**", read("．env"), policy.Deny},
		{"*", read(".env"), policy.Deny},
		{".e*", read(".env"), policy.Deny},
		{".env", read(".env"), policy.Allow},
		{".env*", read(".env"), policy.Allow},
		{".env*", read(".env.local"), policy.Deny},
		{".env.*", read(".env.local"), policy.Allow},
		{"*.env", read(".env"), policy.Deny},
		{"**/.env", read("a/b/.env"), policy.Allow},
		{"**", read(".environment"), policy.Allow},
		{"**", read("a/.ssh/config"), policy.Deny},
		{".ssh/**", read(".ssh/known_hosts"), policy.Allow},
		{".ssh/**", read(".ssh/id_rsa"), policy.Deny},
		{".ssh/id_rsa*", read(".ssh/id_rsa.pub"), policy.Allow},
		{"**", read("server.pem"), policy.Deny},
		{"*.pem", read("server.pem"), policy.Allow},
		{"**", read("SERVER.PEM"), policy.Deny},
		{"**", read(".config/app/x"), policy.Allow},
		{".config/**", read(".config/gh/hosts.yml"), policy.Deny},
		{"*/gh/**", read(".config/gh/hosts.yml"), policy.Deny},
		{".config/gh/**", read(".config/gh/hosts.yml"), policy.Allow},
		{"**", read(".git/config"), policy.Allow},
		{"**", write(".git/config"), policy.Deny},
		{"**", write(".git/modules/sub/hooks/post-checkout"), policy.Deny},
		{"**", write(".husky/pre-commit"), policy.Deny},
		{"**", write(".git/hooks/pre-commit"), policy.Deny},
		{".git/hooks/*", write(".git/hooks/pre-commit"), policy.Allow},
		{"**", write(".git/index"), policy.Allow},
		{"**", read("remit.yaml"), policy.Allow},
		{"**", write("a/remit.yaml"), policy.Deny},
		{"**", write(".bashrc"), policy.Deny},
		{"~/**", read("/home/u/.local/share/remit/remit.db"), policy.Deny},
		{"~/.local/share/remit/**", read("/home/u/.local/share/remit/remit.db"), policy.Deny},
		{"~/.local/share/remit/remit.db", read("/home/u/.local/share/remit/remit.db"), policy.Allow},
		{"~/**", read("/home/u/.local/share/remitx/a"), policy.Allow},
		{"**/.env*/**", read("x/.env/y/.env"), policy.Deny},
		{".config/**", write(".config/systemd/user/x.service"), policy.Deny},
		{"**", write(".config/systemd/x"), policy.Allow},
		{".config/systemd/user/**", write(".config/systemd/user/x.service"), policy.Allow},
		{".config/*/user/**", write(".config/systemd/user/x.service"), policy.Deny},
		{"**", read(".CONFIG/.config/gh/x"), policy.Deny},
		{"**", write(".git/.git/hooks/x"), policy.Deny},
		{".cargo/**", read(".cargo/credentials.toml"), policy.Deny},
		{".cargo/credentials*", read(".cargo/credentials.toml"), policy.Allow},
		{"*/credentials.toml", read(".cargo/credentials.toml"), policy.Deny},
		{"**", read("credentials.toml"), policy.Allow},
		{"**", write("a/.git"), policy.Deny},
		{"**/.git", write("a/.git"), policy.Allow},
		{"a/.git/**", write("a/.git"), policy.Allow},
		{"**", write("a/.git/objects/x"), policy.Allow},
		{"**", write("a/.git/HEAD"), policy.Allow},
		{"**", write("a/HEAD"), policy.Allow},
		{"**", write("a/HEAD/x"), policy.Allow},
		{"**", read("a/.git"), policy.Allow},
		{"**", read("id_token.go"), policy.Allow},
		{"**", write("a/ids/key.go"), policy.Allow},
		{"*/.env*/y/.env", read("x/.env/y/.env"), policy.Allow},
	}
	for _, tt := range tests {
		d := chain(t, files(`"`+tt.allow+`"`, "")).DecideAction(tt.action)
		if d.Effect != tt.want {
			t.Errorf("allow %q: %s gives %v (%s), want %v", tt.allow, tt.action, d.Effect, d.Reason, tt.want)
		}
	}
}

// Names that hold secrets, and names that other programs run by themselves, at
// any depth and in any case.
func TestSensitiveNamesOfToolsAndAgents(t *testing.T) {
	c := chain(t, files(`"**"`, ""))
	for _, n := range strings.Fields(`.envrc .claude.json .claude/.credentials.json .codex/auth.json .gemini/oauth_creds.json .pgpass .password-store/a.gpg
		.vault-token .cargo/credentials .cargo/credentials.toml .local/share/keyrings/login.keyring id_rsa id_dsa id_ecdsa id_ecdsa_sk id_ed25519 a.pfx
		a.kdbx a.p12 a.jks app.env .env-prod a.tfvars.json a.auto.tfvars secrets.yml .dev.vars .dev.vars.local .vault_pass .vault_pass.txt
		deploy_key kubeconfig-prod acme.kubeconfig gcp-credentials.json wp-config.php .terraform.d/credentials.tfrc.json .m2/settings.xml .gcloud/x .pki/x .config/op/x .secrets .1password/x`) {
		for _, p := range []string{n, "a/b/" + n, strings.ToUpper(n), n + "/below"} {
			if d := c.DecideAction(read(p)); d.Effect != policy.Deny && !strings.Contains(n, "*") {
				t.Errorf("reading %q gives %v", p, d.Effect)
			}
			if d := c.DecideAction(write(p)); d.Effect != policy.Deny {
				t.Errorf("writing %q gives %v", p, d.Effect)
			}
		}
	}
	for _, n := range strings.Fields(`.git .gitmodules .gitattributes .gitconfig .config/git/config .config/git/attributes .hg/hgrc .github/workflows/ci.yml
		.gitlab-ci.yml .devcontainer/devcontainer.json .vimrc .exrc .nvim.lua .gdbinit .lldbinit .cargo/config.toml .mise.toml .tool-versions
		.pre-commit-config.yaml .codex/config.toml .gemini/settings.json .cursor/mcp.json .kiro/x .zed/tasks.json .opencode/x .ripgreprc
		.bash_aliases .config/systemd/user/x.service .config/autostart/x.desktop .local/bin/ls .git/commondir .git/worktrees/x/commondir .claude/settings.json`) {
		for _, p := range []string{n, "a/b/" + n, strings.ToUpper(n)} {
			if d := c.DecideAction(write(p)); d.Effect != policy.Deny {
				t.Errorf("writing %q gives %v", p, d.Effect)
			}
			if d := c.DecideAction(read(p)); d.Effect != policy.Allow {
				t.Errorf("reading %q gives %v (%s)", p, d.Effect, d.Reason)
			}
		}
	}
}

// Every name of the lists is found by the index that decisions use.
func TestEverySensitiveNameIsFound(t *testing.T) {
	c := chain(t, files(`"**"`, ""))
	found := func(of func(string) tool.Action, name string) {
		t.Helper()
		name = strings.ReplaceAll(name, "*", "x")
		for _, p := range []string{name, "a/b/" + name, strings.ToUpper(name)} {
			if d := c.DecideAction(of(p)); d.Effect != policy.Deny {
				t.Errorf("%s gives %v", of(p), d.Effect)
			}
			if !policy.Spelled(p) {
				t.Errorf("%q need not be spelled", p)
			}
		}
	}
	for _, n := range policy.Sensitive(false) {
		found(read, n)
	}
	for _, n := range slices.Concat(policy.Sensitive(true), policy.SensitiveAlone()) {
		found(write, n)
	}
}

// TestExamplesAreOrdinary: examples, public keys and Go's own file of variables are ordinary, longer names are not.
func TestExamplesAreOrdinary(t *testing.T) {
	c := chain(t, files(`"**"`, ""))
	effect := func(want policy.Effect, p string) {
		t.Helper()
		for _, a := range []tool.Action{read(p), write(p)} {
			if d := c.DecideAction(a); d.Effect != want {
				t.Errorf("%s %s is %v, want %v", a.Kind, p, d.Effect, want)
			}
		}
	}
	for _, pattern := range policy.Examples() {
		for _, part := range []string{".", ".local.", "-2-"} {
			n := strings.Replace(pattern, "*", part, 1)
			effect(policy.Allow, n)
			effect(policy.Allow, "a/"+strings.ToUpper(n))
			effect(policy.Allow, n+"/x")
			effect(policy.Deny, n+"/.env")
			if strings.HasPrefix(n, ".env") {
				effect(policy.Deny, n+".local")
				effect(policy.Deny, n+"s")
				effect(policy.Deny, n[:len(n)-1])
				effect(policy.Allow, "x"+n)
			}
		}
	}
	for _, n := range strings.Fields("id_rsa.pub .env-example .env_sample env.example prod.env.example app.tfvars.example server.pub deploy_key.pub deploy_keys.go kubeconfig.go") {
		effect(policy.Allow, n)
	}
	for _, n := range strings.Fields("go.envs.env ago.env example.env.env id_rsa.pub.key id_rsapub xgo.env") {
		effect(policy.Deny, n)
	}
}

func TestNetworkCommandAndModelRules(t *testing.T) {
	p := `
network: {allow: [api.example.com, "http://127.0.0.1:8080", "http://localhost:3000"], deny: [evil.example.com, 203.0.113.7]}
commands: {allow: ["git status **", "git push **"], ask: ["git push **"], deny: ["** --force **"]}
models: {allow: ["a/*"], deny: ["a/Bad*"]}`
	tests := []struct {
		action tool.Action
		want   policy.Effect
	}{
		{get(t, "https://api.example.com/x"), policy.Allow},
		{get(t, "https://api.example.com/x", "93.184.216.34"), policy.Allow},
		{get(t, "https://api.example.com/x", "93.184.216.34", "10.0.0.1"), policy.Deny},
		{get(t, "https://api.example.com/x", "169.254.169.254"), policy.Deny},
		{get(t, "https://api.example.com/x", "::ffff:10.0.0.1"), policy.Deny},
		{get(t, "https://api.example.com/x", "203.0.113.7"), policy.Deny},
		{get(t, "https://api.example.com/x", "127.0.0.1"), policy.Deny},
		{get(t, "http://127.0.0.1:8080/"), policy.Allow},
		{get(t, "http://127.0.0.1:8080/", "127.0.0.1"), policy.Allow},
		{get(t, "http://127.0.0.1:8081/"), policy.Deny},
		{get(t, "http://localhost:3000/", "127.0.0.1"), policy.Allow},
		{get(t, "http://localhost:3000/", "10.0.0.1"), policy.Deny},
		{get(t, "https://evil.example.com/"), policy.Deny},
		{run("git", "status", "-s"), policy.Allow},
		{run("git", "push"), policy.Ask},
		{run("git", "push", "--force"), policy.Deny},
		{run("rm", "-rf", "/"), policy.Deny},
		{tool.Action{Kind: tool.Model, Model: "a/good"}, policy.Allow},
		{tool.Action{Kind: tool.Model, Model: "a/bad-1"}, policy.Deny},
		{tool.Action{Kind: tool.Model, Model: "b/good"}, policy.Deny},
	}
	for _, tt := range tests {
		if d := chain(t, p).DecideAction(tt.action); d.Effect != tt.want {
			t.Errorf("%s %v gives %v (%s), want %v", tt.action, tt.action.Addrs, d.Effect, d.Reason, tt.want)
		}
	}
}

func TestFilesOfAnswersHaveOneSpellingInPolicies(t *testing.T) {
	for _, p := range []string{`models: {allow: ["scripted/*"], deny: ["scripted/x/*"]}`, `models: {allow: ["scripted:*"], deny: ["scripted:x/*"]}`} {
		for id, want := range map[string]policy.Effect{"scripted:a.yaml": policy.Allow, "scripted:/tmp/b/a.yaml": policy.Allow, "scripted:x/a.yaml": policy.Deny, "other/a": policy.Deny} {
			if d := chain(t, p).DecideAction(tool.Action{Kind: tool.Model, Model: id}); d.Effect != want {
				t.Errorf("%s: %s gives %v, want %v", p, id, d.Effect, want)
			}
		}
	}
}

func TestChains(t *testing.T) {
	open := files(`"**"`, "") + "\ntools: {allow: ['**']}"
	call := policy.Call{Tool: &tool.Spec{ID: "fs.read", Source: "builtin"}, Actions: []tool.Action{read("a")}}
	tests := map[string]struct {
		chain policy.Chain
		want  policy.Effect
	}{
		"empty chain":                {nil, policy.Deny},
		"nil link":                   {append(chain(t, open), nil), policy.Deny},
		"zero link":                  {append(chain(t, open), &policy.Rules{}), policy.Deny},
		"one":                        {chain(t, open), policy.Allow},
		"both allow":                 {chain(t, open, open), policy.Allow},
		"second closes":              {chain(t, open, "name: b"), policy.Deny},
		"second inherits":            {chain(t, open, "rest: inherit"), policy.Allow},
		"inherits, but mentions":     {chain(t, open, "rest: inherit\nfiles: {read: {allow: [b]}}"), policy.Deny},
		"inherits, mentions nothing": {chain(t, open, "rest: inherit\nfiles: {read: {}}"), policy.Deny},
		"all inherit":                {chain(t, "rest: inherit", "rest: inherit"), policy.Deny},
		"second asks":                {chain(t, open, "rest: inherit\nfiles: {read: {ask: ['**']}}"), policy.Ask},
	}
	for name, tt := range tests {
		d := tt.chain.Decide(call)
		if d.Effect != tt.want || d.Effect != policy.Allow && (len(d.Refusals) == 0 || d.Reason == "" || d.Rule == nil) {
			t.Errorf("%s: got %v %q %v, want %v", name, d.Effect, d.Reason, d.Refusals, tt.want)
		}
	}
}

func TestEveryRefusalIsKept(t *testing.T) {
	c := chain(t, files(`"**"`, `"a*", "*b"`)+"\ntools: {deny: ['fs.*'], ask: ['fs.read']}")
	d := c.Decide(policy.Call{Tool: &tool.Spec{ID: "fs.read", Source: "builtin"}, Actions: []tool.Action{read("ab"), write("/etc/x")}})
	var got []string
	for _, r := range d.Refusals {
		got = append(got, fmt.Sprintf("%v %s on %s", r.Effect, r.Rule, r.Action))
	}
	want := []string{
		`deny files.read.deny[0] "a*" on files.read "/ws/ab"`,
		`deny files.read.deny[1] "*b" on files.read "/ws/ab"`,
		`deny default on files.write "/etc/x"`,
		`deny tools.deny[0] "fs.*" on fs.read`,
		`ask tools.ask[0] "fs.read" on fs.read`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if d.Rule.Line != 2 || d.Rule.File != "test.yaml" || d.Rule.Policy != "test" {
		t.Errorf("rule %+v does not say where it stands", d.Rule)
	}
}

// What may be asked of the service is a section like the others: nothing is open
// unless every policy says so.
func TestAPIActions(t *testing.T) {
	root := chain(t, `
api: {allow: ["agents.*", "runs.read"], ask: ["grants.write"], deny: ["agents.delete"]}`)
	narrow := append(slices.Clone(root), chain(t, `
rest: inherit
api: {allow: ["*.read"]}`)...)
	for _, c := range []struct {
		chain policy.Chain
		api   string
		want  policy.Effect
	}{
		{root, "agents.write", policy.Allow}, {root, "agents.delete", policy.Deny}, {root, "runs.read", policy.Allow},
		{root, "runs.write", policy.Deny}, {root, "grants.write", policy.Ask}, {root, "", policy.Deny},
		{narrow, "agents.read", policy.Allow}, {narrow, "agents.write", policy.Deny}, {narrow, "audit.read", policy.Deny},
		{chain(t, ""), "agents.read", policy.Deny},
	} {
		if d := c.chain.DecideAction(tool.Action{Kind: tool.API, API: c.api}); d.Effect != c.want {
			t.Errorf("api %q: %v, want %v (%s)", c.api, d.Effect, c.want, d.Reason)
		}
	}
}

// Wildcards do not match the usual names of files that hold secrets, and match those of ordinary files.
func TestUsualNamesOfSecrets(t *testing.T) {
	c := chain(t, "files: {read: {allow: ['**']}}")
	for want, names := range map[policy.Effect][]string{
		policy.Deny: {"service-account.json", "serviceAccountKey.json", "credentials.json", "client_secret_1-x.apps.googleusercontent.com.json", "gha-creds-0a.json", "x.tfstate", "terraform.tfstate.backup", "prod.auto.tfvars", "kubeconfig", "dev.kubeconfig",
			"secrets.yml", "Secrets.YAML", "prod.env", ".dev.vars", ".vault_pass", "deploy_key", "AuthKey_A1.p8", "krb5.keytab", "home.ovpn", "login.keychain-db", ".config/sops/age/keys.txt", ".dbt/profiles.yml", "pgpass.conf"},
		policy.Allow: {"go.env", "secrets.go", "secrets.md", "credentials.go", "client_secret.go", "variables.tf", "main.tf", "vault.go", "deploy_key.go", "env", "environment.env.d"},
	} {
		for _, n := range names {
			for _, dir := range []string{"/ws/", "/ws/a/b/"} {
				if d := c.DecideAction(tool.Action{Kind: tool.FileRead, Path: dir + n, Real: dir + n}); d.Effect != want {
					t.Errorf("%s%s: %v, want %v", dir, n, d.Effect, want)
				}
			}
		}
	}
}
