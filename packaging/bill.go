package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// The bill of materials is an SPDX 2.3 document. It lists the modules that the linker embedded in
// the program, not those of a manifest.
type (
	bill struct {
		Version      string        `json:"spdxVersion"`
		License      string        `json:"dataLicense"`
		ID           string        `json:"SPDXID"`
		Name         string        `json:"name"`
		Namespace    string        `json:"documentNamespace"`
		Creation     billCreation  `json:"creationInfo"`
		Packages     []billPackage `json:"packages"`
		Relationship []billLink    `json:"relationships"`
	}
	billCreation struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	billPackage struct {
		Name      string         `json:"name"`
		ID        string         `json:"SPDXID"`
		Version   string         `json:"versionInfo,omitempty"`
		File      string         `json:"packageFileName,omitempty"`
		Supplier  string         `json:"supplier,omitempty"`
		Download  string         `json:"downloadLocation"`
		Analyzed  bool           `json:"filesAnalyzed"`
		Checksums []billChecksum `json:"checksums,omitempty"`
		License   string         `json:"licenseDeclared"`
		Copyright string         `json:"copyrightText"`
		Refs      []billRef      `json:"externalRefs"`
		Comment   string         `json:"comment,omitempty"`
		Purpose   string         `json:"primaryPackagePurpose"`
	}
	billChecksum struct {
		Algorithm string `json:"algorithm"`
		Value     string `json:"checksumValue"`
	}
	billRef struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	billLink struct {
		From string `json:"spdxElementId"`
		Type string `json:"relationshipType"`
		To   string `json:"relatedSpdxElement"`
	}
)

// noAssertion is SPDX's value for unknown information.
const noAssertion = "NOASSERTION"

func newBill(r Release, p Program) bill {
	name := fmt.Sprintf("remit_%s_linux_%s", r.Version, p.Arch)
	b := bill{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: name,
		Namespace: "urn:uuid:" + uuid(p.SHA256),
		Creation:  billCreation{Created: r.Date.Format(time.RFC3339), Creators: []string{"Tool: remit-packaging-" + r.Version}},
	}
	main := goModule(p.Info.Main.Path, "v"+r.Version)
	main.Name, main.Version, main.File, main.License, main.Purpose = "remit", r.Version, name, "Apache-2.0", "APPLICATION"
	main.Checksums = []billChecksum{{"SHA256", p.SHA256}}
	std := goModule("std", strings.TrimPrefix(p.Info.GoVersion, "go"))
	std.Name, std.License = "Go's standard library", "BSD-3-Clause"
	b.Packages = []billPackage{main, std}
	for _, m := range p.Info.Deps {
		one := goModule(m.Path, m.Version)
		one.Comment = "Go module checksum " + m.Sum
		b.Packages = append(b.Packages, one)
	}
	b.Relationship = []billLink{{b.ID, "DESCRIBES", main.ID}}
	for _, one := range b.Packages[1:] {
		b.Relationship = append(b.Relationship, billLink{main.ID, "CONTAINS", one.ID})
	}
	return b
}

// goModule describes a module by its package URL.
func goModule(path, version string) billPackage {
	return billPackage{
		Name: path, ID: "SPDXRef-" + identifier.ReplaceAllString(path, "-"), Version: version, Download: noAssertion, License: noAssertion, Copyright: noAssertion,
		Refs:    []billRef{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + path + "@" + url.QueryEscape(version)}},
		Purpose: "LIBRARY",
	}
}

var identifier = regexp.MustCompile(`[^A-Za-z0-9.]+`)

// uuid makes a document's name of what it describes: version 8 is free for such uses.
func uuid(hex string) string {
	return strings.Join([]string{hex[:8], hex[8:12], "8" + hex[13:16], "8" + hex[17:20], hex[20:32]}, "-")
}

func writeBill(out string, r Release, p Program) error {
	b := newBill(r, p)
	data, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, b.Name+".spdx.json"), append(data, '\n'), 0o644)
}
