package app

import (
	"path/filepath"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/tools/model"
	"github.com/remitrun/remit/internal/tools/model/scripted"
)

// ModelProvider is a provider of models as it may be shown.
type ModelProvider struct {
	Name   string `json:"name"`
	URL    string `json:"base_url,omitempty"`
	Key    string `json:"key,omitempty"` // its name
	KeySet bool   `json:"key_set"`       // or none is needed
}

// ModelProviders lists the providers of models, scripted first, and the default
// model ("": there is none). Nothing is asked over the network.
func (a *App) ModelProviders() (list []ModelProvider, byDefault string) {
	r := a.Models()
	for _, p := range r.Providers {
		e := p.Endpoint()
		v := ModelProvider{Name: p.Name(), URL: e.Base, Key: e.Key, KeySet: e.Key == ""}
		if e.Key != "" {
			_, v.KeySet = a.modelKey(e.Key)
		}
		list = append(list, v)
	}
	return list, r.Default
}

// ModelView is what is known of one model.
type ModelView struct {
	ID        string        `json:"model"`
	Provider  ModelProvider `json:"provider"`
	Context   int64         `json:"context,omitempty"`    // tokens; 0: not known
	MaxOutput int64         `json:"max_output,omitempty"` // tokens; 0: not known
	// Prices are millionths of a dollar for a million tokens; nil: not known.
	Prices *ModelPrices `json:"prices,omitempty"`
	Turns  int          `json:"turns,omitempty"` // of a file of answers
}

// ModelPrices is what tokens cost.
type ModelPrices struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cache_read"`
	CacheWrite int64 `json:"cache_write"`
}

// Model looks a model up. The file of a scripted one is read for the person who
// asks: its problems are told with their places.
func (a *App) Model(id, workspace string) (ModelView, error) {
	id, err := model.Canonical(id)
	if err != nil {
		return ModelView{}, err
	}
	r := a.Models()
	p, name, err := r.Find(id)
	if err != nil {
		return ModelView{}, err
	}
	v := ModelView{ID: id}
	list, _ := a.ModelProviders()
	for _, one := range list {
		if one.Name == p.Name() {
			v.Provider = one
		}
	}
	l := r.Limits(id)
	v.Context, v.MaxOutput = l.Context, l.MaxOutput
	if l.Prices != nil {
		prices := ModelPrices(*l.Prices)
		v.Prices = &prices
	}
	if p.Name() != model.Scripted {
		return v, nil
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(workspace, name)
	}
	src, err := wholefile.Read(name, scripted.MaxSize)
	if err != nil {
		return v, fault.Wrap(fault.ModelUnknown, err, "the file of answers cannot be read: %v", wholefile.Cause(err)).At(fault.Pos{File: name})
	}
	s, err := scripted.Parse(name, src)
	if err != nil {
		return v, err
	}
	v.Turns = len(s.Turns)
	return v, nil
}
