package network

import (
	"maps"
	"net/http"
	"net/url"
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

	Replaces bool // the request has the header, with what stands for the secret
}

// Credentials gives what the policies of a permit add to a request that may be
// sent, with values that lookup finds by their policy.Secret.Key: in Remit's own
// environment, the store or a login (nil finds nothing). A credential takes the place of the header of its name. brought
// returns the values of a header in the request. A request that brings such a header itself, with another value than the one that
// stands for the secret, and a secret that is not set or cannot stand in a header, are a fault.HandleRefused error, which does
// not hold the value.
func Credentials(p permit.Permit, to tool.Target, lookup func(name string) (string, bool), brought func(header string) []string) ([]Credential, error) {
	list, err := p.Chain().Secrets(to)
	if err != nil {
		return nil, err
	}
	var out []Credential
	for _, s := range list {
		own := brought(s.Header)
		switch {
		case s.InsteadOf != "" && len(own) == 0:
			continue
		case s.InsteadOf != "" && (len(own) > 1 || own[0] != s.Prefix+s.InsteadOf):
			return nil, fault.New(fault.HandleRefused, "the header %q may have only the value that stands for %s here: requests with another login are not sent", s.Header, s.Name())
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

// missing tells which secret has no value. Its cause is fault.NotFound, which
// keeps the refusal from being a violation.
func missing(s policy.Secret) error {
	switch {
	case s.Login != "":
		return fault.Wrap(fault.HandleRefused, fault.NotFound, "the %s is missing or has ended", s.Name()).ForOperator("start %s outside of Remit, and log in", s.Login)
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
