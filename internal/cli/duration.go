package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/base/document"
)

// durationValue is a flag whose value document.ParseDuration reads.
type durationValue time.Duration

// durationVar adds such a flag.
func durationVar(c *cobra.Command, to *time.Duration, name string, value time.Duration, usage string) {
	*to = value
	c.Flags().Var((*durationValue)(to), name, usage)
	if value == 0 {
		c.Flags().Lookup(name).DefValue = "" // the usage has the meaning of no value
	}
}

// String implements pflag.Value.
func (d *durationValue) String() string { return time.Duration(*d).String() }

// Type implements pflag.Value.
func (d *durationValue) Type() string { return "duration" }

// Set implements pflag.Value.
func (d *durationValue) Set(text string) error {
	v, err := document.ParseDuration(text)
	if err == nil {
		*d = durationValue(v)
	}
	return err
}
