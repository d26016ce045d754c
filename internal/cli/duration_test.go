package cli

import (
	"testing"
	"time"

	"github.com/spf13/cobra"
)

func TestADurationFlagTakesDays(t *testing.T) {
	var d time.Duration
	c := &cobra.Command{}
	fl := c.Flags()
	durationVar(c, &d, "for", 20*time.Second, "how long")
	if d != 20*time.Second || fl.Lookup("for").DefValue != "20s" {
		t.Errorf("default %s, %q", d, fl.Lookup("for").DefValue)
	}
	if err := fl.Parse([]string{"--for", "7d"}); err != nil || d != 7*24*time.Hour {
		t.Errorf("%s, %v", d, err)
	}
	if err := fl.Parse([]string{"--for", "7 days"}); err == nil {
		t.Error("7 days is a duration")
	}
}
