package app

import (
	"fmt"
	"maps"
	"math"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/remitrun/remit/internal/builtin/modelchat"
	"github.com/remitrun/remit/internal/fault"
	"github.com/remitrun/remit/internal/model"
	"github.com/remitrun/remit/internal/model/anthropic"
	"github.com/remitrun/remit/internal/model/openai"
	"github.com/remitrun/remit/internal/model/scripted"
	"github.com/remitrun/remit/internal/policy"
	"github.com/remitrun/remit/internal/policy/target"
	"github.com/remitrun/remit/internal/secret"
)

// ModelsSettings is the section models of config.yaml.
type ModelsSettings struct {
	Default   string        // the model of agents that name none
	Wait      time.Duration // how long a service may send nothing
	Providers []ProviderSettings
	Prices    map[string]model.Prices // by models' IDs; one that ends in * is for all that begin so
	Bounds    map[string]model.Bounds // the same
}

// ProviderSettings is a service of models. One that is called anthropic or openai
// changes the one that is there anyway.
type ProviderSettings struct {
	Name    string
	Kind    string // "anthropic" or "openai": whose API it speaks
	BaseURL string
	Key     string // a variable of Remit's environment, or a stored secret in lower case; "": none is sent
	API     string // of kind openai: "chat" or "responses"
}

// The kinds of providers with a service, and the keys of those that are there
// anyway.
const (
	kindAnthropic, keyAnthropic = "anthropic", "ANTHROPIC_API_KEY"
	kindOpenAI, keyOpenAI       = "openai", "OPENAI_API_KEY"
)

// Models is every provider of models, as the settings say: a new kind is a folder
// and a line.
func (a *App) Models() *model.Registry {
	s := a.cfg.Settings.Models
	r := &model.Registry{Providers: []model.Provider{scripted.New()}, Default: s.Default, Prices: s.Prices, Bounds: s.Bounds}
	for _, p := range s.all() {
		switch p.Kind {
		case kindAnthropic:
			r.Providers = append(r.Providers, anthropic.New(anthropic.Options{Name: p.Name, Base: p.BaseURL, Key: p.Key}))
		case kindOpenAI:
			r.Providers = append(r.Providers, openai.New(openai.Options{Name: p.Name, Base: p.BaseURL, Key: p.Key, API: openai.API(p.API)}))
		}
	}
	return r
}

// all is the providers of the settings and those that are there anyway.
func (s ModelsSettings) all() []ProviderSettings {
	out := slices.Clone(s.Providers)
	for _, p := range []ProviderSettings{{Name: kindAnthropic, Kind: kindAnthropic, Key: keyAnthropic}, {Name: kindOpenAI, Kind: kindOpenAI, Key: keyOpenAI}} {
		if !slices.ContainsFunc(out, func(o ProviderSettings) bool { return o.Name == p.Name }) {
			out = append(out, p)
		}
	}
	return out
}

// chatOptions is what the tools that ask models are made of.
func (a *App) chatOptions(r *model.Registry) modelchat.Options {
	return modelchat.Options{Registry: r, Secret: a.modelKey, Wait: a.cfg.Settings.Models.Wait}
}

// modelKey finds the key of a service: a variable of Remit's environment, else the
// stored secret of that name in lower case.
func (a *App) modelKey(name string) (string, bool) {
	if v, ok := a.secret(name); ok && strings.TrimSpace(v) != "" {
		return v, true
	}
	stored := strings.ToLower(name)
	if secret.CheckName(stored) != nil {
		return "", false
	}
	return a.secret(policy.Secret{Store: stored}.Key())
}

