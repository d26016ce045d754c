package cli_test

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/remitrun/remit/internal/cli"
)

func TestVersionsComeFromTheBuild(t *testing.T) {
	stamped := func(main string, settings ...string) *debug.BuildInfo {
		info := &debug.BuildInfo{Main: debug.Module{Version: main}}
		for i := 0; i < len(settings); i += 2 {
			info.Settings = append(info.Settings, debug.BuildSetting{Key: settings[i], Value: settings[i+1]})
		}
		return info
	}
	const commit = "680e6f7c1a2b3c4d5e6f708192a3b4c5d6e7f809"
	machine := runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH + ")"
	for name, c := range map[string]struct {
		version string
		info    *debug.BuildInfo
		want    string
	}{
		"nothing embedded":             {"dev", nil, "remit dev (" + machine},
		"the linker's version":         {"v1.2.3", stamped("v1.0.0"), "remit v1.2.3 (" + machine},
		"go install of a release":      {"dev", stamped("v1.2.3"), "remit v1.2.3 (" + machine},
		"a version made of the commit": {"dev", stamped("v0.0.0-20261123050000-680e6f7c1a2b"), "remit dev (" + machine},
		"a modified release":           {"dev", stamped("v1.2.3+dirty"), "remit dev (" + machine},
		"not a version":                {"dev", stamped("(devel)"), "remit dev (" + machine},
		"a repository": {
			"v1.2.3", stamped("", "vcs.revision", commit, "vcs.time", "2026-11-23T05:00:00Z", "vcs.modified", "false"),
			"remit v1.2.3 (commit 680e6f7c1a2b, 2026-11-23, " + machine,
		},
		"a modified repository": {
			"v1.2.3", stamped("", "vcs.revision", commit, "vcs.time", "2026-11-23T05:00:00Z", "vcs.modified", "true"),
			"remit v1.2.3 (commit 680e6f7c1a2b, modified, 2026-11-23, " + machine,
		},
		"a short commit": {"v1", stamped("", "vcs.revision", "68", "vcs.time", "today"), "remit v1 (commit 68, " + machine},
	} {
		t.Run(name, func(t *testing.T) {
			if got := cli.NewBuild(c.version, c.info).String(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
