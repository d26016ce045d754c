package cli

import (
	"testing"
	"time"

	"github.com/spf13/cobra"
)

func TestDurations(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "7d": 7 * day, "2w": 14 * day, "1w2d": 9 * day, "1d12h": 36 * time.Hour,
		"1w1h": 7*day + time.Hour, "0": 0, "-1h": -time.Hour, "1.5h": 90 * time.Minute,
	} {
		got, err := parseDuration(text)
		if err != nil || got != want {
			t.Errorf("%q is read as %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "7", "7x", "-7d", "1.5d", "2d1w", "7d-1h", "7d7d", "7 d", "99999999d", "65535w", "1d9223372036s9223372036s"} {
		if got, err := parseDuration(text); err == nil {
			t.Errorf("%q is read as %s", text, got)
		}
	}
}

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