var (
	providerName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,39}$`)
	keyName      = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)
)

// modelsReader reads the section models and collects all that is wrong with it.
type modelsReader struct {
	file string
	errs fault.List
}

// readModels reads the section models of config.yaml. Every problem is a
// fault.Usage error with its place.
func readModels(file string, n *yaml.Node) (ModelsSettings, error) {
	var s ModelsSettings
	r := &modelsReader{file: file}
	if n.Kind != 0 {
		r.mapping(n, "models", r.keys(&s))
	}
	return s, r.errs.Err()
}

// keys read the section's keys.
func (r *modelsReader) keys(s *ModelsSettings) map[string]func(*yaml.Node, string) {
	return map[string]func(*yaml.Node, string){
		"default":   func(n *yaml.Node, f string) { s.Default = r.modelID(n, f) },
		"wait":      func(n *yaml.Node, f string) { s.Wait = r.duration(n, f) },
		"providers": func(n *yaml.Node, f string) { s.Providers = r.providers(n, f) },
		"prices":    func(n *yaml.Node, f string) { s.Prices = r.prices(n, f) },
		"limits":    func(n *yaml.Node, f string) { s.Bounds = r.bounds(n, f) },
	}
}

// ModelSettings are the keys of the section models, sorted.
func ModelSettings() []string {
	return slices.Sorted(maps.Keys((&modelsReader{}).keys(&ModelsSettings{})))
}

func (r *modelsReader) fail(n *yaml.Node, field, format string, args ...any) {
	r.errs = append(r.errs, fault.New(fault.Usage, format, args...).At(fault.Pos{File: r.file, Line: n.Line, Column: n.Column}).In(field))
}

// hint tells the way out of the last problem.
func (r *modelsReader) hint(text string) { r.errs[len(r.errs)-1].Hint = text }

// pairs visits the pairs of a mapping, whose keys are different texts.
func (r *modelsReader) pairs(n *yaml.Node, field string, visit func(k, v *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		r.fail(n, field, "must be a mapping")
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		switch k := n.Content[i]; {
		case k.Kind != yaml.ScalarNode || k.Tag != "!!str":
			r.fail(k, field, "a key must be a text")
		case seen[k.Value]:
			r.fail(k, field, "the key %.80q occurs twice", k.Value)
		default:
			seen[k.Value] = true
			visit(k, n.Content[i+1])
		}
	}
}

func (r *modelsReader) mapping(n *yaml.Node, field string, known map[string]func(*yaml.Node, string)) {
	r.pairs(n, field, func(k, v *yaml.Node) {
		if read := known[k.Value]; read != nil {
			read(v, field+"."+k.Value)
			return
		}
		names := make([]string, 0, len(known))
		for name := range known {
			names = append(names, name)
		}
		slices.Sort(names)
		r.fail(k, field, "the key %.80q is not known here: it has %s", k.Value, strings.Join(names, ", "))
	})
}

func (r *modelsReader) text(n *yaml.Node, field string) string {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" || n.Value == "" {
		r.fail(n, field, "must be a text")
		return ""
	}
	return n.Value
}

func (r *modelsReader) modelID(n *yaml.Node, field string) string {
	id := r.text(n, field)
	if id == "" {
		return ""
	}
	canonical, err := model.Canonical(id)
	if err != nil {
		r.fail(n, field, "%s", fault.Message(err))
	}
	return canonical
}

func (r *modelsReader) duration(n *yaml.Node, field string) time.Duration {
	d, err := time.ParseDuration(r.text(n, field))
	if err != nil || d < time.Second || d > time.Hour {
		r.fail(n, field, "must be a time from 1s to 1h")
	}
	return d
}

func (r *modelsReader) providers(n *yaml.Node, field string) []ProviderSettings {
	var out []ProviderSettings
	r.pairs(n, field, func(k, v *yaml.Node) {
		f := field + "." + k.Value
		if !providerName.MatchString(k.Value) || k.Value == model.Scripted {
			r.fail(k, field, "%.80q is no name for a provider: small letters, digits, _ and -, at most 40, and not %q", k.Value, model.Scripted)
			return
		}
		out = append(out, r.provider(k, v, f))
	})
	return out
}

func (r *modelsReader) provider(k, v *yaml.Node, f string) ProviderSettings {
	p := ProviderSettings{Name: k.Value}
	usual := map[string]string{kindAnthropic: keyAnthropic, kindOpenAI: keyOpenAI}
	if usual[p.Name] != "" {
		p.Kind = p.Name
	}
	var at *yaml.Node
	r.mapping(v, f, map[string]func(*yaml.Node, string){
		"kind":     func(n *yaml.Node, f string) { p.Kind = r.oneOf(n, f, kindAnthropic, kindOpenAI) },
		"base_url": func(n *yaml.Node, f string) { p.BaseURL, at = r.baseURL(n, f), n },
		"api":      func(n *yaml.Node, f string) { p.API = r.oneOf(n, f, string(openai.Chat), string(openai.Responses)) },
		"key": func(n *yaml.Node, f string) {
			if p.Key = r.text(n, f); !keyName.MatchString(p.Key) {
				r.fail(n, f, "must be the name of a variable or of a stored secret, not the key itself")
				r.hint("keep the key with remit secret set NAME")
			}
		},
	})
	switch {
	case p.Kind == "":
		r.fail(v, f+".kind", "is missing: anthropic or openai, whose API the service speaks")
	case p.BaseURL == "" && p.Kind != p.Name:
		r.fail(v, f+".base_url", "is missing: where the service is")
	case p.BaseURL == "" && p.Key == "":
		p.Key = usual[p.Name]
	}
	if p.API != "" && p.Kind == kindAnthropic {
		r.fail(v, f+".api", "is for the kind openai alone")
	}
	if at != nil && p.Key != "" && !keepsKeys(p.BaseURL) {
		r.fail(at, f+".base_url", "a key would go over the network unencrypted")
		r.hint("use https; plain http is for services of this machine, or without a key")
	}
	return p
}

func (r *modelsReader) oneOf(n *yaml.Node, field string, values ...string) string {
	v := r.text(n, field)
	if v != "" && !slices.Contains(values, v) {
		r.fail(n, field, "%.80q is none of %s", v, strings.Join(values, ", "))
	}
	return v
}

func (r *modelsReader) baseURL(n *yaml.Node, field string) string {
	raw := r.text(n, field)
	if raw == "" {
		return ""
	}
	u, _, err := target.URL("POST", raw)
	switch {
	case err != nil:
		r.fail(n, field, "%s", fault.Message(err))
	case strings.ContainsAny(raw, "?#"):
		r.fail(n, field, "must be a URL without a query or fragment")
	default:
		return strings.TrimRight(u.String(), "/")
	}
	return ""
}

// keepsKeys reports whether what is sent to a URL stays unread on the way.
func keepsKeys(base string) bool {
	_, to, err := target.URL("POST", base)
	if err != nil || to.Scheme == "https" || to.Host == "localhost" {
		return true // what cannot be read is told elsewhere
	}
	a, err := netip.ParseAddr(to.Host)
	return err == nil && a.IsLoopback()
}

// byModel visits the entries of a mapping of models' IDs.
func (r *modelsReader) byModel(n *yaml.Node, field string, visit func(id string, v *yaml.Node, f string)) {
	r.pairs(n, field, func(k, v *yaml.Node) {
		if _, err := model.Canonical(k.Value); err != nil {
			r.fail(k, field, "%s", fault.Message(err))
			return
		}
		visit(k.Value, v, fmt.Sprintf("%s[%q]", field, k.Value))
	})
}

func (r *modelsReader) bounds(n *yaml.Node, field string) map[string]model.Bounds {
	out := map[string]model.Bounds{}
	r.byModel(n, field, func(id string, v *yaml.Node, f string) {
		var b model.Bounds
		r.mapping(v, f, map[string]func(*yaml.Node, string){
			"context": func(n *yaml.Node, f string) { b.Context = r.tokens(n, f) },
			"output":  func(n *yaml.Node, f string) { b.MaxOutput = r.tokens(n, f) },
		})
		out[id] = b
	})
	return out
}

// maxTokens is the most tokens that a model may be said to take.
const maxTokens = 1e9

func (r *modelsReader) tokens(n *yaml.Node, field string) int64 {
	v, err := strconv.ParseInt(n.Value, 10, 64)
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" || err != nil || v < 1 || v > maxTokens {
		r.fail(n, field, "must be a number of tokens from 1")
		return 0
	}
	return v
}

func (r *modelsReader) prices(n *yaml.Node, field string) map[string]model.Prices {
	out := map[string]model.Prices{}
	r.byModel(n, field, func(id string, v *yaml.Node, f string) {
		var p model.Prices
		seen := map[string]bool{}
		price := func(into *int64) func(*yaml.Node, string) {
			return func(n *yaml.Node, f string) {
				*into = r.price(n, f)
				seen[f[strings.LastIndexByte(f, '.')+1:]] = true
			}
		}
		r.mapping(v, f, map[string]func(*yaml.Node, string){
			"input": price(&p.Input), "output": price(&p.Output), "cache_read": price(&p.CacheRead), "cache_write": price(&p.CacheWrite),
		})
		if v.Kind == yaml.MappingNode && (!seen["input"] || !seen["output"]) {
			r.fail(v, f, "input and output are needed")
		}
		if !seen["cache_read"] { // never too little
			p.CacheRead = p.Input
		}
		if !seen["cache_write"] {
			p.CacheWrite = p.Input + p.Input/4
		}
		out[id] = p
	})
	return out
}

// maxPrice is the most that a million tokens may cost, in dollars.
const maxPrice = 1e6

func (r *modelsReader) price(n *yaml.Node, field string) int64 {
	v, err := strconv.ParseFloat(n.Value, 64)
	if n.Kind != yaml.ScalarNode || err != nil || v < 0 || v > maxPrice || n.Tag != "!!int" && n.Tag != "!!float" {
		r.fail(n, field, "must be a number of dollars for a million tokens")
		return 0
	}
	return int64(math.Round(v * 1e6))
}
