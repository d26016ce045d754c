package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

// Program is a program for one architecture. All facts about it come from the program
// itself, so packages cannot claim another origin.
type Program struct {
	Arch   string // as Go names it
	Data   []byte
	SHA256 string
	Info   *buildinfo.BuildInfo
	Hook   []byte // the program remit-hook
}

// ReadProgram reads a built program and the hook beside it. It refuses one that is not static and reproducible.
func ReadProgram(path string) (Program, error) {
	p, err := readProgram(path, "remit")
	if err != nil {
		return p, err
	}
	hook, err := readProgram(path+"-hook", "remit-hook")
	if err == nil && (hook.Arch != p.Arch || hook.setting("vcs.revision") != p.setting("vcs.revision")) {
		err = fmt.Errorf("%s-hook was not built with %s", path, path)
	}
	p.Hook = hook.Data
	return p, err
}

func readProgram(path, name string) (Program, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return Program{}, fmt.Errorf("%s: %w", path, err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return Program{}, err
	}
	sum := sha256.Sum256(data)
	p := Program{Data: data, SHA256: hex.EncodeToString(sum[:]), Info: info}
	p.Arch = p.setting("GOARCH")
	if info.Path != "github.com/remitrun/remit/cmd/"+name {
		return Program{}, fmt.Errorf("%s was built from %q, not from cmd/%s", path, info.Path, name)
	}
	for key, want := range map[string]string{"GOOS": "linux", "CGO_ENABLED": "0", "-trimpath": "true"} {
		if got := p.setting(key); got != want {
			return Program{}, fmt.Errorf("%s was built with %s=%q, expected %q: build it with make build", path, key, got, want)
		}
	}
	return p, nil
}

// setting returns a setting of the build, "" if it was not set.
func (p Program) setting(key string) string {
	for _, s := range p.Info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

// Release identifies the packaged release.
type Release struct {
	Version    string // as Debian and RPM order it, as 1.2.3 or 0.0.0~git20261123.680e6f7c1a2b
	Alpine     string // as apk orders it
	NPM        string // as npm orders it
	Commit     string // empty if the programs were not built in a repository
	Date       time.Time
	Maintainer string
}

var describe = regexp.MustCompile(`^(v\d+\.\d+\.\d+[0-9A-Za-z.-]*?)(?:-(\d+)-g[0-9a-f]+)?(?:-dirty)?$`)

// NewRelease derives the release from `git describe` and what the programs embed. epoch is
// $SOURCE_DATE_EPOCH, which dates programs that were not built in a repository.
func NewRelease(version, maintainer string, programs []Program, epoch string) (Release, error) {
	r := Release{Commit: programs[0].setting("vcs.revision"), Maintainer: maintainer}
	for _, p := range programs[1:] {
		if got := p.setting("vcs.revision"); got != r.Commit {
			return r, fmt.Errorf("the programs were built from two commits: %q and %q", r.Commit, got)
		}
	}
	if stamp := programs[0].setting("vcs.time"); stamp != "" {
		t, err := time.Parse(time.RFC3339, stamp)
		if err != nil {
			return r, err
		}
		r.Date = t.UTC()
	} else {
		n, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil || n <= 0 {
			return r, fmt.Errorf("the programs were not built in a repository: set SOURCE_DATE_EPOCH to the source's date (got %q)", epoch)
		}
		r.Date = time.Unix(n, 0).UTC()
	}
	r.number(version)
	return r, nil
}

// number sets the versions of the package formats. Between two releases they carry the date
// and the commit.
func (r *Release) number(version string) {
	base, exact := "v0.0.0", false
	if m := describe.FindStringSubmatch(version); m != nil && semver.IsValid(m[1]) {
		base, exact = m[1], m[2] == "" && !strings.HasSuffix(version, "-dirty")
	}
	pre := strings.TrimPrefix(semver.Prerelease(base), "-")
	core := strings.TrimPrefix(strings.TrimSuffix(base, semver.Prerelease(base)), "v")
	r.Version, r.Alpine = core, core
	if pre != "" {
		r.Version += "~" + strings.ReplaceAll(pre, "-", ".")
		r.Alpine += alpineSuffix(pre)
	}
	if exact {
		r.NPM = semanticVersion(core, pre, "")
		return
	}
	sep := "+git"
	if base == "v0.0.0" {
		sep = "~git" // before any release
	}
	day := r.Date.Format("20060102")
	r.Version += sep + day
	stamp := "git" + day
	if r.Commit != "" {
		commit := r.Commit[:min(12, len(r.Commit))]
		r.Version += "." + commit
		stamp += ".g" + commit // a number may not begin with 0 there
	}
	r.Alpine += "_git" + day
	r.NPM = semanticVersion(core, pre, stamp)
}

var alpinePre = regexp.MustCompile(`^(alpha|beta|pre|rc)[.-]?(\d*)$`)

// alpineSuffix writes a pre-release as apk orders it; one that apk does not know becomes a
// plain pre-release.
func alpineSuffix(pre string) string {
	if m := alpinePre.FindStringSubmatch(pre); m != nil {
		return "_" + m[1] + m[2]
	}
	return "_pre"
}
