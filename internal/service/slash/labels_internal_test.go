package slash

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/agents/chat"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/tools/extension"
)

// The last response keeps its labels until it is analyzed, in a run that begins with them.
func TestAnAnalysisHasTheLabelsOfWhatItAnalyzes(t *testing.T) {
	cfg, err := home.FromEnv([]string{"REMIT_HOME=" + t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	s := &Commands{Home: &home.Home{Config: cfg}}
	seen := &runner.Context{}
	seen.Add([]string{"private", "web"})
	key := sessionKey("s", "/ws")
	read := chat.Route{Command: "call", Tool: "fs.read"}
	if err := s.keep(key, read, uuid.New(), runner.Outcome{Tool: "fs.read", Created: time.Now(), Output: map[string]any{"content": "the plan"}}, seen); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"response", "schema"} {
		var labels runner.Context
		if _, err := s.call(chat.Route{Command: "x", Name: name, Kind: extension.RunAnalyze}, key, "scripted:a.yaml", &labels); err != nil {
			t.Fatal(err)
		}
		if got := labels.Labels(); !slices.Equal(got, []string{"private", "web"}) {
			t.Errorf("%s begins with the labels %q", name, got)
		}
	}
}
