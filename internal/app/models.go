package app

import (
	"github.com/remitrun/remit/internal/service/settings"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/confine/secret"
	"github.com/remitrun/remit/internal/tools/builtin/modelchat"
	"github.com/remitrun/remit/internal/tools/model"
	"github.com/remitrun/remit/internal/tools/model/anthropic"
	"github.com/remitrun/remit/internal/tools/model/openai"
	"github.com/remitrun/remit/internal/tools/model/scripted"
)

// Models is every provider of models, as the settings say: a new kind is a folder
// and a line.
func (a *App) Models() *model.Registry {
	s := a.Home.Settings.Models
	r := &model.Registry{Providers: []model.Provider{scripted.New()}, Default: s.Default, Prices: s.Prices, Bounds: s.Bounds}
	for _, p := range s.All() {
		switch p.Kind {
		case settings.Anthropic:
			r.Providers = append(r.Providers, anthropic.New(anthropic.Options{Name: p.Name, Base: p.BaseURL, Key: p.Key}))
		case settings.OpenAI:
			r.Providers = append(r.Providers, openai.New(openai.Options{Name: p.Name, Base: p.BaseURL, Key: p.Key, API: openai.API(p.API)}))
		}
	}
	return r
}

// chatOptions is what the tools that ask models are made of.
func (a *App) chatOptions(r *model.Registry) modelchat.Options {
	return modelchat.Options{Registry: r, Secret: a.modelKey, Wait: a.Home.Settings.Models.Wait}
}

// modelKey finds the key of a service: a variable of Remit's environment, else the
// stored secret of that name in lower case.
func (a *App) modelKey(name string) (string, bool) {
	if v, ok := a.Secrets.Value(name); ok && strings.TrimSpace(v) != "" {
		return v, true
	}
	stored := strings.ToLower(name)
	if secret.CheckName(stored) != nil {
		return "", false
	}
	return a.Secrets.Value(policy.Secret{Store: stored}.Key())
}
