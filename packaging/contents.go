package main

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/cli"
)

//go:embed files
var own embed.FS

// File is one file of a package.
type File struct {
	Path    string // absolute
	Mode    fs.FileMode
	Data    []byte
	Formats []string // packages that it is for; none: all
}

// in reports whether a format of packages has the file.
func (f File) in(format string) bool {
	return len(f.Formats) == 0 || slices.Contains(f.Formats, format)
}

const docFolder = "/usr/share/doc/remit/"

// documents returns all files but the program: they are the same on every architecture.
func documents(repo string, r Release, programs []Program) ([]File, error) {
	var out []File
	add := func(at string, data []byte, formats ...string) {
		out = append(out, File{at, 0o644, data, formats})
	}
	for name, text := range manual(r) {
		add("/usr/share/man/man1/"+name+".gz", compressed([]byte(text)))
	}
	if err := completions(add); err != nil {
		return nil, err
	}
	for _, f := range []struct {
		name, at string
		formats  []string
	}{
		{"remit.service", "/usr/lib/systemd/system/remit.service", []string{"deb", "rpm"}},
		{"remit-user.service", "/usr/lib/systemd/user/remit.service", []string{"deb", "rpm"}},
		{"apparmor", "/usr/share/remit/apparmor", []string{"deb", "rpm"}},
		{"copyright", docFolder + "copyright", []string{"deb"}},
		{"lintian", "/usr/share/lintian/overrides/remit", []string{"deb"}},
	} {
		data, err := own.ReadFile("files/" + f.name)
		if err != nil {
			return nil, err
		}
		add(f.at, data, f.formats...)
	}
	texts, err := filepath.Glob(filepath.Join(repo, "docs", "*.md"))
	if err != nil {
		return nil, err
	}
	for _, at := range append(texts, filepath.Join(repo, "README.md"), filepath.Join(repo, "SECURITY.md")) {
		data, err := os.ReadFile(at)
		if err != nil {
			return nil, err
		}
		name, err := filepath.Rel(repo, at)
		if err != nil {
			return nil, err
		}
		add(docFolder+filepath.ToSlash(name), data)
	}
	licence, err := os.ReadFile(filepath.Join(repo, "LICENSE"))
	if err != nil {
		return nil, err
	}
	add(licencePath, licence, "rpm", "apk", "image")
	notices, err := thirdParty(repo, programs)
	if err != nil {
		return nil, err
	}
	add(noticesPath, notices)
	add(docFolder+"changelog.Debian.gz", compressed([]byte(changelog(r))), "deb")
	slices.SortFunc(out, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}

// completions adds the scripts of the shells, where each distribution looks for them.
func completions(add func(string, []byte, ...string)) error {
	root := cli.Commands()
	var bash, zsh, fish bytes.Buffer
	if err := errors.Join(root.GenBashCompletionV2(&bash, true), root.GenZshCompletion(&zsh), root.GenFishCompletion(&fish, true)); err != nil {
		return err
	}
	add("/usr/share/bash-completion/completions/remit", bash.Bytes())
	add("/usr/share/zsh/vendor-completions/_remit", zsh.Bytes(), "deb")
	add("/usr/share/zsh/site-functions/_remit", zsh.Bytes(), "rpm", "apk")
	add("/usr/share/fish/vendor_completions.d/remit.fish", fish.Bytes())
	return nil
}

// compressed is gzip without a name and a time.
func compressed(data []byte) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(data)
		err = errors.Join(err, w.Close())
	}
	if err != nil {
		panic(err) // a buffer takes everything
	}
	return b.Bytes()
}

// changelog is Debian's form of the release: CHANGELOG.md and changelog/unreleased tell the changes.
func changelog(r Release) string {
	what := "Release " + r.Version + "."
	if r.Commit != "" {
		what = "Release " + r.Version + ", built from commit " + r.Commit[:min(12, len(r.Commit))] + "."
	}
	return fmt.Sprintf("remit (%s-1) unstable; urgency=medium\n\n  * %s\n\n -- %s  %s\n", r.Version, what, r.Maintainer, r.Date.Format(time.RFC1123Z))
}

// noticesPath has the licences that the programs' modules ask to be handed on, licencePath Remit's own.
const (
	noticesPath = docFolder + "third-party-notices.gz"
	licencePath = "/usr/share/licenses/remit/LICENSE"
)

// isLicence reports whether a file must be handed on with every copy of the programs.
func isLicence(f File) bool { return f.Path == licencePath || f.Path == noticesPath }

// thirdParty joins the licences of all modules that are linked into the programs, and of the rules that are copied.
func thirdParty(repo string, programs []Program) ([]byte, error) {
	linked := modules(programs)
	folders, err := moduleFolders(repo, linked)
	if err != nil {
		return nil, err
	}
	std := &debug.Module{Path: "Go's standard library and runtime", Version: programs[0].Info.GoVersion}
	folders[std.Path] = folders["golang.org/x/sys"] // the same licence of the same authors
	var b bytes.Buffer
	add := func(title, text string) {
		fmt.Fprintf(&b, "%s\n%s\n\n%s\n\n", title, strings.Repeat("=", len(title)), strings.TrimSpace(text))
	}
	for _, m := range append(linked, std) {
		text, err := licences(folders[m.Path])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Path, err)
		}
		add(m.Path+" "+m.Version, text)
	}
	rules, err := keyRules(repo)
	if err != nil {
		return nil, err
	}
	add(rules.Path+" "+rules.Version, string(rules.Licence))
	return compressed(b.Bytes()), nil
}

// modules are the modules linked into any of the programs, without Remit itself.
func modules(programs []Program) []*debug.Module {
	var out []*debug.Module
	for _, p := range programs {
		out = append(out, p.Info.Deps...)
	}
	slices.SortFunc(out, func(a, b *debug.Module) int { return strings.Compare(a.Path, b.Path) })
	return slices.CompactFunc(out, func(a, b *debug.Module) bool { return a.Path == b.Path })
}

// moduleFolders gives the folder of each module in Go's cache, where the build left it.
func moduleFolders(repo string, modules []*debug.Module) (map[string]string, error) {
	args := []string{"mod", "download", "-json"}
	for _, m := range modules {
		args = append(args, m.Path+"@"+m.Version)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = repo
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go mod download: %w\n%s", err, out)
	}
	folders := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var m struct{ Path, Dir string }
		if err := d.Decode(&m); err != nil {
			return nil, err
		}
		folders[m.Path] = m.Dir
	}
	return folders, nil
}

// licences joins the licence files of a module. A module without any may not be distributed.
func licences(folder string) (string, error) {
	if folder == "" {
		return "", errors.New("the module is not in Go's module cache")
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return "", err
	}
	var parts []string
	for _, e := range entries {
		base := strings.ToUpper(strings.TrimSuffix(e.Name(), path.Ext(e.Name())))
		if !e.Type().IsRegular() || !slices.ContainsFunc([]string{"LICENSE", "LICENCE", "COPYING", "NOTICE"}, func(p string) bool { return strings.HasPrefix(base, p) }) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			return "", err
		}
		parts = append(parts, string(data))
	}
	if len(parts) == 0 {
		return "", fmt.Errorf("no licence file in %s", folder)
	}
	return strings.Join(parts, "\n"), nil
}
