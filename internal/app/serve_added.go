package app

import (
	"context"
	"fmt"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/doors/httpapi"
)

// Parts implements httpapi.Parts.
func (s *served) Parts(context.Context) (httpapi.PartList, error) {
	out := httpapi.PartList{Servers: []httpapi.ServerPart{}, Extensions: []httpapi.ExtensionPart{}, Secrets: []httpapi.SecretPart{}, Notifications: []string{}}
	servers, err := s.app.Servers.List()
	if err != nil {
		return out, err
	}
	for _, v := range servers {
		p := httpapi.ServerPart{Name: v.Name, URL: v.URL, Command: v.Command, By: v.By}
		if v.Package != nil {
			p.Package = v.Package.Name
		}
		out.Servers = append(out.Servers, p)
	}
	installed, err := s.app.Extensions.List()
	if err != nil {
		return out, err
	}
	for _, e := range installed {
		p := httpapi.ExtensionPart{ID: e.ID, Name: e.Name, Version: e.Version, Description: e.Description, Author: e.Author, Enabled: e.Enabled, Signer: e.Signer, Installed: e.Installed, By: e.By, Commands: []string{}, Tools: []string{}}
		for _, c := range e.Commands {
			p.Commands = append(p.Commands, c.Name)
		}
		for _, t := range e.Tools {
			p.Tools = append(p.Tools, string(t))
		}
		out.Extensions = append(out.Extensions, p)
	}
	secrets, err := s.app.Secrets.List("", s.workspace)
	if err != nil {
		return out, err
	}
	for _, v := range secrets {
		p := httpapi.SecretPart{Name: v.Name, Set: v.Set, Uses: []string{}}
		for _, u := range v.Uses {
			p.Uses = append(p.Uses, fmt.Sprintf("%s %s", u.Policy, u.Rule))
		}
		out.Secrets = append(out.Secrets, p)
	}
	for _, c := range s.app.Notifier.Channels() {
		out.Notifications = append(out.Notifications, c.Name())
	}
	return out, nil
}

// Change implements httpapi.Tools.
func (s *served) Change(ctx context.Context, person, id string) (httpapi.ToolChange, error) {
	c, err := s.app.catalog.Difference(ctx, person, tool.ID(id))
	out := httpapi.ToolChange{Tool: id, Changed: c.Is != nil}
	if err == nil && c.Is != nil && c.Was != nil {
		d := c.Diff()
		out.Diff, out.Hunks, out.Digest = d.Text, d.Hunks, c.Is.Digest
	}
	return out, err
}

// Accept implements httpapi.Tools. It shows nothing: the person must have seen the change before.
func (s *served) Accept(ctx context.Context, person, id, digest string) (httpapi.ToolChange, error) {
	out := httpapi.ToolChange{Tool: id}
	if digest == "" {
		return out, fault.New(fault.Usage, "digest is missing").WithHint("send the digest of the change that was shown")
	}
	c, err := s.app.Extensions.AcceptTool(ctx, person, tool.ID(id), digest)
	if err == nil && c.Is == nil {
		err = fault.New(fault.Conflict, "the tool %q did not change; nothing was accepted", id)
	}
	return out, err
}

// Learn implements httpapi.Policies.
func (s *served) Learn(ctx context.Context, runs []string) (httpapi.LearnedPolicy, error) {
	l, err := s.app.PolicyReview.Learn(ctx, "learned", runs, false)
	out := httpapi.LearnedPolicy{Policy: string(l.Policy), Widened: []string{}, Calls: l.Calls, Refused: l.Refused}
	for _, w := range l.Widened {
		out.Widened = append(out.Widened, w.Entry+": allows "+w.Allows+"; the runs used "+w.Seen)
	}
	return out, err
}
