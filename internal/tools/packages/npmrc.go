package packages

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
)

// Registries are the package registries in a person's configuration.
type Registries struct {
	Kind    Kind
	Main    string            // URL; "": the package manager's default
	Extra   []string          // further URLs that are asked for each package
	Scopes  map[string]string // URL by scope, as "@acme"
	CAFile  string            // certificates to trust, a path; ""
	Logins  bool              // it has credentials, which are not used
	Ignored []string          // keys with values that cannot be used
}

// ReadNPMRC adds what an .npmrc file says. Earlier files win: read the person's own first.
func (r *Registries) ReadNPMRC(src []byte, lookup func(string) (string, bool)) {
	for line := range strings.Lines(string(src)) {
		line = strings.TrimSpace(line)
		key, value, ok := strings.Cut(line, "=")
		if !ok || strings.HasPrefix(line, ";") || strings.HasPrefix(line, "#") {
			continue
		}
		key = strings.TrimSpace(key)
		if strings.HasPrefix(key, "//") || strings.HasPrefix(key, "_") {
			r.Logins = true
			continue
		}
		r.Set(key, expand(unquote(strings.TrimSpace(value)), lookup))
	}
}

// Set adds one setting, unless there is one already.
func (r *Registries) Set(key, value string) {
	scope, isScope := strings.CutSuffix(key, ":registry")
	switch {
	case value == "":
	case key == "cafile":
		if r.CAFile == "" {
			r.CAFile = value
		}
	case key == "registry" && r.Main == "":
		r.Main = value
	case isScope && r.Scopes[scope] == "":
		if !strings.HasPrefix(scope, "@") || !npmName.MatchString(scope+"/x") {
			r.Ignored = append(r.Ignored, key)
			return
		}
		if r.Scopes == nil {
			r.Scopes = map[string]string{}
		}
		r.Scopes[scope] = value
	}
}

// Check checks the URLs and gives their origins.
func (r *Registries) Check() (origins []string, err error) {
	for _, text := range slices.Concat([]string{r.Main}, slices.Sorted(maps.Values(r.Scopes)), r.Extra) {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return nil, fault.New(fault.Usage, "the package registry in your configuration is not a valid URL without a user").
				WithHint("check %s", r.Question())
		}
		if o := u.Scheme + "://" + u.Host; !slices.Contains(origins, o) {
			origins = append(origins, o)
		}
	}
	return origins, nil
}

// Question is the command that tells a person which registry is configured.
func (r *Registries) Question() string {
	if r.Kind == PyPI {
		return "python3 -m pip config list"
	}
	return "npm config get registry"
}

func unquote(s string) string {
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		return s[1 : len(s)-1]
	}
	return s
}

// expand replaces ${NAME} by the person's variable.
func expand(s string, lookup func(string) (string, bool)) string {
	var out strings.Builder
	for {
		i := strings.Index(s, "${")
		j := strings.IndexByte(s, '}')
		if i < 0 || j < i {
			return out.String() + s
		}
		v, _ := lookup(s[i+2 : j])
		out.WriteString(s[:i] + v)
		s = s[j+1:]
	}
}
