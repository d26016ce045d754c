package command

// Known reports whether what a program starts is looked at.
func Known(name string) bool { return programs()[name] != nil }
