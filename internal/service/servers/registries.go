package servers

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/confine/network"
	"github.com/remitrun/remit/internal/tools/packages"
)

// registries are the package registries of the person, checked.
type registries struct {
	packages.Registries
	files   []string // further origins that the package manager's default registry has its files at
	origins []string
	entries []string // of network.allow
	ca      []byte   // certificates to trust; nil: the system's
}

// variable gives a variable of the person; "" if there is none.
func (m *Servers) variable(name string) string {
	if m.Home.Lookup == nil {
		return ""
	}
	v, _ := m.Home.Lookup(name)
	return v
}

// check checks the registries, and looks up which addresses they have.
func (r *registries) check(ctx context.Context) (err error) {
	origins, err := r.Check()
	if err != nil {
		return err
	}
	for _, one := range append(origins, r.files...) {
		if !slices.Contains(r.origins, one) {
			r.origins = append(r.origins, one)
		}
	}
	if r.CAFile != "" {
		if r.ca, err = wholefile.ReadRegular(r.CAFile, 4<<20); err != nil {
			return fault.Wrap(fault.Usage, err, "the certificates %q of your configuration cannot be read: %v", r.CAFile, wholefile.Cause(err))
		}
	}
	for _, origin := range r.origins {
		entry, err := r.entry(ctx, origin)
		if err != nil {
			return err
		}
		r.entries = append(r.entries, entry)
	}
	return nil
}

// entry is the entry of network.allow for a registry. The person's configuration
// names the host, so one with TLS may have a private address.
func (r *registries) entry(ctx context.Context, origin string) (string, error) {
	to, err := target.Parse("", origin)
	if err != nil {
		return "", fault.Wrap(fault.Usage, err, "the package registry in your configuration cannot be used: %s", fault.Message(err))
	}
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "https" {
		return fmt.Sprintf("%q", origin), err
	}
	addrs, err := network.Resolve(ctx, to.Host)
	if err != nil {
		return "", fault.Wrap(fault.ToolFailed, err, "the package registry %s cannot be found", to.Host).WithHint("check the network, and %s", r.Question())
	}
	var private []string
	for _, a := range addrs {
		if !target.Public(a) && !a.IsLinkLocalUnicast() && !a.IsMulticast() && !a.IsUnspecified() {
			private = append(private, fmt.Sprintf("%q", a.Unmap()))
		}
	}
	if len(private) == 0 {
		return fmt.Sprintf("%q", origin), nil
	}
	return fmt.Sprintf("{url: %q, addresses: [%s]}", origin, strings.Join(private, ", ")), nil
}

// policy bounds the sandbox in which packages are resolved: its private folder and the
// registries.
func (r *registries) policy(server string) string {
	return fmt.Sprintf("version: 1\nname: %q\nnetwork:\n  allow: [%s]\n  total_bytes: 2GiB\ncommands: {timeout: 15m, memory: 4GiB, env: [PIP_CONFIG_FILE]}\n",
		"mcp package "+server, strings.Join(r.entries, ", "))
}
