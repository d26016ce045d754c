package profile

import (
	"path"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
)

// Agent is an agent of another maker with a ready policy for running all of it in the sandbox.
type Agent struct {
	Profile
	Title    string
	Programs []string // the names of its program
	// Links are the agent's login and settings, relative to the person's home folder. The same
	// names in its own home lead there.
	Links []string
	// Folders are those of a project from which the agent takes settings, and which it can do
	// without writing in. OpenCode cannot: it fails where its folder is there and read-only.
	Folders []string
	// Variables are those of the person that the agent gets. URLs are those of them that name a
	// host of its model, which the policy then allows.
	Variables, URLs []string
	// Keys are its keys and logins at the hosts of models. The agent gets placeholders for them.
	Keys []Key
	// LoginHosts are hosts that an agent with a login does not need.
	LoginHosts []string
	// Mints are URLs at which a login gets a key that would then be in the sandbox.
	Mints []string
}

// Key is a login that requests of an agent need.
type Key struct {
	Variable    string // the variable with the key, or
	Login       string // the agent whose login Remit reads: see package agentlogins
	Header      string
	Prefix      string   // written before the key
	Placeholder string   // of a variable
	Host        string   // the host of the model, or of the one that a variable of URLs names
	URLs        []string // the variables of URLs that name another host
}

// placeholder is a text in the form of a key, by which each variable can be told.
func placeholder(prefix, variable string) string {
	return prefix + strings.ReplaceAll(strings.ToLower(variable), "_", "-") + "-kept-outside"
}

// keyOf is the usual form: a variable with a key for the header Authorization.
func keyOf(variable, host string, urls ...string) Key {
	return Key{Variable: variable, Header: "Authorization", Prefix: "Bearer ", Placeholder: placeholder("sk-", variable), Host: host, URLs: urls}
}

// Keys of several agents.
var (
	anthropicKey  = Key{Variable: "ANTHROPIC_API_KEY", Header: "x-api-key", Placeholder: placeholder("sk-ant-api03-", "ANTHROPIC_API_KEY"), Host: "api.anthropic.com", URLs: []string{"ANTHROPIC_BASE_URL"}}
	geminiKey     = Key{Variable: "GEMINI_API_KEY", Header: "x-goog-api-key", Placeholder: placeholder("", "GEMINI_API_KEY"), Host: "generativelanguage.googleapis.com", URLs: []string{"GOOGLE_GEMINI_BASE_URL"}}
	openAIKey     = keyOf("OPENAI_API_KEY", "api.openai.com", "OPENAI_BASE_URL", "OPENAI_API_BASE")
	openRouterKey = keyOf("OPENROUTER_API_KEY", "openrouter.ai")
)

// AgentHomes is the folder that the sources name as the parent of the agents' own homes.
const AgentHomes = "~/.local/share/remit/confined"

// mintsOfOpenRouter are the URLs of its OAuth flow for keys.
var mintsOfOpenRouter = []string{"https://openrouter.ai/api/v1/auth/keys", "https://openrouter.ai/api/v1/auth/keys/**"}

// bearer is a variable of Claude Code.
func bearer(variable string) Key {
	k := keyOf(variable, anthropicKey.Host, anthropicKey.URLs...)
	k.Placeholder = placeholder("sk-ant-oat01-", variable)
	return k
}

