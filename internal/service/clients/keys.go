package clients

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

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
	if len(plan.entries) > 0 && !s.hasOwnKeys(*c) {
		if plan.login.File == "" { // the hosts are open, for a login
			for _, host := range c.Agent.LoginHosts {
				places = append(places, originOf("https://"+host))
			}
		}
		plan.refuseOthers(c.Agent, places)
	}
	return plan, nil
}

// hidesKeys reports whether the proxy can add a key to requests to an origin without showing it to the network: by TLS, or on this
// machine.
func hidesKeys(origin string) bool {
	t, err := target.Parse("", origin)
	addr, aerr := netip.ParseAddr(t.Host)
	return err == nil && (t.Scheme == "https" || t.Host == "localhost" || aerr == nil && addr.IsLoopback())
}

// hasOwnKeys reports whether the agent may have keys that Remit does not know: in the settings of the person, or in a login file
// whose format it does not know. Files that the agent writes do not count.
func (s *Clients) hasOwnKeys(c Confined) bool {
	return slices.ContainsFunc(c.Agent.Links, func(name string) bool {
		b, err := wholefile.ReadRegular(filepath.Join(s.Home.UserHome, name), maxSettingsFile)
		if slices.Contains(logins, name) && err == nil {
			return true
		}
		for line := range bytes.Lines(b) {
			isName := bytes.Contains(line, []byte("env_key")) // of a variable
			if !isName && slices.ContainsFunc(keyWords, func(word string) bool { return bytes.Contains(line, []byte(word)) }) {
				return true
			}
		}
		return false
	})
}

// keyWords occur beside keys in the settings of agents.
var keyWords = []string{"apiKey", "api_key", "api-key", "API_KEY", "AUTH_TOKEN", "bearer_token", "http_headers", "CUSTOM_HEADERS"}

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

// putLogin makes the file with the placeholder of the person's login, or the link to the login. It replaces FIFOs, links and folders
// that the agent has put there. Without a login of the person's, the agent's own login stays.
func (p *keyPlan) putLogin(root *os.Root, agent string) error {
	file := agentlogins.File(agent)
	if file == "" {
		return nil
	}
	if err := folderIn(root, filepath.Dir(file)); err != nil {
		return err
	}
	if st, err := root.Lstat(file); err == nil {
		content := contentIn(root, file)
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
	next := file + "." + rand.Text()
	f, err := root.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(p.login.Content)
	if err = errors.Join(err, f.Close()); err == nil {
		err = root.Rename(next, file) // a running agent finds a whole file
	}
	if err != nil {
		_ = root.Remove(next) // the first error is told
	}
	return err
}

// folderIn makes a folder that the person can use, in place of anything else.
func folderIn(root *os.Root, name string) error {
	if st, err := root.Lstat(name); err == nil && !st.IsDir() {
		if err := walk.RemoveIn(root, name); err != nil {
			return err
		}
	} else if err == nil && st.Mode().Perm()&0o700 != 0o700 {
		if err := root.Chmod(name, 0o700); err != nil {
			return err
		}
	}
	return root.MkdirAll(name, 0o700)
}

// contentIn reads a file that the agent may have put there; nil: it is too large, no file, or cannot be read.
func contentIn(root *os.Root, name string) []byte {
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }() // it was only read
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() || st.Size() > maxSettingsFile {
		return nil
	}
	b, err := io.ReadAll(io.LimitReader(f, maxSettingsFile))
	if err != nil {
		return nil
	}
	return b
}
