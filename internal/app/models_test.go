package app_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/tools/model"
)

// settled reads a config.yaml.
func settled(t *testing.T, config string, environ ...string) (home.Config, error) {
	t.Helper()
	homeDir := t.TempDir()
	if err := os.WriteFile(filepath.Join(homeDir, "config.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return home.FromEnv(append(environ, "REMIT_HOME="+homeDir, "HOME="+homeDir))
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
	a, err := app.New(cfg, app.Own{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Close() }()
	r := a.Models.Registry
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
