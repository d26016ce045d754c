package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/base/document"
)

// durationValue is a flag that takes a duration as document.ParseDuration reads it.
type durationValue time.Duration

// durationVar adds such a flag.
func durationVar(c *cobra.Command, to *time.Duration, name string, value time.Duration, usage string) {
	*to = value
	c.Flags().Var((*durationValue)(to), name, usage)
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
