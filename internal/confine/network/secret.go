package network

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Credential is a header, or a parameter of the query, that Remit adds to a
// request.
type Credential struct {
	Header string // the field's name; "" for a parameter
	Query  string // the parameter's name
	Value  string // the whole of it
	Secret string // the part of Value that nobody may see

	Replaces bool // the request has a placeholder in the header
}

// Credentials returns the headers that the policies add to a request. A credential takes the place of a header of its name. lookup
// finds a secret by its policy.Secret.Key; nil finds nothing. brought returns the values of a header in the request. The error
// (fault.HandleRefused) does not hold the value: the request has another value there, or the secret is missing or cannot stand in
// a header.
func Credentials(p permit.Permit, to tool.Target, lookup func(name string) (string, bool), brought func(header string) []string) ([]Credential, error) {
	list, err := p.Chain().Secrets(to)
	if err != nil {
		return nil, err
	}
	var out []Credential
	for _, s := range list {
		own := brought(s.Header)
		switch {
		case s.None && len(own) > 0:
			return nil, fault.New(fault.HandleRefused, "the header %q is refused here: only your own logins are used at this host", s.Header)
		case s.None, s.InsteadOf != "" && len(own) == 0:
			continue
		case s.InsteadOf != "" && !isPlaceholder(list, s.Header, own):
			return nil, fault.New(fault.HandleRefused, "the header %q must have the placeholder of %s here: other keys are refused", s.Header, s.Name())
		case s.InsteadOf != "" && own[0] != s.Prefix+s.InsteadOf:
			continue
		case s.InsteadOf == "" && len(own) > 0:
			return nil, fault.New(fault.HandleRefused, "the header %q is Remit's to set here: send the request without it", s.Header)
		}
		value, ok := "", false
		if lookup != nil {
			value, ok = lookup(s.Key())
		}
		if !ok || value == "" {
			return nil, missing(s)
		}
		if strings.Trim(value, " \t") != value || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
			return nil, fault.New(fault.HandleRefused, "the secret %q cannot stand in a header", s.Name())
		}
		out = append(out, Credential{Header: s.Header, Value: s.Prefix + value, Secret: value, Replaces: s.InsteadOf != ""})
	}
	return out, nil
}

// isPlaceholder reports whether a request has one of the placeholders in a header, and nothing else.
func isPlaceholder(list []policy.Secret, header string, own []string) bool {
	return len(own) == 1 && slices.ContainsFunc(list, func(s policy.Secret) bool {
		return SameHeader(s.Header, header) && s.InsteadOf != "" && own[0] == s.Prefix+s.InsteadOf
	})
}

// missing tells which secret has no value. Its cause is fault.NotFound, which
// keeps the refusal from being a violation.
func missing(s policy.Secret) error {
	switch {
	case s.Login != "":
		return fault.Wrap(fault.HandleRefused, fault.NotFound, "the %s is missing, or has ended and could not be renewed", s.Name()).ForOperator("start %s outside of Remit, and log in", s.Login)
	case s.Store == "":
		return fault.Wrap(fault.HandleRefused, fault.NotFound, "the secret %q is not set in Remit's environment", s.Env)
	}
	return fault.Wrap(fault.HandleRefused, fault.NotFound, "the secret %q is not in the store", s.Store).ForOperator("set it with remit secret set %s", s.Store)
}

// SameHeader compares the names of two header fields as servers may: in any
// letter case, an underscore as a hyphen.
func SameHeader(a, b string) bool {
	return strings.EqualFold(strings.ReplaceAll(a, "_", "-"), strings.ReplaceAll(b, "_", "-"))
}

// credentials adds the policies' credentials to an outgoing request, and returns
// the mask for the response. The request's own header, which redirects repeat,
// stays without them.
func (t *Transport) credentials(out *http.Request, u *url.URL, to tool.Target) (mask, error) {
	brought := func(header string) (values []string) {
		for name, list := range out.Header {
			if SameHeader(name, header) {
				values = append(values, list...)
			}
		}
		return values
	}
	list, err := Credentials(t.permit, to, t.Secret, brought)
	if err != nil {
		return nil, err
	}
	if t.Sign != nil {
		more, err := t.Sign(to)
		if err != nil {
			return nil, err
		}
		list = append(list, more...)
	}
	if len(list) == 0 {
		return nil, nil
	}
	var m mask
	for _, c := range list {
		if c.Replaces {
			maps.DeleteFunc(out.Header, func(name string, _ []string) bool { return SameHeader(name, c.Header) })
		}
		if err := c.add(out, u, func(header string) bool { return len(brought(header)) > 0 }); err != nil {
			return nil, err
		}
		m = m.add(c.Secret)
	}
	// Only a body that is decoded here can be searched.
	out.Header.Del("Accept-Encoding")
	return m, nil
}

// add puts the credential into a request that has none of its name yet.
func (c Credential) add(out *http.Request, u *url.URL, brings func(header string) bool) error {
	if strings.ContainsFunc(c.Value, func(r rune) bool { return r < ' ' || r > '~' }) {
		return fault.New(fault.HandleRefused, "the secret for %q cannot stand in a request", c.Header+c.Query)
	}
	if c.Query == "" {
		if brings(c.Header) {
			return fault.New(fault.HandleRefused, "the header %q is Remit's to set here: send the request without it", c.Header)
		}
		out.Header.Set(c.Header, c.Value)
		return nil
	}
	if q, err := url.ParseQuery(u.RawQuery); err != nil || q.Has(c.Query) {
		return fault.New(fault.HandleRefused, "the parameter %q is Remit's to set here: send the request without it", c.Query)
	}
	if u.RawQuery != "" {
		u.RawQuery += "&"
	}
	u.RawQuery += url.QueryEscape(c.Query) + "=" + url.QueryEscape(c.Value)
	return nil
}
