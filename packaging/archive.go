package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"
)

// npmPackage is the package.json of a package.
type npmPackage struct {
	Name        string            `json:"name"`
	Version     string            `json:"version"`
	Description string            `json:"description"`
	License     string            `json:"license"`
	Author      string            `json:"author"`
	OS          []string          `json:"os,omitempty"`
	CPU         []string          `json:"cpu,omitempty"`
	Bin         map[string]string `json:"bin,omitempty"`
	Engines     map[string]string `json:"engines,omitempty"`
	Optional    map[string]string `json:"optionalDependencies,omitempty"`
}

// archiveName is the file name of a program's archive.
func archiveName(r Release, arch string) string {
	return fmt.Sprintf("remit_%s_linux_%s.tgz", r.Version, arch)
}

// npmCPU is an architecture as Node names it.
func npmCPU(arch string) string {
	if arch == "amd64" {
		return "x64"
	}
	return arch
}

// npmPlatform names the package of one platform: @remit/linux-x64, or @scope/remit-linux-x64 for @scope/remit.
func npmPlatform(name, arch string) string {
	if strings.HasPrefix(name, "@") {
		return name + "-linux-" + npmCPU(arch)
	}
	return "@" + name + "/linux-" + npmCPU(arch)
}

func newNPM(r Release, name, about string) npmPackage {
	return npmPackage{Name: name, Version: r.NPM, Description: "Remit " + about, License: "Apache-2.0", Author: r.Maintainer}
}

// writeArchives writes one archive for each program, which is also npm's package for that platform, and npm's
// main package, whose launcher finds the program.
func writeArchives(out string, r Release, name string, programs []Program, docs []File) error {
	main := newNPM(r, name, summary)
	main.Bin = map[string]string{"remit": "bin/remit"}
	main.Engines = map[string]string{"node": ">=18"}
	main.Optional = map[string]string{}
	for _, p := range programs {
		platform := npmPlatform(name, p.Arch)
		main.Optional[platform] = r.NPM
		about := newNPM(r, platform, "for linux-"+npmCPU(p.Arch)+": the programs that the package "+name+" starts")
		about.OS, about.CPU = []string{"linux"}, []string{npmCPU(p.Arch)}
		files := append([]File{{Path: "/bin/remit", Mode: 0o755, Data: p.Data}, {Path: "/bin/remit-hook", Mode: 0o755, Data: p.Hook}}, licenceFiles(docs)...)
		if err := writeArchive(filepath.Join(out, archiveName(r, p.Arch)), r, about, files); err != nil {
			return err
		}
	}
	launcher, err := own.ReadFile("files/npm/remit.js")
	if err != nil {
		return err
	}
	readme, err := own.ReadFile("files/npm/README.md")
	if err != nil {
		return err
	}
	files := []File{{Path: "/bin/remit", Mode: 0o755, Data: launcher}, {Path: "/README.md", Mode: 0o644, Data: readme}}
	return writeArchive(filepath.Join(out, fmt.Sprintf("remit_%s_npm.tgz", r.Version)), r, main, append(files, licenceFiles(docs)...))
}

// licenceFiles are the licence and the notices of the modules, in the root of an archive.
func licenceFiles(docs []File) []File {
	var out []File
	for _, f := range docs {
		if isLicence(f) {
			out = append(out, File{Path: "/" + filepath.Base(f.Path), Mode: f.Mode, Data: f.Data})
		}
	}
	return out
}

// writeArchive writes files and the package.json into a folder that has the version in its name.
func writeArchive(to string, r Release, about npmPackage, files []File) error {
	var manifest, b bytes.Buffer
	e := json.NewEncoder(&manifest)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(about); err != nil {
		return err
	}
	files = append([]File{{Path: "/package.json", Mode: 0o644, Data: manifest.Bytes()}}, files...)
	z := gzip.NewWriter(&b) // without a name and a time
	w := tar.NewWriter(z)
	if err := errors.Join(addFiles(w, "remit-"+r.Version, files, r.Date), w.Close(), z.Close()); err != nil {
		return err
	}
	return os.WriteFile(to, b.Bytes(), 0o644)
}

// semanticVersion is the version as npm orders it. npm has nothing between a release and the next one, so a build
// between them counts as before the next one. stamp is empty for a release.
func semanticVersion(core, pre, stamp string) string {
	switch {
	case pre != "" && stamp != "":
		return core + "-" + pre + "." + stamp
	case pre != "" || stamp == "":
		return strings.TrimSuffix(core+"-"+pre, "-")
	case core != "0.0.0":
		last := strings.LastIndexByte(core, '.') + 1
		patch, err := strconv.Atoi(core[last:])
		if err == nil {
			core = core[:last] + strconv.Itoa(patch+1)
		}
	}
	return core + "-" + stamp
}
