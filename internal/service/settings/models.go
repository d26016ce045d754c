package settings

import (
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/tools/model"
)

// Models is the section models.
type Models struct {
	Default   string        // the model of agents that name none
	Wait      time.Duration // how long a service may send nothing
	Providers []Provider
	Prices    map[string]model.Prices // by model ID; one that ends in * is for all that begin so
	Bounds    map[string]model.Bounds // the same
}

// Provider is a service of models. One that is called anthropic or openai changes
// the built-in one of that name.
type Provider struct {
	Name    string
	Kind    string // the API that it speaks: Anthropic or OpenAI
	BaseURL string
	Key     string // a variable of Remit's environment, or a stored secret in lower case; "": none is sent
	API     string // of kind OpenAI: "chat" or "responses"
}

// The kinds of providers.
const (
	Anthropic = "anthropic"
	OpenAI    = "openai"
)

// builtin are the providers that are there without a setting, with the variables
// of their keys.
var builtin = []Provider{
	{Name: Anthropic, Kind: Anthropic, Key: "ANTHROPIC_API_KEY"},
	{Name: OpenAI, Kind: OpenAI, Key: "OPENAI_API_KEY"},
}

// All is the providers of the settings and the built-in ones.
func (m Models) All() []Provider {
	out := append([]Provider(nil), m.Providers...)
	for _, p := range builtin {
		if _, set := find(out, p.Name); !set {
			out = append(out, p)
		}
	}
	return out
}

func find(list []Provider, name string) (Provider, bool) {
	for _, p := range list {
		if p.Name == name {
			return p, true
		}
	}
	return Provider{}, false
}

var (
	keyName = regex.Lazy(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)
)

func (r *reader) models(m *Models) document.Fields {
	return document.Fields{
		"default":   func(n *document.Node, path string) { m.Default = r.modelID(n, path) },
		"wait":      r.wait(&m.Wait),
		"providers": func(n *document.Node, path string) { r.providers(n, path, m) },
		"prices":    func(n *document.Node, path string) { m.Prices = r.prices(n, path) },
		"limits":    func(n *document.Node, path string) { m.Bounds = r.bounds(n, path) },
	}
}

func (r *reader) modelID(n *document.Node, path string) string {
	id, ok := r.Text(n, path)
	if !ok {
		return ""
	}
	canonical, err := model.Canonical(id)
	if err != nil {
		r.Fail(n, path, "%s", fault.Message(err))
	}
	return canonical
}

func (r *reader) wait(into *time.Duration) document.Field {
	return func(n *document.Node, path string) {
		d, err := document.ParseDuration(n.Text)
		if n.Kind != document.String || err != nil || d < time.Second || d > time.Hour {
			r.Expected(n, path, "a time from 1s to 1h")
			return
		}
		*into = d
	}
}

func (r *reader) providers(n *document.Node, path string, m *Models) {
	r.Each(n, path, func(k, v *document.Node, path string) {
		if !model.ValidProvider(k.Text) {
			r.Fail(k, path, "%q is not a valid provider name", clip.Text(k.Text, 60)).Hint = "use up to 40 lower-case letters, digits, _ and -; the name " + model.Scripted + " is taken"
			return
		}
		m.Providers = append(m.Providers, r.provider(k, v, path))
	})
}

