package clients

import (
	"bytes"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/profile"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/walk"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/service/agentlogins"
)

// keyPlan says for each key of an agent who adds it to requests.
type keyPlan struct {
	entries []profile.KeyEntry      // for the keys that the proxy adds
	exposed []string                // keys and logins that the sandbox holds, by name
	login   agentlogins.Placeholder // of the person's login; File "": none
	linked  string                  // the file of the person's login, if the agent may use it; "": it may not
}

// planKeys decides for each key of an agent whether the proxy adds it. It sets c.Env to placeholders, or to the key where the proxy
// cannot add it.
func (s *Clients) planKeys(c *Confined, ready bool) (plan keyPlan, err error) {
	login, err := s.Logins.Placeholder(c.Agent.Name)
	hasLogin := err == nil
	if err != nil && !errors.Is(err, fault.NotFound) {
		return plan, err
	}
	if hasLogin && !ready {
		plan.linked = filepath.Join(s.Home.UserHome, login.File)
		plan.exposed = append(plan.exposed, "the login of "+c.Agent.Title)
	}
	var places []string
	for _, k := range c.Agent.Keys {
		value, present := s.Home.Lookup(k.Variable)
		present = present && value != ""
		if k.Login != "" {
			present, k.Placeholder = hasLogin && ready, login.Token
			if login.Key {
				k.Host, k.URLs = "api.openai.com", c.Agent.URLs
			}
		}
		usual := originOf("https://" + k.Host)
		at := usual
		for _, v := range k.URLs {
			if of := originOf(c.Env[v]); of != "" {
				at = of
				break
			}
		}
		places = append(places, usual, at)
		switch {
		case !present, k.Login != "" && at != usual && len(plan.entries) > 0: // a gateway for which the person has another key
		case ready && hidesKeys(at):
			plan.entries = append(plan.entries, profile.KeyEntry{URL: at, Secret: policy.Secret{Header: k.Header, Env: k.Variable, Login: k.Login, Prefix: k.Prefix, InsteadOf: k.Placeholder}})
			if k.Login != "" {
				plan.login = login
			} else {
				c.Env[k.Variable] = k.Placeholder
			}
		case k.Login != "":
			plan.exposed = append(plan.exposed, "no login of "+c.Agent.Title)
		default:
			c.Env[k.Variable] = value
			plan.exposed = append(plan.exposed, k.Variable)
		}
	}
	if len(plan.entries) > 0 && !s.hasOwnKeys(*c, plan) {
		plan.refuseOthers(c.Agent, places)
	}
	return plan, nil
}

// hidesKeys reports whether the proxy sees requests to a place, and nobody on the way there sees a key.
func hidesKeys(origin string) bool {
	t, err := target.Parse("", origin)
	addr, aerr := netip.ParseAddr(t.Host)
	return err == nil && (t.Scheme == "https" || t.Host == "localhost" || aerr == nil && addr.IsLoopback())
}

// hasOwnKeys reports whether the agent may have keys that Remit does not know: in its settings, or of a login that it made itself.
func (s *Clients) hasOwnKeys(c Confined, plan keyPlan) bool {
	if plan.login.File == "" && agentlogins.File(c.Agent.Name) != "" {
		b, err := wholefile.ReadRegular(filepath.Join(c.Home, agentlogins.File(c.Agent.Name)), maxSettingsFile)
		if err == nil && !agentlogins.IsPlaceholder(c.Agent.Name, b) {
			return true
		}
	}
	return slices.ContainsFunc(c.Agent.Links, func(name string) bool {
		b, err := wholefile.ReadRegular(filepath.Join(s.Home.UserHome, name), maxSettingsFile)
		isLogin := slices.Contains(logins, name) && err == nil
		return isLogin || slices.ContainsFunc([]string{"apiKey", "api_key", "api-key", "API_KEY", "AUTH_TOKEN"}, func(word string) bool { return bytes.Contains(b, []byte(word)) })
	})
}

// maxSettingsFile bounds the settings of an agent that are searched for keys, in bytes.
const maxSettingsFile = 1 << 20

// refuseOthers adds entries by which requests with other keys are refused: the agent cannot use a key of somebody else to send files
// into another account.
func (p *keyPlan) refuseOthers(a profile.Agent, places []string) {
	headers := []string{"Authorization", "x-api-key"}
	for _, k := range a.Keys {
		headers = append(headers, k.Header)
	}
	slices.Sort(headers)
	slices.Sort(places)
	for _, at := range slices.Compact(places) {
		for _, h := range slices.Compact(slices.Clone(headers)) {
			known := slices.ContainsFunc(p.entries, func(e profile.KeyEntry) bool { return e.URL == at && e.Secret.Header == h })
			if !known && hidesKeys(at) {
				p.entries = append(p.entries, profile.KeyEntry{URL: at, Secret: policy.Secret{Header: h, None: true}})
			}
		}
	}
}

// putLogin makes the file with the placeholder of the person's login, or the link to the login. Without a login of the person's, a
// login that the agent made itself stays.
func (p *keyPlan) putLogin(root *os.Root, agent string) error {
	file := agentlogins.File(agent)
	if file == "" {
		return nil
	}
	if err := root.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	if st, err := root.Lstat(file); err == nil {
		var content []byte
		if st.Mode().IsRegular() && st.Size() <= maxSettingsFile {
			if content, err = root.ReadFile(file); err != nil {
				return err
			}
		}
		if p.login.File != "" && bytes.Equal(content, p.login.Content) {
			return nil // another start may use it
		}
		old := st.Mode()&fs.ModeSymlink != 0 || agentlogins.IsPlaceholder(agent, content)
		if (old || p.login.File != "") && p.linked == "" || old && p.linked != "" {
			if err := walk.RemoveIn(root, file); err != nil {
				return err
			}
		}
	}
	switch {
	case p.linked != "":
		return link(root, file, p.linked, true)
	case p.login.File == "":
		return nil
	}
	next := file + ".new" // renamed at once: a running agent finds a whole file
	if err := root.WriteFile(next, p.login.Content, 0o600); err != nil {
		return err
	}
	return root.Rename(next, file)
}
