package models

import (
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/settings"
	"github.com/remitrun/remit/internal/tools/model"
	"github.com/remitrun/remit/internal/tools/model/anthropic"
	"github.com/remitrun/remit/internal/tools/model/openai"
	"github.com/remitrun/remit/internal/tools/model/scripted"
)

// NewRegistry makes the providers of models from the settings: a new kind of provider is a folder
// and a line here. own are the providers of the program that Remit is part of.
func NewRegistry(s settings.Models, own []model.Provider) (*model.Registry, error) {
	r := &model.Registry{Providers: []model.Provider{scripted.New()}, Default: s.Default, Prices: s.Prices, Bounds: s.Bounds}
	for _, p := range s.All() {
		switch p.Kind {
		case settings.Anthropic:
			r.Providers = append(r.Providers, anthropic.New(anthropic.Options{Name: p.Name, Base: p.BaseURL, Key: p.Key}))
		case settings.OpenAI:
			r.Providers = append(r.Providers, openai.New(openai.Options{Name: p.Name, Base: p.BaseURL, Key: p.Key, API: openai.API(p.API)}))
		}
	}
	for _, p := range own {
		if _, _, err := r.Find(p.Name() + "/x"); err == nil {
			return nil, fault.New(fault.Usage, "two providers of models are called %q: one of the program, and one of the settings or another of the program", p.Name()).
				WithHint("give the program's another name")
		}
		r.Providers = append(r.Providers, p)
	}
	return r, nil
}
