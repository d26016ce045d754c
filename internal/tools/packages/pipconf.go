package packages

import (
	"net/url"
	"strings"

	"github.com/BurntSushi/toml"
)

// ReadPipConf adds what a pip.conf file says: its settings for all commands and for install.
// Earlier files win.
func (r *Registries) ReadPipConf(src []byte) {
	section, key := "", ""
	for line := range strings.Lines(string(src)) {
		text := strings.TrimSpace(line)
		switch {
		case text == "" || strings.HasPrefix(text, "#") || strings.HasPrefix(text, ";"):
			continue
		case strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]"):
			section, key = text[1:len(text)-1], ""
			continue
		case line[0] == ' ' || line[0] == '\t': // another value of the same key
		default:
			var ok bool
			if key, text, ok = strings.Cut(text, "="); !ok {
				key = ""
			}
		}
		if section == "global" || section == "install" {
			r.SetPip(strings.ReplaceAll(strings.TrimSpace(key), "_", "-"), strings.TrimSpace(text))
		}
	}
}

// SetPip adds one setting of pip, unless there is one already. Credentials in a URL are left
// out.
func (r *Registries) SetPip(key, value string) {
	switch {
	case value == "":
	case key == "index-url" && r.Main == "":
		r.Main = r.withoutUser(value)
	case key == "extra-index-url":
		for one := range strings.FieldsSeq(value) {
			r.Extra = append(r.Extra, r.withoutUser(one))
		}
	case key == "cert" && r.CAFile == "":
		r.CAFile = value
	case key == "find-links" || key == "no-index" || key == "trusted-host":
		r.Ignored = append(r.Ignored, key)
	}
}

func (r *Registries) withoutUser(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.User == nil {
		return text
	}
	r.Logins, u.User = true, nil
	return u.String()
}

// ReadUVConfig adds what a uv.toml file says. Earlier files win.
func (r *Registries) ReadUVConfig(src []byte) {
	var f struct {
		IndexURL string   `toml:"index-url"`
		Extra    []string `toml:"extra-index-url"`
		Index    []struct {
			URL      string `toml:"url"`
			Default  bool   `toml:"default"`
			Explicit bool   `toml:"explicit"`
		} `toml:"index"`
	}
	if err := toml.Unmarshal(src, &f); err != nil {
		r.Ignored = append(r.Ignored, "uv.toml")
		return
	}
	for _, one := range f.Index {
		switch {
		case one.Explicit: // it is used for packages that a project names
		case one.Default:
			r.SetPip("index-url", one.URL)
		default:
			r.SetPip("extra-index-url", one.URL)
		}
	}
	r.SetPip("index-url", f.IndexURL)
	r.SetPip("extra-index-url", strings.Join(f.Extra, " "))
}
