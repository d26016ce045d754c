package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Every command that takes a run takes the names of the newest ones.
func TestEveryCommandTakesTheNewestRunsByName(t *testing.T) {
	tests := [][]string{{"runs", "--before", "@0"}, {"verify", "--proof", "@0"}}
	var walk func(c *cobra.Command, path []string)
	walk = func(c *cobra.Command, path []string) {
		for _, sub := range c.Commands() {
			walk(sub, append(path[:len(path):len(path)], sub.Name()))
		}
		if strings.Contains(c.Use, "RUN") {
			args := append(path[:len(path):len(path)], "@0")
			if strings.Contains(c.Use, "RUN CALL") {
				args = append(args, "1")
			}
			tests = append(tests, args)
		}
	}
	walk((&session{}).root(), nil)
	if len(tests) < 10 {
		t.Errorf("only %d commands take a run: %q", len(tests), tests)
	}
	for _, args := range tests {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			var errs bytes.Buffer
			status := Main(context.Background(), args, Streams{In: strings.NewReader(""), Out: &errs, Err: &errs}, []string{"REMIT_HOME=" + t.TempDir()}, "test")
			if status != 2 || !strings.Contains(errs.String(), `"@0" is not a valid run; expected @1`) {
				t.Errorf("status %d, %s", status, errs.String())
			}
		})
	}
}
