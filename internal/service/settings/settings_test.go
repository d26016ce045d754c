package settings_test

import (
	"errors"
	"log/slog"

	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/service/settings"
	"github.com/remitrun/remit/internal/tools/model"
)

func TestWithoutAFileTheDefaultsHold(t *testing.T) {
	for _, src := range []string{"", "\n", "# nothing\n", "{}"} {
		if got, err := settings.Read("config.yaml", []byte(src)); err != nil || !reflect.DeepEqual(got, settings.Default()) {
			t.Errorf("%q: %+v, %v", src, got, err)
		}
	}
}

func TestEverySetting(t *testing.T) {
	got, err := settings.Read("config.yaml", []byte(`
ledger: {durability: process, database: "postgres://remit@db.example/remit", lease: 2s}
logs: {level: WARN}
secrets: {keyring: false}
approvals: {admins: ["user:ann"]}
sources:
  mcp_remote: {per_minute: 5, at_once: 1, run_time: 90s, wait: 3s}
changes: {keep_days: 0, keep_bytes: 200MiB}
notifications:
  desktop: true
  bell: true
  webhooks:
    ops: {url: "https://example.org/hook?v=1", key: "secret:hook"}
    phone: {url: "secret:address", format: ntfy, token: "secret:bearer"}
sessions: {files: {bytes: 0, count: 7}}
queue: {at_once: 2, waiting: 5, run_time: 90m, limits: {grant: 1, "tool:shell.run": 3}}
catalog: {fresh: 5m}
tools:
  mcp:files:*: {risk: high, effects: [fs.read], trusted: true, any_name: true}
models:
  default: local/qwen
  wait: 5m
  providers:
    local: {kind: openai, base_url: "http://127.0.0.1:11434/v1/", api: responses}
    anthropic: {key: MY_KEY}
  prices:
    local/*: {input: 1, output: 2.5}
  limits:
    local/*: {context: 1000, output: 10}
`))
	if err != nil {
		t.Fatal(err)
	}
	risk, effects := tool.High, tool.EffectSet(tool.FSRead)
	want := settings.Default()
	want.Durability, want.LogLevel, want.Keyring, want.Admins = "process", slog.LevelWarn, false, []string{"user:ann"}
	want.Tiers.RemoteMCP = settings.Tier{PerMinute: 5, AtOnce: 1, RunTime: 90 * time.Second, Wait: 3 * time.Second}
	want.Database = settings.Database{URL: "postgres://remit@db.example/remit", Lease: 2 * time.Second}
	want.Fresh = 5 * time.Minute
	want.Changes, want.Sessions = settings.Changes{KeepBytes: 200 << 20}, settings.Sessions{FileCount: 7}
	want.Notifications = settings.Notifications{Desktop: true, Bell: true, Webhooks: []settings.Webhook{
		{Name: "ops", URL: "https://example.org/hook?v=1", Key: "secret:hook"}, {Name: "phone", URL: "secret:address", Format: "ntfy", Token: "secret:bearer"}}}
	want.Queue = settings.Queue{AtOnce: 2, Waiting: 5, RunTime: 90 * time.Minute, Limits: map[string]int{"grant": 1, "tool:shell.run": 3}}
	want.Tools = map[string]settings.Tool{"mcp:files:*": {Risk: &risk, Effects: &effects, Trusted: true, AnyName: true}}
	want.Models = settings.Models{Default: "local/qwen", Wait: 5 * time.Minute, Providers: []settings.Provider{
		{Name: "local", Kind: settings.OpenAI, BaseURL: "http://127.0.0.1:11434/v1", API: "responses"}, {Name: "anthropic", Kind: settings.Anthropic, Key: "MY_KEY"}},
		Prices: map[string]model.Prices{"local/*": {Input: 1e6, Output: 2_500_000, CacheRead: 1e6, CacheWrite: 1_250_000}},
		Bounds: map[string]model.Bounds{"local/*": {Context: 1000, MaxOutput: 10}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if all := got.Models.All(); len(all) != 3 || all[2].Name != "openai" || all[2].Key != "OPENAI_API_KEY" {
		t.Errorf("the providers are %+v", all)
	}
}

func TestWrongSettingsAreRefusedWithTheirPlace(t *testing.T) {
	tests := map[string]struct{ config, want string }{
		"a key of a section":     {"ledger: {durabilty: power}", `config.yaml:1:10: ledger.durabilty: unknown key "durabilty" (did you mean "durability"?)`},
		"a section":              {"chnages: {}", `did you mean "changes"?`},
		"a durability":           {"ledger: {durability: maybe}", `ledger.durability: must be power or process, not the string "maybe"`},
		"a level":                {"logs: {level: debug}", `logs.level: must be DEBUG or INFO or WARN or ERROR, not the string "debug" (did you mean "DEBUG"?)`},
		"an admin":               {"approvals: {admins: [ann]}", `approvals.admins[0]: "ann" is not a valid principal`},
		"no calls":               {"sources: {cloud: {per_minute: 0}}", "sources.cloud.per_minute: must be a whole number from 1"},
		"no time":                {"sources: {cloud: {run_time: 5}}", "sources.cloud.run_time: must be a time"},
		"negative days":          {"changes: {keep_days: -1}", "changes.keep_days: must be a whole number from 0"},
		"too many days":          {"changes: {keep_days: 106752}", "changes.keep_days: must be a whole number from 0 to 106751"},
		"not a size":             {"changes: {keep_bytes: much}", "changes.keep_bytes: must be a size"},
		"too large a size":       {"changes: {keep_bytes: 9000000000GiB}", "changes.keep_bytes: must be a size"},
		"negative files":         {"sessions: {files: {count: -1}}", "sessions.files.count: must be a whole number"},
		"negative bytes":         {"sessions: {files: {bytes: -1}}", "sessions.files.bytes: must be a size"},
		"a limit of the queue":   {"queue: {limits: {tools: 1}}", `"tools" is not a valid limit; expected grant, tool:ID or source:NAME`},
		"no runs at once":        {"queue: {at_once: 0}", "queue.at_once: must be a whole number from 1"},
		"a tool ID":              {"tools: {'fs read': {}}", `"fs read" is not a tool ID`},
		"a risk":                 {"tools: {fs.read: {risk: huge}}", `tools["fs.read"].risk: "huge" is not low`},
		"a side effect":          {"tools: {fs.read: {effects: [fly]}}", `tools["fs.read"].effects[0]: `},
		"an unknown key":         {"models: {defaults: a/b}", `config.yaml:1:10: models.defaults: unknown key "defaults" (did you mean "default"?)`},
		"a list":                 {"models: []", "config.yaml:1:9: models: must be a mapping, not a list"},
		"a model":                {"models: {default: gpt-4}", `models.default: "gpt-4" `},
		"a wait":                 {"models: {wait: 5}", "models.wait: must be a time from 1s to 1h"},
		"a provider's name":      {"models: {providers: {My Box: {kind: openai}}}", `"My Box" is not a valid provider name`},
		"the scripted provider":  {"models: {providers: {scripted: {kind: openai}}}", "is not a valid provider name"},
		"no kind":                {"models: {providers: {local: {base_url: https://x.example}}}", "models.providers.local.kind: is missing"},
		"a kind":                 {"models: {providers: {local: {kind: ollama, base_url: https://x.example}}}", "models.providers.local.kind: must be anthropic or openai"},
		"no URL":                 {"models: {providers: {local: {kind: openai}}}", "models.providers.local.base_url: is missing"},
		"a URL":                  {"models: {providers: {local: {kind: openai, base_url: 'ftp://x'}}}", "only http and https"},
		"a query":                {"models: {providers: {local: {kind: openai, base_url: 'https://x.example/?a=b'}}}", "without a query"},
		"a key without TLS":      {"models: {providers: {local: {kind: openai, base_url: 'http://192.168.1.5/v1', key: K}}}", "the key would be sent unencrypted (use https"},
		"the key itself":         {"models: {providers: {openai: {key: 'sk-proj-abc def'}}}", "models.providers.openai.key: must be the name"},
		"an API of another kind": {"models: {providers: {anthropic: {api: chat}}}", "models.providers.anthropic.api: is for the kind openai"},
		"a provider twice":       {"models:\n  providers:\n    a: {}\n    a: {}", "twice"},
		"half a price":           {"models: {prices: {a/b: {input: 1}}}", `models.prices["a/b"].output: the required key "output" is missing`},
		"a price":                {"models: {prices: {a/b: {input: cheap, output: -1}}}", `models.prices["a/b"].input: must be a number of dollars`},
		"tokens":                 {"models: {limits: {a/b: {context: 0}}}", `models.limits["a/b"].context: must be a whole number from 1`},
		"a webhook's name":       {"notifications: {webhooks: {My Hook: {url: https://x.example}}}", `"My Hook" is not a valid webhook name`},
		"a webhook without URL":  {"notifications: {webhooks: {ops: {format: slack}}}", `notifications.webhooks.ops.url: the required key "url" is missing`},
		"a webhook without TLS":  {"notifications: {webhooks: {ops: {url: 'http://192.168.1.5/x'}}}", "notifications.webhooks.ops.url: the address is neither https nor a loopback address"},
		"a webhook's format":     {"notifications: {webhooks: {ops: {url: https://x.example, format: irc}}}", "notifications.webhooks.ops.format: must be json or slack or ntfy or teams"},
		"a webhook's key itself": {"notifications: {webhooks: {ops: {url: https://x.example, key: whsec_abc}}}", "notifications.webhooks.ops.key: must be secret:NAME, not the value itself"},
		"a secret's name":        {"notifications: {webhooks: {ops: {url: 'secret:'}}}", "notifications.webhooks.ops.url: must be secret:NAME"},
		"a hook's name":          {"hooks: {My Hook: {url: https://x.example, events: [before]}}", `"My Hook" is not a valid hook name`},
		"a hook of nothing":      {"hooks: {ops: {events: [before]}}", "hooks.ops: must have url or command, one of them"},
		"a hook of both":         {"hooks: {ops: {url: https://x.example, command: [/bin/true], events: [before]}}", "hooks.ops: must have url or command"},
		"a hook without events":  {"hooks: {ops: {url: https://x.example}}", `hooks.ops.events: the required key "events" is missing`},
		"a hook's event":         {"hooks: {ops: {url: https://x.example, events: [during]}}", `hooks.ops.events[0]: "during" is not a valid event; expected asked`},
		"a hook without TLS":     {"hooks: {ops: {url: 'http://192.168.1.5/x', events: [before]}}", "hooks.ops.url: the address is neither https"},
		"a hook's relative path": {"hooks: {ops: {command: [check], events: [before]}}", "hooks.ops.command: must begin with the absolute path"},
		"a hook's key":           {"hooks: {ops: {command: [/bin/true], key: secret:k, events: [before]}}", "hooks.ops: key and token are for a url"},
		"a hook's timeout":       {"hooks: {ops: {command: [/bin/true], timeout: 1m, events: [before]}}", "hooks.ops.timeout: must be at most 10s"},
		"a hook's tool":          {"hooks: {ops: {command: [/bin/true], tools: ['fs read'], events: [before]}}", `hooks.ops.tools[0]: "fs read" is not a tool ID`},
		"no search":              {"search: {}", "search: needs kind or tool, and not both"},
		"two searches":           {"search: {kind: searxng, url: https://x.example/search, tool: web.x}", "search: needs kind or tool, and not both"},
		"a search's kind":        {"search: {kind: google}", "search.kind: must be searxng or brave or tavily"},
		"a search without a URL": {"search: {kind: searxng}", "search.url: is missing"},
		"a search without a key": {"search: {kind: brave}", "search.key: is missing"},
		"a search's key itself":  {"search: {kind: tavily, key: tvly-abc}", "search.key: must be secret:NAME, not the value itself"},
		"a search without TLS":   {"search: {kind: brave, url: 'http://192.168.1.5/x', key: secret:k}", "search.url: the key would be sent unencrypted (use https"},
		"a search's tool":        {"search: {tool: 'web search'}", `search.tool: "web search" is not a valid tool ID`},
		"a tool with a URL":      {"search: {tool: web.x, url: https://x.example}", "search: url and key belong to a kind, not to a tool"},
		"a price of no model":    {"models: {prices: {gpt-4: {input: 1, output: 1}}}", `"gpt-4" `},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := settings.Read("config.yaml", []byte(tt.config))
			if !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}
