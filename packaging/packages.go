package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/apk"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

const (
	summary     = "executes AI agents' tool calls under policy, confined, recorded"
	description = "Remit executes the tool calls of AI agents: files, HTTP requests, commands,\n" +
		"MCP servers, models. A policy decides every call. The call is recorded before\n" +
		"it runs, confined while it runs, and can be verified and replayed afterwards.\n" +
		"Nothing runs unless a policy allows it."
)

// formats are the packages that are made of a program.
var formats = []struct {
	name     string
	packager nfpm.Packager
}{{"deb", deb.Default}, {"rpm", rpm.DefaultRPM}, {"apk", apk.Default}}

// writePackages writes a program's packages.
func writePackages(out string, r Release, p Program, docs []File) error {
	stage, err := os.MkdirTemp("", "remit-packages-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(stage) }() // copies
	all := append([]File{{Path: "/usr/bin/remit", Mode: 0o755, Data: p.Data}, {Path: "/usr/bin/remit-hook", Mode: 0o755, Data: p.Hook}}, docs...)
	for _, f := range formats {
		info, err := packageInfo(stage, f.name, r, p, all)
		if err != nil {
			return err
		}
		info = nfpm.WithDefaults(info)
		to, err := os.Create(filepath.Join(out, f.packager.ConventionalFileName(info)))
		if err != nil {
			return err
		}
		if err := errors.Join(f.packager.Package(info, to), to.Close()); err != nil {
			return fmt.Errorf("%s for %s: %w", f.name, p.Arch, err)
		}
	}
	return nil
}

// packageInfo describes one package. nfpm reads the files from stage.
func packageInfo(stage, format string, r Release, p Program, all []File) (*nfpm.Info, error) {
	info := &nfpm.Info{
		Name: "remit", Arch: p.Arch, Platform: "linux", Version: r.Version, VersionSchema: "none", Release: "1",
		Section: "admin", Priority: "optional", Maintainer: r.Maintainer, License: "Apache-2.0", MTime: r.Date, DisableGlobbing: true,
		Description: summary + "\n" + description,
	}
	info.RPM.Summary, info.RPM.BuildHost = summary, "localhost"
	if format == "rpm" {
		info.Description = description
	}
	if format == "apk" {
		info.Version, info.Release, info.Description = r.Alpine, "0", summary
	} else if err := addScripts(info, stage); err != nil {
		return nil, err
	}
	for _, f := range all {
		if !f.in(format) {
			continue
		}
		at := filepath.Join(stage, f.Path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, f.Data, 0o644)); err != nil {
			return nil, err
		}
		kind := files.TypeFile
		if format == "rpm" && strings.HasPrefix(f.Path, docFolder) {
			kind = files.TypeRPMDoc
		}
		info.Contents = append(info.Contents, &files.Content{
			Source: at, Destination: f.Path, Type: kind,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: f.Mode, MTime: r.Date},
		})
	}
	return info, nil
}

// addScripts adds what runs after installation and before removal. Alpine has neither
// systemd nor AppArmor's profiles, so apk packages have no scripts.
func addScripts(info *nfpm.Info, stage string) error {
	for name, to := range map[string]*string{"postinstall.sh": &info.Scripts.PostInstall, "preremove.sh": &info.Scripts.PreRemove, "postremove.sh": &info.Scripts.PostRemove} {
		data, err := own.ReadFile("files/" + name)
		if err != nil {
			return err
		}
		*to = filepath.Join(stage, name)
		if err := os.WriteFile(*to, data, 0o755); err != nil {
			return err
		}
	}
	return nil
}
