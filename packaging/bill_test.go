package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// sbomPackage is what SPDX says of one package.
type sbomPackage struct {
	Name, SPDXID, VersionInfo, DownloadLocation, LicenseDeclared, CopyrightText string
	FilesAnalyzed                                                               *bool
	Checksums                                                                   []struct{ Algorithm, ChecksumValue string }
	ExternalRefs                                                                []struct{ ReferenceCategory, ReferenceType, ReferenceLocator string }
}

// What SPDX 2.3 requires of a document, and what this one promises: it lists what `go
// version -m` finds in the program.
func TestBillOfMaterials(t *testing.T) {
	dir := distFolder(t)
	data, err := os.ReadFile(one(t, dir, ".spdx.json"))
	must(t, err)
	var b struct {
		SPDXVersion, DataLicense, SPDXID, Name, DocumentNamespace string
		CreationInfo                                              struct {
			Created  string
			Creators []string
		}
		Packages      []sbomPackage
		Relationships []struct{ SPDXElementID, RelationshipType, RelatedSPDXElement string }
	}
	must(t, json.Unmarshal(data, &b))
	if b.SPDXVersion != "SPDX-2.3" || b.DataLicense != "CC0-1.0" || b.SPDXID != "SPDXRef-DOCUMENT" || b.Name == "" ||
		!regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(b.DocumentNamespace) {
		t.Errorf("the head is %.400s", data)
	}
	if _, err := time.Parse("2006-01-02T15:04:05Z", b.CreationInfo.Created); err != nil || len(b.CreationInfo.Creators) != 1 || !strings.HasPrefix(b.CreationInfo.Creators[0], "Tool: ") {
		t.Errorf("creationInfo is %+v, %v", b.CreationInfo, err)
	}
	ids := map[string]bool{b.SPDXID: true}
	purls := map[string]bool{}
	id := regexp.MustCompile(`^SPDXRef-[A-Za-z0-9.-]+$`)
	for _, p := range b.Packages {
		if p.Name == "" || !id.MatchString(p.SPDXID) || ids[p.SPDXID] || p.VersionInfo == "" || p.DownloadLocation == "" || p.FilesAnalyzed == nil || *p.FilesAnalyzed ||
			p.LicenseDeclared == "" || p.CopyrightText == "" || len(p.ExternalRefs) != 1 || p.ExternalRefs[0].ReferenceType != "purl" || p.ExternalRefs[0].ReferenceCategory != "PACKAGE-MANAGER" {
			t.Errorf("not a valid package: %+v", p)
			continue
		}
		ids[p.SPDXID], purls[p.ExternalRefs[0].ReferenceLocator] = true, true
	}
	described := 0
	for _, r := range b.Relationships {
		if !ids[r.SPDXElementID] || !ids[r.RelatedSPDXElement] || r.RelationshipType != "CONTAINS" && r.RelationshipType != "DESCRIBES" {
			t.Errorf("not a valid relationship: %+v", r)
		}
		if r.RelationshipType == "DESCRIBES" {
			described++
		}
	}
	if described != 1 || len(b.Relationships) != len(b.Packages) {
		t.Errorf("%d relationships of %d packages, %d of the document", len(b.Relationships), len(b.Packages), described)
	}
	if got := b.Packages[0].Checksums; len(got) != 1 || got[0].ChecksumValue != testProgram(t).SHA256 {
		t.Errorf("the program's checksum is %+v", got)
	}
	bin, err := built()
	must(t, err)
	deps := 0
	for line := range strings.Lines(output(t, "go", "version", "-m", bin)) {
		if f := strings.Fields(line); f[0] == "dep" {
			deps++
			if want := "pkg:golang/" + f[1] + "@" + strings.ReplaceAll(f[2], "+", "%2B"); !purls[want] {
				t.Errorf("%s is missing", want)
			}
		}
	}
	rules, err := keyRules("..")
	must(t, err)
	if at := slices.IndexFunc(b.Packages, func(p sbomPackage) bool { return p.LicenseDeclared == "MIT" }); at < 0 || b.Packages[at].VersionInfo != rules.Version || !purls["pkg:golang/"+rules.Path+"@"+rules.Version] {
		t.Errorf("the rules of gitleaks %s are missing", rules.Version)
	}
	if deps < 20 || deps+3 != len(b.Packages) {
		t.Errorf("%d modules, %d packages", deps, len(b.Packages))
	}
}

// The commands are those of docs/install.md.
func TestChecksumsAreSigned(t *testing.T) {
	tool(t, "ssh-keygen")
	tool(t, "sha256sum")
	dir, keys := t.TempDir(), t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "remit.deb"), []byte("a package"), 0o644))
	must(t, writeSums(dir))
	key := filepath.Join(keys, "key")
	output(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
	must(t, signSums(dir, key))
	must(t, writeSums(dir)) // the signature is not in the list
	public, err := os.ReadFile(key + ".pub")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "allowed_signers"), append([]byte("remit "), public...), 0o644))
	verify := func(namespace string) error {
		cmd := exec.Command("sh", "-c", "ssh-keygen -Y verify -f allowed_signers -I remit -n "+namespace+" -s SHA256SUMS.sig < SHA256SUMS && sha256sum -c --ignore-missing SHA256SUMS")
		cmd.Dir = dir
		return cmd.Run()
	}
	must(t, verify(namespace))
	if verify("file") == nil {
		t.Error("the signature counts for another purpose")
	}
	must(t, os.WriteFile(filepath.Join(dir, "remit.deb"), []byte("another package"), 0o644))
	if verify(namespace) == nil {
		t.Error("another package passes")
	}
	must(t, os.Remove(filepath.Join(dir, "allowed_signers")))
	must(t, writeSums(dir))
	must(t, os.WriteFile(filepath.Join(dir, "allowed_signers"), append([]byte("remit "), public...), 0o644))
	if verify(namespace) == nil {
		t.Error("other checksums pass under the old signature")
	}
	if signSums(dir, key+".missing") == nil {
		t.Error("a missing key signs")
	}
	must(t, os.Mkdir(filepath.Join(dir, "folder"), 0o755))
	if writeSums(dir) == nil {
		t.Error("a folder among the files is left out in silence")
	}
}
