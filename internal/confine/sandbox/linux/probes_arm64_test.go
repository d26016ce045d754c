//go:build linux

package linux_test

import "errors"

func compat(string) error { return errors.New("there is no such door") }

var otherTables []attempt
