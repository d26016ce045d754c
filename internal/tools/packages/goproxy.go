package packages

import (
	"net/url"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/remitrun/remit/internal/base/fault"
)

// GoOrigins gives the origins that GOPROXY and GOSUMDB name.
func GoOrigins(proxy, sums string) (origins []string, err error) {
	list := strings.FieldsFunc(proxy, func(r rune) bool { return r == ',' || r == '|' })
	if name, at, _ := strings.Cut(strings.TrimSpace(sums), " "); at != "" {
		list = append(list, at)
	} else if name != "" && name != "off" {
		host, _, _ := strings.Cut(name, "+")
		list = append(list, "https://"+host)
	}
	for _, text := range list {
		text = strings.TrimSpace(text)
		if text == "direct" || text == "off" || text == "" {
			continue
		}
		o, err := origin(text)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(origins, o) {
			origins = append(origins, o)
		}
	}
	return origins, nil
}

// ReadGoEnv gives a setting of a file that `go env -w` writes; "" if it has none.
func ReadGoEnv(src []byte, name string) string {
	for line := range strings.Lines(string(src)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && key == name {
			return value
		}
	}
	return ""
}

// CargoOrigins gives the origins of the registries that a config.toml of cargo names.
func CargoOrigins(src []byte) (origins []string, err error) {
	var f struct {
		Registries map[string]struct {
			Index string `toml:"index"`
		} `toml:"registries"`
		Source map[string]struct {
			Registry string `toml:"registry"`
		} `toml:"source"`
	}
	if err := toml.Unmarshal(src, &f); err != nil {
		return nil, fault.New(fault.Usage, "it is not valid TOML")
	}
	var list []string
	for _, r := range f.Registries {
		list = append(list, r.Index)
	}
	for _, s := range f.Source {
		list = append(list, s.Registry)
	}
	slices.Sort(list)
	for _, text := range slices.Compact(list) {
		if text == "" {
			continue
		}
		o, err := origin(strings.TrimPrefix(text, "sparse+"))
		if err != nil {
			return nil, err
		}
		origins = append(origins, o)
	}
	return slices.Compact(origins), nil
}

// origin is the scheme and host of a registry's URL, which must be https.
func origin(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
		return "", fault.New(fault.Usage, "a registry in it is not a valid https URL without a user")
	}
	return u.Scheme + "://" + u.Host, nil
}
