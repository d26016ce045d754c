package model

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/regex"
)

// maxID is how long a model's ID may be, in bytes.
const maxID = 1024

// Scripted is the provider whose models are files of answers.
const Scripted = "scripted"

var providerName = regex.Lazy(`^[a-z][a-z0-9_-]{0,39}$`)

// ValidProvider reports whether a provider other than Scripted can have a name.
func ValidProvider(name string) bool { return providerName.MatchString(name) && name != Scripted }

// ParseID reads a model's ID: "provider/model", or "scripted:FILE". It gives the
// provider's name and the model's. Errors are fault.ModelUnknown.
func ParseID(id string) (provider, name string, err error) {
	bad := func(why string) (string, string, error) {
		return "", "", fault.New(fault.ModelUnknown, "%.200q is not a valid model: %s", id, why).
			WithHint("write provider/model, as anthropic/claude-sonnet-4-5, or scripted:FILE")
	}
	switch i := strings.IndexAny(id, "/:"); {
	case id == "":
		return "", "", fault.New(fault.ModelUnknown, "no model is chosen").
			WithHint("name one, or set models.default in config.yaml")
	case len(id) > maxID:
		return bad("it is too long")
	case !utf8.ValidString(id) || strings.ContainsFunc(id, func(r rune) bool { return !unicode.IsPrint(r) }):
		return bad("it contains unprintable characters")
	case i <= 0 || i == len(id)-1:
		return bad("expected provider/model")
	case id[i] == ':' && id[:i] != Scripted:
		return bad("a slash follows the provider's name")
	default:
		return id[:i], id[i+1:], nil
	}
}

// Canonical returns the one spelling of an ID, by which it is decided and recorded:
// "scripted:" and a clean path for files of answers, any other as it is.
func Canonical(id string) (string, error) {
	provider, name, err := ParseID(id)
	if err != nil || provider != Scripted {
		return id, err
	}
	return Scripted + ":" + cleanPath(name), nil
}

// Registry is the providers that there are, by the operator's settings. It does
// not change.
type Registry struct {
	Providers []Provider
	Default   string // the model of agents that name none; "": there is none
	// Prices is what models cost, by ID; an ID that ends in * is for all that begin
	// so. The longest that fits counts, and the ID itself before all.
	Prices map[string]Prices
	// Bounds are the operator's limits of models, by the same IDs. Zero fields keep the known
	// value.
	Bounds map[string]Bounds
}

// Bounds is how much a model takes, in tokens.
type Bounds struct {
	Context   int64 // of a request and its answer together
	MaxOutput int64 // of an answer
}

// Find returns the provider that serves a model, and the model's name there.
// Errors are fault.ModelUnknown.
func (r *Registry) Find(id string) (Provider, string, error) {
	provider, name, err := ParseID(id)
	if err != nil {
		return nil, "", err
	}
	var names []string
	if r != nil {
		for _, p := range r.Providers {
			if p.Name() == provider {
				return p, name, nil
			}
			names = append(names, p.Name())
		}
	}
	slices.Sort(names)
	return nil, "", fault.New(fault.ModelUnknown, "no provider is called %q", provider).
		WithHint("there are %s; others are set in models.providers of config.yaml", cmp.Or(strings.Join(names, ", "), "none"))
}

// Limits returns the known limits of a model, the operator's prices included.
func (r *Registry) Limits(id string) Limits {
	p, name, err := r.Find(id)
	if err != nil {
		return Limits{}
	}
	l := p.Limits(name)
	if price, ok := fitting(r.Prices, id); ok {
		l.Prices = &price
	}
	b, _ := fitting(r.Bounds, id)
	l.Context, l.MaxOutput = cmp.Or(b.Context, l.Context), cmp.Or(b.MaxOutput, l.MaxOutput)
	return l
}

// fitting finds the setting for an ID: by the ID itself, or else by the longest beginning with a *
// behind it.
func fitting[V any](said map[string]V, id string) (best V, ok bool) {
	longest := -1
	for pattern, v := range said {
		if pattern == id {
			return v, true
		}
		if head, any := strings.CutSuffix(pattern, "*"); any && strings.HasPrefix(id, head) && len(head) > longest {
			best, longest, ok = v, len(head), true
		}
	}
	return best, ok
}
