package cli

import (
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

// Build describes a build of the program.
type Build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`   // the source's commit; empty if it was not built in a repository
	Date     string `json:"date,omitempty"`     // the time of that commit, not of the build
	Modified bool   `json:"modified,omitempty"` // the source differed from that commit
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

// NewBuild reads what the compiler embedded. The release's version comes from the linker,
// or from the module if `go install` built it.
func NewBuild(version string, info *debug.BuildInfo) Build {
	b := Build{Version: version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if info == nil {
		return b
	}
	if m := info.Main.Version; version == "dev" && semver.IsValid(m) && semver.Build(m) == "" && !module.IsPseudoVersion(m) {
		b.Version = m
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Date = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// String formats a build on one line.
func (b Build) String() string {
	var parts []string
	if b.Commit != "" {
		commit := "commit " + b.Commit[:min(12, len(b.Commit))]
		if b.Modified {
			commit += ", modified"
		}
		parts = append(parts, commit)
	}
	if day, _, ok := strings.Cut(b.Date, "T"); ok {
		parts = append(parts, day)
	}
	parts = append(parts, b.Go, b.OS+"/"+b.Arch)
	return "remit " + b.Version + " (" + strings.Join(parts, ", ") + ")"
}

func (s *session) versionCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long: `Prints the version, the commit that it was built from, the time of that commit,
and the compiler. The same commit and compiler make the same program, byte for
byte, so the time of the build is not recorded.
`,
		Example: "  remit version --json",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return s.printVersion() },
	}
}

func (s *session) printVersion() error {
	info, _ := debug.ReadBuildInfo() // without it, the version stands alone
	b := NewBuild(s.version, info)
	if s.json {
		return s.printJSON(b)
	}
	s.printf("%s\n", b)
	return nil
}
