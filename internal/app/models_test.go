package app_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/fault"
	"github.com/remitrun/remit/internal/model"
)

// settled reads a config.yaml.
func settled(t *testing.T, config string, environ ...string) (app.Config, error) {
	t.Helper()
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "config.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return app.FromEnv(append(environ, "REMIT_HOME="+home, "HOME="+home))
}

const modelsConfig = `
models:
  default: local/qwen2.5:7b
  wait: 5m
  providers:
    local: {kind: openai, base_url: http://127.0.0.1:11434/v1/}
    anthropic: {key: MY_KEY}
    azure:
      kind: openai
      api: responses
      base_url: https://example.openai.azure.com/openai/v1
      key: AZURE_KEY
  prices:
    anthropic/claude-sonnet-4-5*: {input: 3, output: 15.00, cache_read: 0.30, cache_write: 3.75}
    local/*: {input: 0, output: 0}
    openai/gpt-5: {input: 1.25, output: 10}
  limits:
    local/*: {context: 32768, output: 4096}
`

func TestProvidersOfTheSettings(t *testing.T) {
	cfg, err := settled(t, modelsConfig)
	if err != nil {
		t.Fatal(err)
	}
	a, err := app.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Close() }()
	r := a.Models()
	if r.Default != "local/qwen2.5:7b" || cfg.Settings.Models.Wait != 5*time.Minute {
		t.Errorf("got the default %q and %v", r.Default, cfg.Settings.Models.Wait)
	}
	want := map[string]model.Endpoint{
		"scripted":  {},
		"local":     {Base: "http://127.0.0.1:11434/v1", Header: "Authorization", Prefix: "Bearer "},
		"anthropic": {Base: "https://api.anthropic.com", Header: "X-Api-Key", Key: "MY_KEY"},
		"azure":     {Base: "https://example.openai.azure.com/openai/v1", Header: "Authorization", Prefix: "Bearer ", Key: "AZURE_KEY"},
		"openai":    {Base: "https://api.openai.com/v1", Header: "Authorization", Prefix: "Bearer ", Key: "OPENAI_API_KEY"},
	}
	for _, p := range r.Providers {
		if got := p.Endpoint(); got != want[p.Name()] {
			t.Errorf("%s: got %+v, want %+v", p.Name(), got, want[p.Name()])
		}
		delete(want, p.Name())
	}
	if len(want) > 0 {
		t.Errorf("%v are not there", want)
	}
	for id, want := range map[string]model.Prices{
		"anthropic/claude-sonnet-4-5-20250929": {Input: 3e6, Output: 15e6, CacheRead: 300_000, CacheWrite: 3_750_000},
		"local/any":                            {},
		"openai/gpt-5":                         {Input: 1_250_000, Output: 10e6, CacheRead: 1_250_000, CacheWrite: 1_562_500},
	} {
		if got := r.Limits(id).Prices; got == nil || *got != want {
			t.Errorf("%s costs %+v, want %+v", id, got, want)
		}
	}
	if got := r.Limits("local/any"); got.Context != 32768 || got.MaxOutput != 4096 {
		t.Errorf("got the limits %+v", got)
	}
	if got := r.Limits("openai/gpt-4o").Prices; got != nil {
		t.Errorf("nobody said what it costs, got %+v", got)
	}
}

func TestModelSettingsThatAreWrong(t *testing.T) {
	tests := map[string]struct{ config, want string }{
		"an unknown key":        {"models: {defaults: a/b}", `config.yaml:1:10: models: the key "defaults" is not known here: it has default`},
		"no mapping":            {"models: []", "config.yaml:1:9: models: must be a mapping"},
		"no model":              {"models: {default: gpt-4}", `models.default: "gpt-4" is no model`},
		"an odd time":           {"models: {wait: 5}", "models.wait: must be a"},
		"an odd name":           {"models: {providers: {My Box: {kind: openai}}}", `"My Box" is no name for a provider`},
		"the scripted provider": {"models: {providers: {scripted: {kind: openai}}}", "is no name for a provider"},
		"no kind":               {"models: {providers: {local: {base_url: https://x.example}}}", "models.providers.local.kind: is missing"},
		"an odd kind":           {"models: {providers: {local: {kind: ollama, base_url: https://x.example}}}", `models.providers.local.kind: "ollama" is none of anthropic, openai`},
		"no address":            {"models: {providers: {local: {kind: openai}}}", "models.providers.local.base_url: is missing"},
		"an odd address":        {"models: {providers: {local: {kind: openai, base_url: 'ftp://x'}}}", "only http and https"},
		"a query":               {"models: {providers: {local: {kind: openai, base_url: 'https://x.example/?a=b'}}}", "without a query"},
		"a key in the open":     {"models: {providers: {local: {kind: openai, base_url: 'http://192.168.1.5/v1', key: K}}}", "a key would go over the network unencrypted (use https"},
		"the key itself":        {"models: {providers: {openai: {key: 'sk-proj-abc def'}}}", "models.providers.openai.key: must be the name"},
		"an API too many":       {"models: {providers: {anthropic: {api: chat}}}", "models.providers.anthropic.api: is for the kind openai"},
		"a provider twice":      {"models:\n  providers:\n    a: {kind: openai, base_url: https://x.example}\n    a: {kind: openai, base_url: https://x.example}", "twice"},
		"half a price":          {"models: {prices: {a/b: {input: 1}}}", `models.prices["a/b"]: input and output are needed`},
		"a price that is none":  {"models: {prices: {a/b: {input: cheap, output: -1}}}", `models.prices["a/b"].input: must be a number of dollars`},
		"no tokens":             {"models: {limits: {a/b: {context: 0}}}", `models.limits["a/b"].context: must be a number of tokens`},
		"a price of no model":   {"models: {prices: {gpt-4: {input: 1, output: 1}}}", `"gpt-4" is no model`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := settled(t, tt.config)
			if !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
