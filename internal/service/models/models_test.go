package models_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/app/apptest"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/models"
)

const config = `
models:
  default: local/small
  providers:
    local: {kind: openai, base_url: http://127.0.0.1:11434/v1/}
    mine: {kind: openai, base_url: https://models.example/v1, key: MY_MODEL_KEY}
    other: {kind: openai, base_url: https://models.example/v1, key: OTHER_KEY}
  prices:
    mine/big*: {input: 3, output: 15.00}
  limits:
    mine/*: {context: 32768, output: 4096}
`

func open(t *testing.T) (m *models.Models, workspace string) {
	t.Helper()
	dir, ws := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		filepath.Join(dir, "config.yaml"): config,
		filepath.Join(ws, "answers.yaml"): "- text: one\n- text: two\n",
		filepath.Join(ws, "wrong.yaml"):   "- text: one\n- txt: two\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return apptest.New(t, dir, "MY_MODEL_KEY=0123456789").Models, ws
}

// Providers are told with the name of their key and whether it is set, never with the key.
func TestProvidersTellOfKeys(t *testing.T) {
	m, _ := open(t)
	list, byDefault := m.Providers()
	if byDefault != "local/small" || list[0].Name != "scripted" {
		t.Errorf("the default is %q, the first provider %+v", byDefault, list[0])
	}
	want := map[string]models.Provider{
		"local": {Name: "local", URL: "http://127.0.0.1:11434/v1", KeySet: true},
		"mine":  {Name: "mine", URL: "https://models.example/v1", Key: "MY_MODEL_KEY", KeySet: true},
		"other": {Name: "other", URL: "https://models.example/v1", Key: "OTHER_KEY"},
	}
	for _, p := range list {
		if w, ok := want[p.Name]; ok {
			if delete(want, p.Name); p != w {
				t.Errorf("got %+v, want %+v", p, w)
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("%v are not listed", want)
	}
}

func TestAModelHasItsLimitsAndPrices(t *testing.T) {
	m, ws := open(t)
	got, err := m.Find("mine/big-2", ws)
	if err != nil {
		t.Fatal(err)
	}
	if got.Prices == nil || got.Prices.Input != 3_000_000 || got.Prices.Output != 15_000_000 || got.Context != 32768 || got.MaxOutput != 4096 || got.Provider.Name != "mine" {
		t.Errorf("got %+v with the prices %+v", got, got.Prices)
	}
	if got, err = m.Find("mine/small", ws); err != nil || got.Prices != nil {
		t.Errorf("a model without prices: %+v, %v", got, err)
	}
	if _, err := m.Find("nobody/small", ws); fault.CodeOf(err) != fault.ModelUnknown {
		t.Errorf("an unknown provider: %v", err)
	}
}

// A scripted model is a file of the workspace, and its mistakes are told with their place.
func TestAScriptedModelIsItsFile(t *testing.T) {
	m, ws := open(t)
	for _, id := range []string{"scripted:answers.yaml", "scripted:" + filepath.Join(ws, "answers.yaml")} {
		if got, err := m.Find(id, ws); err != nil || got.Turns != 2 || got.Provider.Name != "scripted" {
			t.Errorf("%s: %+v, %v", id, got, err)
		}
	}
	for id, want := range map[string]string{"scripted:wrong.yaml": "wrong.yaml:2:3", "scripted:missing.yaml": "missing.yaml"} {
		if _, err := m.Find(id, ws); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", id, err, want)
		}
	}
}
