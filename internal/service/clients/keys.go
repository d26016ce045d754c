package clients

import (
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/profile"
	"github.com/remitrun/remit/internal/base/walk"
	"github.com/remitrun/remit/internal/service/agentlogins"
)

// outside are the keys of one agent that stay outside of its sandbox.
type outside struct {
	chosen []chosenKey
	others bool                // the agent may use logins of its own
	linked string              // the person's login, which the agent has itself; "": it has not
	inside []string            // variables whose keys the agent has itself
	login  agentlogins.StandIn // the person's login; File "": none
}

// chosenKey is a key, or the header of one, at one place.
type chosenKey struct {
	profile.Key

	origin  string // scheme, host and port
	present bool   // the person has it
}

// keys divides an agent's keys: the proxy adds most of them to requests, and the agent gets stand-ins. The agent has
// the others itself.
func (s *Clients) keys(c *Confined, ready bool) (out outside) {
	login, hasLogin := s.Logins.StandIn(c.Agent.Name)
	if hasLogin && !ready {
		out.linked = filepath.Join(s.Home.UserHome, login.File)
		out.inside = append(out.inside, "the login of "+c.Agent.Title)
	}
	out.others = slices.ContainsFunc(c.Agent.Links, func(name string) bool { return slices.Contains(logins, name) })
	for _, k := range c.Agent.Keys {
		value, present := s.Home.Lookup(k.Variable)
		present = present && value != ""
		if k.Login != "" {
			if present = hasLogin; present {
				k.StandIn = login.Token
			}
			if login.Key {
				k.Host = "api.openai.com"
			}
		}
		origin := "https://" + k.Host
		for _, v := range k.URLs {
			if of := originOf(c.Env[v]); of != "" {
				out.choose(chosenKey{k, origin, false})
				origin = of
				break
			}
		}
		switch {
		case ready && hidesKeys(origin):
			out.choose(chosenKey{k, origin, present})
		case present && k.Variable != "":
			c.Env[k.Variable] = value
			out.inside = append(out.inside, k.Variable)
		}
	}
	for _, k := range out.chosen {
		if k.present && k.Variable != "" {
			c.Env[k.Variable] = k.StandIn
		}
		if k.present && hasLogin && k.StandIn == login.Token {
			out.login = login
		}
	}
	return out
}

// hidesKeys reports whether the proxy sees requests to a place, and the way there shows nobody a key.
func hidesKeys(origin string) bool {
	u, err := url.Parse(origin)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return u.Scheme == "https" || u.Hostname() == "localhost" || err == nil && addr.IsLoopback()
}

// choose keeps one key for each header of a place: the first that the person has.
func (o *outside) choose(k chosenKey) {
	i := slices.IndexFunc(o.chosen, func(other chosenKey) bool { return other.origin == k.origin && other.Header == k.Header })
	switch {
	case i < 0:
		o.chosen = append(o.chosen, k)
	case !o.chosen[i].present && k.present:
		o.chosen[i] = k
	}
}

// noKey stands for a key that the person does not have.
const noKey = "no-key-is-used-here"

// entries are those of the ready policy. Each place and header for which the person has no key is an entry, too: the agent cannot
// use a key of somebody else there, and send what it read into that account.
func (o *outside) entries() (list []string) {
	for _, k := range o.chosen {
		if !o.known() || !k.present && o.others {
			continue
		}
		secret := policy.Secret{Header: k.Header, Env: k.Variable, Login: k.Login, Prefix: k.Prefix, InsteadOf: k.StandIn}
		if !k.present {
			secret.InsteadOf = noKey
		}
		list = append(list, "{url: '"+k.origin+"', secret: "+secret.String()+"}")
	}
	return list
}

// known reports whether the person is logged in.
func (o *outside) known() bool {
	return slices.ContainsFunc(o.chosen, func(k chosenKey) bool { return k.present }) || len(o.inside) > 0
}

// putLogin makes the file with the stand-in of the person's login, and removes an older one. Without a login of the person's, a login
// that the agent made itself stays.
func (o *outside) putLogin(root *os.Root, agent string) error {
	file := agentlogins.File(agent)
	if file == "" {
		return nil
	}
	if err := root.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	if st, err := root.Lstat(file); err == nil {
		old := st.Mode()&fs.ModeSymlink != 0
		if !old && st.Mode().IsRegular() {
			content, err := root.ReadFile(file)
			old = err == nil && agentlogins.IsStandIn(content)
		}
		if old || o.login.File != "" {
			if err := walk.RemoveIn(root, file); err != nil {
				return err
			}
		}
	}
	if o.linked != "" {
		return link(root, file, o.linked, true)
	}
	if o.login.File == "" {
		return nil
	}
	return root.WriteFile(file, o.login.Content, 0o600)
}
