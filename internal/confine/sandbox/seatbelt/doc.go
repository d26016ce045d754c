// Package seatbelt runs commands confined by macOS. The profile of a command is the one
// that package sandbox computes for every system; here it becomes the text of a Seatbelt
// profile, which /usr/bin/sandbox-exec applies before it executes the command.
//
// Seatbelt has no namespaces: the command shares the machine's file tree, process numbers
// and network. It is therefore weaker than full isolation, and runs only under policies
// that accept isolation: landlock. It refuses settings that it cannot enforce.
//
// All of it but the lookup of descendants is portable, so that the tests of every system
// run it. Start at [Box.Run] for what happens, and [Compile] for the profile.
package seatbelt
