// Package models describes the language models that the settings offer: their providers, limits
// and prices, and finds the providers' keys. Start at [Models.Find].
package models

import (
	"path/filepath"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/confine/secret"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/secrets"
	"github.com/remitrun/remit/internal/tools/builtin/modelchat"
	"github.com/remitrun/remit/internal/tools/model"
	"github.com/remitrun/remit/internal/tools/model/scripted"
)

// Models are the language models that the settings offer.
type Models struct {
	Home     *home.Home
	Secrets  *secrets.Secrets
	Registry *model.Registry
}

// ChatOptions gives what tools need to ask the models of a registry.
func (m *Models) ChatOptions(r *model.Registry) modelchat.Options {
	return modelchat.Options{Registry: r, Secret: m.key, Wait: m.Home.Settings.Models.Wait}
}

// key finds a provider's key: a variable of Remit's environment, else the stored secret of
// that name in lower case.
func (m *Models) key(name string) (string, bool) {
	if v, ok := m.Secrets.Value(name); ok && strings.TrimSpace(v) != "" {
		return v, true
	}
	stored := strings.ToLower(name)
	if secret.CheckName(stored) != nil {
		return "", false
	}
	return m.Secrets.Value(policy.Secret{Store: stored}.Key())
}

// Provider is a provider of models, without its key.
type Provider struct {
	Name   string `json:"name"`
	URL    string `json:"base_url,omitempty"`
	Key    string `json:"key,omitempty"` // name of its key
	KeySet bool   `json:"key_set"`       // true also if no key is needed
}

// Providers lists the providers, scripted first, and the default model ("": none). It
// does not use the network.
func (m *Models) Providers() (list []Provider, byDefault string) {
	for _, p := range m.Registry.Providers {
		e := p.Endpoint()
		v := Provider{Name: p.Name(), URL: e.Base, Key: e.Key, KeySet: e.Key == ""}
		if e.Key != "" {
			_, v.KeySet = m.key(e.Key)
		}
		list = append(list, v)
	}
	return list, m.Registry.Default
}

// Model describes a model.
type Model struct {
	ID        string   `json:"model"`
	Provider  Provider `json:"provider"`
	Context   int64    `json:"context,omitempty"`    // tokens; 0: unknown
	MaxOutput int64    `json:"max_output,omitempty"` // tokens; 0: unknown
	// Prices are in millionths of a dollar for a million tokens; nil: unknown.
	Prices *Prices `json:"prices,omitempty"`
	Turns  int     `json:"turns,omitempty"` // number of answers in the file of a scripted model
}

// Prices is the cost of tokens.
type Prices struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cache_read"`
	CacheWrite int64 `json:"cache_write"`
}

// Find describes a model. It reads the file of a scripted model, and reports mistakes in it
// with their positions.
func (m *Models) Find(id, workspace string) (Model, error) {
	id, err := model.Canonical(id)
	if err != nil {
		return Model{}, err
	}
	p, name, err := m.Registry.Find(id)
	if err != nil {
		return Model{}, err
	}
	v := Model{ID: id}
	list, _ := m.Providers()
	for _, one := range list {
		if one.Name == p.Name() {
			v.Provider = one
		}
	}
	l := m.Registry.Limits(id)
	v.Context, v.MaxOutput = l.Context, l.MaxOutput
	if l.Prices != nil {
		prices := Prices(*l.Prices)
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