// agents are the agents with a ready policy.
var agents = []Agent{
	{
		Profile: Profile{Name: "claude"}, Title: "Claude Code", Programs: []string{"claude"}, Folders: []string{".claude"},
		Links: []string{
			".claude/settings.json", ".claude/CLAUDE.md", ".claude/agents", ".claude/commands", ".claude/skills", ".claude/output-styles",
		},
		Variables: []string{"ANTHROPIC_MODEL", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_TELEMETRY", "IS_SANDBOX"},
		URLs:      []string{"ANTHROPIC_BASE_URL"},
		Keys: []Key{
			anthropicKey,
			bearer("ANTHROPIC_AUTH_TOKEN"), bearer("CLAUDE_CODE_OAUTH_TOKEN"),
			{Login: "claude", Header: "Authorization", Prefix: "Bearer ", Host: "api.anthropic.com", URLs: []string{"ANTHROPIC_BASE_URL"}},
		},
		Mints:      []string{"https://api.anthropic.com/api/oauth/claude_cli/create_api_key"},
		LoginHosts: []string{"console.anthropic.com", "platform.claude.com"},
	},
	{
		Profile: Profile{Name: "codex"}, Title: "Codex", Programs: []string{"codex"}, Folders: []string{".codex"},
		Links:      []string{".codex/config.toml", ".codex/hooks.json", ".codex/AGENTS.md", ".codex/prompts", ".codex/rules", ".codex/skills"},
		URLs:       []string{"OPENAI_BASE_URL"},
		Keys:       []Key{keyOf("CODEX_API_KEY", "api.openai.com", "OPENAI_BASE_URL"), openAIKey, {Login: "codex", Header: "Authorization", Prefix: "Bearer ", Host: "chatgpt.com"}},
		LoginHosts: []string{"auth.openai.com"},
	},
	{
		Profile: Profile{Name: "gemini"}, Title: "Gemini CLI", Programs: []string{"gemini"}, Folders: []string{".gemini"},
		Links: []string{
			".gemini/oauth_creds.json", ".gemini/google_accounts.json", ".gemini/settings.json", ".gemini/GEMINI.md", ".gemini/commands", ".gemini/policies",
		},
		Variables: []string{"GEMINI_MODEL", "GOOGLE_CLOUD_PROJECT", "GOOGLE_GENAI_USE_GCA", "GEMINI_CLI_TRUST_WORKSPACE"},
		URLs:      []string{"GOOGLE_GEMINI_BASE_URL"},
		Keys:      []Key{geminiKey, {Variable: "GOOGLE_API_KEY", Header: "x-goog-api-key", Placeholder: placeholder("", "GOOGLE_API_KEY"), Host: geminiKey.Host, URLs: geminiKey.URLs}},
	},
	{
		Profile: Profile{Name: "opencode"}, Title: "OpenCode", Programs: []string{"opencode"},
		Links: []string{
			".local/share/opencode/auth.json", ".config/opencode/opencode.json", ".config/opencode/opencode.jsonc", ".config/opencode/AGENTS.md",
			".config/opencode/agent", ".config/opencode/command",
		},
		Variables: []string{"OPENCODE_DISABLE_MODELS_FETCH", "OPENCODE_DISABLE_AUTOUPDATE"},
		URLs:      []string{"ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"},
		Keys:      []Key{anthropicKey, openAIKey, geminiKey, openRouterKey},
		Mints:     mintsOfOpenRouter,
	},
	{
		Profile: Profile{Name: "aider"}, Title: "Aider", Programs: []string{"aider"},
		Links:     []string{".aider.conf.yml", ".aider.model.settings.yml", ".aider.model.metadata.json"},
		Variables: []string{"GEMINI_API_KEY", "AIDER_MODEL", "AIDER_ANALYTICS_DISABLE", "AIDER_CHECK_UPDATE"},
		URLs:      []string{"ANTHROPIC_BASE_URL", "OPENAI_API_BASE", "OPENAI_BASE_URL"},
		Keys:      []Key{anthropicKey, openAIKey, openRouterKey, keyOf("DEEPSEEK_API_KEY", "api.deepseek.com")},
		Mints:     mintsOfOpenRouter,
	},
}

// AgentNames lists the agents that have a ready policy.
func AgentNames() []string {
	var out []string
	for _, a := range agents {
		out = append(out, a.Name)
	}
	return out
}

// FindAgent gives an agent by its name.
func FindAgent(name string) (Agent, error) {
	i := slices.IndexFunc(agents, func(a Agent) bool { return a.Name == name })
	if i < 0 {
		return Agent{}, fault.New(fault.Usage, "%.40q is not an agent with a ready policy", name).WithHint("expected one of %s", strings.Join(AgentNames(), ", "))
	}
	a := agents[i]
	var err error
	a.Profile, err = load(a.Name, "agents/"+a.Name+".yaml")
	return a, err
}

// AgentOf names the agent whose program a command line starts; "": none is known.
func AgentOf(program string) string {
	for _, a := range agents {
		if slices.Contains(a.Programs, path.Base(program)) {
			return a.Name
		}
	}
	return ""
}

// Additions are what one machine adds to an agent's ready policy.
type Additions struct {
	Home  string   // the agent's own home
	Read  []string // what its program reads besides the system: patterns
	Path  []string // folders of programs
	Hosts []string // network entries
	Keys  []KeyEntry
	Known bool // the agent is logged in, so that it needs no host of LoginHosts
}

// KeyEntry is a network entry with a secret.
type KeyEntry struct {
	URL    string
	Secret policy.Secret
}

// With is the ready policy with additions.
func (a Agent) With(add Additions) string {
	src := strings.ReplaceAll(a.Source, AgentHomes+"/"+a.Name, add.Home)
	list := func(indent string, of []string) string {
		var b strings.Builder
		for _, one := range of {
			b.WriteString(indent + "- " + quoted(one) + "\n")
		}
		return b.String()
	}
	for _, at := range []struct{ anchor, text string }{
		{"\n  read:\n    allow:\n", list("      ", add.Read)},
		{"\nnetwork:\n  allow:\n", list("    ", add.Hosts)},
	} {
		src = strings.Replace(src, at.anchor, at.anchor+at.text, 1)
	}
	for _, k := range add.Keys {
		src = strings.Replace(src, "\nnetwork:\n  allow:\n", "\nnetwork:\n  allow:\n    - {url: "+quoted(k.URL)+", secret: "+k.Secret.String()+"}\n", 1)
	}
	if len(add.Keys) > 0 && len(a.Mints) > 0 {
		src = strings.Replace(src, "\nnetwork:\n", "\nnetwork:\n  deny:\n"+list("    ", a.Mints), 1)
	}
	if add.Known {
		for _, host := range a.LoginHosts {
			src = strings.Replace(src, "    - "+host+"\n", "", 1)
		}
	}
	for _, dir := range add.Path {
		src = strings.Replace(src, "\n  path: [", "\n  path: ["+quoted(dir)+", ", 1)
	}
	return src
}

// quoted is a text as YAML takes it literally.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
