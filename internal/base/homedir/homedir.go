// Package homedir finds $REMIT_HOME. The client of the hooks is built from it, so it imports nothing
// that takes time when a process starts. Start at [Find].
package homedir

// Find returns the folder that the environment names; "": it names none. A relative path is
// only possible in REMIT_HOME.
func Find(lookup func(name string) (string, bool)) string {
	if dir, _ := lookup("REMIT_HOME"); dir != "" {
		return dir
	}
	if dir, _ := lookup("XDG_DATA_HOME"); len(dir) > 0 && dir[0] == '/' {
		return dir + "/remit"
	}
	if dir := Person(lookup); dir != "" {
		return dir + "/.local/share/remit"
	}
	return ""
}

// Person returns the person's home folder; "": the environment names none.
func Person(lookup func(name string) (string, bool)) string {
	if dir, _ := lookup("HOME"); len(dir) > 0 && dir[0] == '/' {
		return dir
	}
	return ""
}