func (r *reader) provider(k, v *document.Node, path string) Provider {
	usual, known := find(builtin, k.Text)
	p := Provider{Name: k.Text, Kind: usual.Kind}
	r.Mapping(v, path, document.Fields{
		"kind":     r.OneOf(&p.Kind, Anthropic, OpenAI),
		"base_url": func(n *document.Node, path string) { p.BaseURL = r.baseURL(n, path) },
		"api":      r.OneOf(&p.API, "chat", "responses"),
		"key": func(n *document.Node, path string) {
			if p.Key, _ = r.Text(n, path); !keyName.MatchString(p.Key) {
				r.Fail(n, path, "must be the name of a variable or of a stored secret, not the key itself").Hint = "keep the key with remit secret set NAME"
			}
		},
	})
	switch {
	case p.Kind == "":
		r.Fail(v, path+".kind", "is missing; expected anthropic or openai, whose API the service speaks")
	case p.BaseURL == "" && !known:
		r.Fail(v, path+".base_url", "is missing; expected the URL of the service")
	case p.BaseURL == "" && p.Key == "":
		p.Key = usual.Key
	}
	if p.API != "" && p.Kind == Anthropic {
		r.Fail(v, path+".api", "is for the kind openai only")
	}
	if at := v.Lookup("base_url"); at != nil && p.Key != "" && !keepsKeys(p.BaseURL) {
		r.Fail(at, path+".base_url", "the key would be sent unencrypted").Hint = "use https; plain http is for services of this machine, or without a key"
	}
	return p
}

func (r *reader) baseURL(n *document.Node, path string) string {
	raw, ok := r.Text(n, path)
	if !ok {
		return ""
	}
	u, _, err := target.URL("POST", raw)
	switch {
	case err != nil:
		r.Fail(n, path, "%s", fault.Message(err))
	case strings.ContainsAny(raw, "?#"):
		r.Fail(n, path, "must be a URL without a query or fragment")
	default:
		return strings.TrimRight(u.String(), "/")
	}
	return ""
}

// keepsKeys reports whether requests to a URL cannot be read on the way. An
// unreadable URL is reported elsewhere.
func keepsKeys(base string) bool {
	_, to, err := target.URL("POST", base)
	if err != nil || to.Scheme == "https" || to.Host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(to.Host)
	return err == nil && a.IsLoopback()
}

// byModel reads the entries of a mapping whose keys are model IDs.
func (r *reader) byModel(n *document.Node, path string, read func(id string, v *document.Node, path string)) {
	r.Each(n, path, func(k, v *document.Node, path string) {
		if _, err := model.Canonical(k.Text); err != nil {
			r.Fail(k, path, "%s", fault.Message(err))
			return
		}
		read(k.Text, v, path)
	})
}

// maxTokens is the most tokens that a model may be said to take.
const maxTokens = 1e9

func (r *reader) bounds(n *document.Node, path string) map[string]model.Bounds {
	out := map[string]model.Bounds{}
	r.byModel(n, path, func(id string, v *document.Node, path string) {
		var b model.Bounds
		r.Mapping(v, path, document.Fields{"context": document.Int(r.Reader, &b.Context, 1, maxTokens), "output": document.Int(r.Reader, &b.MaxOutput, 1, maxTokens)})
		out[id] = b
	})
	return out
}

func (r *reader) prices(n *document.Node, path string) map[string]model.Prices {
	out := map[string]model.Prices{}
	r.byModel(n, path, func(id string, v *document.Node, path string) {
		p := model.Prices{CacheRead: -1, CacheWrite: -1}
		r.Mapping(v, path, document.Fields{"input": r.price(&p.Input), "output": r.price(&p.Output),
			"cache_read": r.price(&p.CacheRead), "cache_write": r.price(&p.CacheWrite)}, "input", "output")
		if p.CacheRead < 0 { // never too little
			p.CacheRead = p.Input
		}
		if p.CacheWrite < 0 {
			p.CacheWrite = p.Input + p.Input/4
		}
		out[id] = p
	})
	return out
}

// maxPrice is the most that a million tokens may cost, in dollars.
const maxPrice = 1e6

// price makes a field of dollars for a million tokens, kept in millionths.
func (r *reader) price(into *int64) document.Field {
	return func(n *document.Node, path string) {
		v, err := strconv.ParseFloat(n.Text, 64)
		if n.Kind != document.Number || err != nil || v < 0 || v > maxPrice {
			r.Expected(n, path, "a number of dollars for a million tokens")
			return
		}
		*into = int64(math.Round(v * 1e6))
	}
}
