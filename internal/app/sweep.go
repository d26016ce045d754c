package app

import (
	"fmt"
)

// keptCheck tells of what old runs wrote.
func (a *App) keptCheck() Check {
	c := Check{Name: "undo"}
	k, err := a.Changes.Folder().Kept()
	if err != nil {
		c.Detail = err.Error()
		return c
	}
	set := a.Home.Settings.Changes
	age, most := "for ever", ""
	if set.KeepDays > 0 {
		age = fmt.Sprintf("for %d days", set.KeepDays)
	}
	if set.KeepBytes > 0 {
		most = fmt.Sprintf(", at most %d MiB", set.KeepBytes>>20)
	}
	c.OK = true
	c.Detail = fmt.Sprintf("%d changesets wait for a decision; of %d runs %d MiB are kept, %s%s (changes in config.yaml)", k.Waiting, k.Over, k.Bytes>>20, age, most)
	return c
}
